from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from toolorchestra.envs.bridges.served import Served

pytest.importorskip("verl", reason="in an environment of its own: bash .ci/bridges verl")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import hydra
    from verl.experimental.agent_loop.agent_loop import DictConfigWrap
    from verl.workers.rollout.replica import TokenOutput

pytestmark = pytest.mark.filterwarnings("ignore")  # of verl and what it brings
ENV = "ToolOrchestra-Restaurant-v0"
TEMPLATE = (
    "{% for one in messages %}<|im_start|> {{ one.role }} {{ one.content }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
)
END = '<tool_call>{"name": "submit", "arguments": {"answer": {}}}</tool_call>'


@pytest.fixture(autouse=True)
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "examples" / "verl"))
    import toolorchestra_loop

    yield toolorchestra_loop
    del sys.modules["toolorchestra_loop"]


class Script:
    """Verl's server, saying what it is told to: each message is one token."""

    def __init__(self, tokenizer: Any, messages: list[str]) -> None:
        self.tokenizer, self.messages, self.prompts = tokenizer, iter(messages), list[list[int]]()

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: Any) -> TokenOutput:
        self.prompts.append(prompt_ids)
        ids = [self.tokenizer.get_vocab()[next(self.messages)], self.tokenizer.eos_token_id]
        return TokenOutput(token_ids=ids, log_probs=[-0.5, -0.25] if sampling_params["logprobs"] else None)


@pytest.fixture
def play(whole_words: Any) -> Any:
    def played(row: dict[str, Any], messages: list[str], limit: int = 10_000, logprobs: bool = True) -> Any:
        tokenizer = whole_words(sorted(set(messages)), chat_template=TEMPLATE)
        script = Script(tokenizer, messages)

        async def run() -> Any:
            lengths = {"prompt_length": 100_000, "response_length": limit}
            config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(**lengths)))
            loop = hydra.utils.instantiate(
                {"_target_": "toolorchestra_loop.OrchestrationLoop"},
                trainer_config=DictConfigWrap(config), server_manager=script, tokenizer=tokenizer, processor=None,
                dataset_cls=None, data_config=DictConfigWrap({}), tools=None,
            )  # fmt: skip
            columns = {name: value for name, value in row.items() if name not in ("prompt", "agent_name")}
            return await loop.run({"logprobs": logprobs}, raw_prompt=row["prompt"], **columns)

        return asyncio.run(run()), script

    return played


def test_episodes_have_the_rewards_of_gymnasium(example: Any, play: Any, reference: Any) -> None:
    for row in example.rows(ENV, 4):
        messages, reward = reference(row["seed"])
        output, _ = play(row, messages)
        assert output.reward_score == reward == 1.0
        assert output.extra_fields["reward_extra_info"]["solved"] == 1.0
        output, _ = play(row, [END])
        assert (output.reward_score, output.extra_fields["reward_extra_info"]["solved"]) == (0.0, 0.0)


def test_the_tokens_are_those_that_the_server_was_shown_and_wrote(example: Any, play: Any, reference: Any) -> None:
    messages, _ = reference(3)
    output, script = play(example.rows(ENV, 1, seed=3)[0], messages)
    assert script.prompts[0] == output.prompt_ids
    whole = output.prompt_ids + output.response_ids
    assert all(whole[: len(prompt)] == prompt for prompt in script.prompts)
    known = script.tokenizer.get_vocab()
    written = [one for one, own in zip(output.response_ids, output.response_mask, strict=True) if own]
    assert written == [one for text in messages for one in (known[text], script.tokenizer.eos_token_id)]
    pairs = zip(output.response_logprobs, output.response_mask, strict=True)
    assert [one for one, own in pairs if own] == [-0.5, -0.25] * len(messages)
    assert output.as_dict()["rm_scores"].sum() == 1.0


def test_an_episode_without_room_for_its_answer_has_failed(example: Any, play: Any, reference: Any) -> None:
    messages, _ = reference(3)
    (row,) = example.rows(ENV, 1, seed=3)
    output, script = play(row, messages, limit=4, logprobs=False)
    assert len(script.prompts) < len(messages)
    assert (output.reward_score, len(output.response_ids), len(output.response_mask)) == (0.0, 4, 4)
    assert output.response_logprobs is None
    output, _ = play(row, messages, limit=1)
    assert (output.reward_score, output.response_mask) == (0.0, [1])


def test_several_agents_are_played_by_one_model(example: Any, play: Any) -> None:
    (row,) = example.rows("MSARL-Math-v0", 1)
    output, _ = play(row, ["```python\nprint(2 ** 10)\n```"] * 50)
    assert output.num_turns > 2
    assert output.reward_score is not None


def test_after_an_infrastructure_error_the_episode_is_played_again(
    example: Any, play: Any, reference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, _ = reference(0)
    (row,) = example.rows(ENV, 1)
    fails = iter([True, True, False])
    step = Served.step

    def failing(game: Served, action: Any) -> Any:
        told = step(game, action)
        return msgspec.structs.replace(told, done=True, reward=None) if next(fails, False) else told

    monkeypatch.setattr(Served, "step", failing)
    output, _ = play(row, [messages[0], messages[0], *messages])
    assert output.reward_score == 1.0
    fails = iter([True] * 3)
    with pytest.raises(RuntimeError, match=f"ended {ENV} 3 times"):
        play(row, [messages[0]] * 3)
