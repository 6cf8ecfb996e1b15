"""The toolkit: which tools a level adds to a world, and what is refused when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from toolorchestra.agents.experts.configurations import BASIC_TOOLS
from toolorchestra.envs.tools.search.search import Passage
from toolorchestra.envs.tools.toolkit import Level, Toolkit
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.tools.tool import NO_CONTEXT

EXPERTS = {
    "query": ("gpt_5", "gpt_5_mini", "qwen3_32b"),
    "code": ("gpt_5", "gpt_5_mini", "qwen2_5_coder_32b"),
    "math": ("qwen2_5_math_72b", "qwen2_5_math_7b"),
    "ask": ("gpt_5", "gpt_5_mini", "llama_3_3_70b", "qwen3_32b"),
}
ALL_EXPERTS = [f"{role}_{name}" for role, names in EXPERTS.items() for name in names]


@pytest.mark.parametrize(
    ("chosen", "added"), [(None, []), ("domain", []), ("basic", [*BASIC_TOOLS]), ("full", [*BASIC_TOOLS, *ALL_EXPERTS])]
)
def test_a_level_adds_tools_after_the_worlds_own(mini: Domain, chosen: Level | None, added: Sequence[str]) -> None:
    kit = Toolkit()
    tools = kit.tools(mini, chosen, kit.configure("evaluation", 0, ""))
    assert [*tools] == [*mini.tools, *added]
    assert all(tools[name] is mini.tools[name] for name in mini.tools)


def test_names_choose_among_what_is_available(mini: Domain) -> None:
    kit = Toolkit()
    config = kit.configure("evaluation", 0, "")
    assert [*kit.tools(mini, ["python", "ask_gpt_5", "get_order", "spun"], config)] == [
        "get_order", "python", "ask_gpt_5",
    ]  # fmt: skip
    assert [*kit.tools(mini, [], config)] == []


def test_the_manual_is_searched_unless_there_is_a_corpus(mini: Domain, tmp_path: Path) -> None:
    write_jsonl(tmp_path / "corpus.jsonl", [Passage("1", "Tern", "A bird of the coast that takes a coupon.")])
    found = {}
    for corpus in (None, tmp_path / "corpus.jsonl"):
        kit = Toolkit(corpus=corpus)
        search = kit.tools(mini, "basic", kit.configure("evaluation", 0, ""))["local_search"]
        (result,) = search.run({"query_list": ["take a coupon"], "k": 1}, NO_CONTEXT).value
        found[corpus is None] = [hit["title"] for hit in result["passages"]]
    assert found == {True: ["The tool take_coupon"], False: ["Tern"]}


def test_what_cannot_be_had_is_refused_when_it_is_asked_for() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown kind of experts 'reel'\. Did you mean 'real'\?"):
        Toolkit(experts="reel")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="`timeout` must be a positive number of seconds, got 0"):
        Toolkit(timeout=0)
    with pytest.raises(UnknownNameError, match=r"Unknown sandbox 'dokcer'\. Did you mean 'docker'\?"):
        Toolkit(sandbox="dokcer")
    with pytest.raises(OptionError, match=r"none\.jsonl cannot be read: No such file"):
        Toolkit(corpus="none.jsonl")
    with pytest.raises(UnknownNameError, match=r"Unknown tool configuration 'evaluatoin'\. Did you mean 'evaluation'"):
        Toolkit().configure("evaluatoin", 0, "")
