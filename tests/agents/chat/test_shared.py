"""Real experts asked by several workers: their limits and budgets hold over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion
from toolorchestra.agents.chat.shared import SharedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.evaluation import ExpertTask, ask
from toolorchestra.toolscale.common.errors import ExpertError, OptionError
from toolorchestra.toolscale.workers import driver_calls
from toolorchestra.toolscale.workers.processes import ProcessExecutor
from toolorchestra.toolscale.workers.units import Executor, Unit

TASKS = [ExpertTask(key=str(number), instruction=f"What is {number}?", answer="7") for number in range(8)]


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close the models that live in this process; where workers are used, their executor does so."""
    yield
    driver_calls.close()


def limited_catalog(tmp_path: Path, url: str) -> Catalog:
    """Return a catalogue whose expert `qwen3-32b` may spend half a dollar, at ten cents a request."""
    endpoint = f"{{base_url: '{url}', budget: 0.5, max_concurrency: 1, max_retries: 0}}"
    file = tmp_path / "catalog.yaml"
    file.write_text(f"experts: {{qwen3-32b: {{price: {{input: 1000, output: 0}}, endpoint: {endpoint}}}}}")
    return Catalog.load(file)


def spend_the_budget(executor: Executor, catalog: Catalog) -> list[bool]:
    """Have workers ask for each task by itself until the budget is spent; return which answers were right."""
    units = (Unit((task.key,), ask, (catalog.shared_chat("qwen3-32b"), "q", [task])) for task in TASKS)
    found: list[bool] = []
    with pytest.raises(ExpertError, match=r"expected to spend less than \$0.5"):
        found.extend(evaluations[0].right for evaluations in executor.run(units))
    return found


def test_a_budget_is_one_for_all_workers(fake_server: Any, tmp_path: Path) -> None:
    fake_server.respond = lambda body: fake_server.completion(r"\boxed{7}")
    catalog = limited_catalog(tmp_path, fake_server.url)
    with ProcessExecutor(2) as executor:
        found = spend_the_budget(executor, catalog)
    assert len(fake_server.bodies) == 5
    assert found == [True] * len(found)


def test_in_a_worker_a_catalogue_gives_the_shared_model(fake_server: Any, tmp_path: Path) -> None:
    catalog = limited_catalog(tmp_path, fake_server.url)
    with ProcessExecutor(1) as executor:
        (found,) = executor.run([Unit((), catalog.chat, ("qwen3-32b",))])
    assert isinstance(found, SharedChat)
    with catalog.chat("qwen3-32b") as chat:  # type: ignore[attr-defined]  # an OpenAIChat
        assert not isinstance(chat, SharedChat)


def test_a_shared_model_counts_what_was_asked_through_it_and_keeps_partial_answers(
    fake_server: Any, tmp_path: Path
) -> None:
    fake_server.respond = lambda body: fake_server.completion("Yes.")
    chat = limited_catalog(tmp_path, fake_server.url).shared_chat("qwen3-32b")
    with pytest.raises(BatchError) as found:
        chat.complete([ChatRequest([{"role": "user", "content": "Yes?"}])] * 7)
    assert [isinstance(one, Completion) for one in found.value.results] == [True] * 5 + [False] * 2
    assert (chat.meter.usage.calls, chat.meter.usage.cost) == (5, pytest.approx(0.5))


def test_an_entry_without_an_endpoint_cannot_be_shared() -> None:
    with pytest.raises(OptionError, match="gpt-5: expected an endpoint"):
        Catalog.load().shared_chat("gpt-5")
