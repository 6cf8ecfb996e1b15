from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar

import gymnasium as gym
import pytest
import torch

from toolorchestra.agents.builtin.compact_renderer import CompactRenderer
from toolorchestra.agents.builtin.model import build_model
from toolorchestra.agents.builtin.renderer import Decoded
from toolorchestra.algos.hardware.batching import bundles
from toolorchestra.algos.rollout import engine, sampling
from toolorchestra.algos.rollout.engine import RolloutEngine, RolloutRequest
from toolorchestra.algos.rollout.sampling import ModelSampler, Sample
from toolorchestra.envs.starts import EpisodeStart, make_env, starts
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError

TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


class Shop(gym.Env[str, Any]):
    """Asks the price of an item; `look` tells it; the right answer is the price."""

    prices: ClassVar = {"pear": "7", "plum": "9", "fig": "12"}
    faults = 0
    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.item = (options or {}).get("task_id", "pear")
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": f"price of {self.item}?"}]
        return "", {"messages": list(self.messages), "tools": [TOOL], "task_id": self.item, "difficulty": 1}

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if isinstance(action, list):
            self.messages.append({"role": "assistant", "content": "", "tool_calls": action})
            result = {"status": "OK", "result": {"price": self.prices[self.item]}}
            self.messages.append({"role": "tool", "content": json.dumps(result)})
            return "", 0.0, False, False, {"messages": list(self.messages)}
        self.messages.append({"role": "assistant", "content": action})
        if Shop.faults > 0:
            Shop.faults -= 1
            return "", 0.0, False, True, {"messages": list(self.messages), "outcome": "infra_error"}
        solved = self.prices[self.item] in action
        outcome = "solved" if solved else "failed"
        return "", float(solved), True, False, {"messages": list(self.messages), "outcome": outcome, "cost": 0.5}


RENDERER = CompactRenderer.build(
    [TOOL], ["price of is ?", "look"], {"item": list(Shop.prices), "price": ["7", "9", "12"]}
)


class Script:
    """A sampler that looks, then answers with the last token it was shown before it writes."""

    def __init__(self, looks: int = 1, ends: bool = True) -> None:
        self.looks, self.ends, self.prompts = looks, ends, []

    def __call__(self, prompts: Sequence[Sequence[int]], limits: Sequence[int], keys: Sequence[int]) -> list[Sample]:
        self.prompts.append([list(prompt) for prompt in prompts])
        return [self._write(list(prompt)) for prompt in prompts]

    def _write(self, prompt: list[int]) -> Sample:
        if prompt.count(RENDERER.index["<result>"]) < self.looks:
            words = ["<call>", "look", "at=", RENDERER.tokens[prompt[3]], "<end>"]
        else:
            words = ["<answer>", RENDERER.tokens[prompt[-2]], "<end>"]
        ids = [RENDERER.index[word] for word in words]
        return Sample(ids if self.ends else ids[:-1], [-0.5] * (len(ids) - (not self.ends)))


def ask(*items: str) -> list[RolloutRequest]:
    return [RolloutRequest(n, EpisodeStart(n, {"task_id": item})) for n, item in enumerate(items)]


@pytest.fixture(autouse=True)
def _no_faults() -> None:
    Shop.faults = Shop.made = 0


def test_rows_come_in_the_order_of_the_requests_with_their_outcome() -> None:
    rows = RolloutEngine(Shop, RENDERER, in_flight=2).play(Script(), ask("pear", "fig", "plum"))
    assert [row.task_id for row in rows] == ["pear", "fig", "plum"]
    assert [(row.outcome, row.reward, row.turns, row.cost, row.answered) for row in rows] == [
        ("solved", 1.0, 2, 0.5, True)
    ] * 3


def test_environments_are_reused() -> None:
    engine = RolloutEngine(Shop, RENDERER, in_flight=2)
    engine.play(Script(), ask("pear", "fig", "plum", "pear", "fig"))
    engine.play(Script(), ask("pear", "fig"))
    assert Shop.made == 2


def test_the_mask_marks_exactly_what_the_policy_wrote() -> None:
    (row,) = RolloutEngine(Shop, RENDERER).play(Script(), ask("fig"))
    written = [RENDERER.tokens[i] for i, m in zip(row.completion_ids, row.mask, strict=True) if m]
    shown = [RENDERER.tokens[i] for i, m in zip(row.completion_ids, row.mask, strict=True) if not m]
    assert written == ["<call>", "look", "at=", "fig", "<end>", "<answer>", "12", "<end>"]
    assert shown == ["<result>", "price", "12", "<assistant>"]
    assert [p for p, m in zip(row.logprobs, row.mask, strict=True) if m] == [-0.5] * 8
    assert [p for p, m in zip(row.logprobs, row.mask, strict=True) if not m] == [0.0] * 4


def test_each_turn_begins_with_all_ids_of_the_turns_before() -> None:
    script = Script(looks=3)
    (row,) = RolloutEngine(Shop, RENDERER).play(script, ask("plum"))
    prompts = [turn[0] for turn in script.prompts]
    for earlier, later in pairwise(prompts):
        assert later[: len(earlier)] == earlier
    whole = row.prompt_ids + row.completion_ids
    assert whole[: len(prompts[-1])] == prompts[-1]


def test_a_renderer_that_rewrites_history_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    class Rewriting(engine.TokenRun):
        def _acted(self, action: Any, *, taken: bool) -> None:
            super()._acted(action, taken=taken)
            self.trajectory.ids[0] = RENDERER.index["<unk>"]

    monkeypatch.setattr(engine, "TokenRun", Rewriting)
    with pytest.raises(AssertionError, match="does not begin with all earlier ids"):
        RolloutEngine(Shop, RENDERER).play(Script(), ask("fig"))


def test_an_infrastructure_error_is_played_again() -> None:
    Shop.faults = 2
    (row,) = RolloutEngine(Shop, RENDERER, retries=2).play(Script(), ask("fig"))
    assert (row.outcome, row.reward) == ("solved", 1.0)


def test_an_error_that_stays_is_not_held_against_the_policy() -> None:
    Shop.faults = 3
    (row,) = RolloutEngine(Shop, RENDERER, retries=2).play(Script(), ask("fig"))
    assert not row.valid
    assert row.reward != row.reward  # NaN: it can enter no mean unnoticed


def test_an_episode_without_end_is_broken_off_as_failed() -> None:
    (row,) = RolloutEngine(Shop, RENDERER, max_turns=3).play(Script(looks=99), ask("fig"))
    assert (row.outcome, row.reward, row.turns, row.answered) == ("failed", 0.0, 3, False)
    assert row.mask[-1] == 1  # nothing is appended that no turn will read


def test_an_episode_that_grows_too_long_is_broken_off() -> None:
    (row,) = RolloutEngine(Shop, RENDERER, max_ids=20).play(Script(looks=99), ask("fig"))
    assert len(row.prompt_ids) + len(row.completion_ids) <= 20 + 5
    assert not row.answered


def test_a_turn_cut_short_is_out_of_format() -> None:
    (row,) = RolloutEngine(Shop, RENDERER).play(Script(ends=False), ask("fig"))
    assert not row.well_formed


@pytest.mark.parametrize(
    ("message", "well_formed"),
    [
        ('<tool_call>{"name": "get_dish", "arguments": {"dish_id": 7}}</tool_call>', True),  # wrong arguments
        ('<tool_call>{"name": "no_such_tool", "arguments": {}}</tool_call>', True),
        ('<tool_call>{"name": "get_dish", "arguments": {</tool_call>', False),
        ("<tool_call>get_dish(7)</tool_call>", False),
    ],
)
def test_a_call_that_can_be_read_is_in_format_whether_it_is_valid_or_not(message: str, well_formed: bool) -> None:
    class Says(type(RENDERER)):
        def decode_action(self, ids: Any, tools: Any, before: Any = ()) -> Decoded:
            return Decoded(message if len(before) < 4 else "It is done.", True)

    renderer = copy.copy(RENDERER)
    renderer.__class__ = Says
    engine = RolloutEngine(partial(gym.make, "ToolOrchestra-Restaurant-v0"), renderer, max_ids=20_000)
    (row,) = engine.play(Script(), [RolloutRequest(0, EpisodeStart(0))])
    assert (row.well_formed, row.calls_valid, row.answered) == (well_formed, False, True)


def test_plain_text_environments_can_be_played() -> None:
    class Echo(gym.Env[str, str]):
        def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
            return "price of fig?", {}

        def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "no", float(action == "12"), action == "12", False, {}

    class Guess(Script):
        def _write(self, prompt: list[int]) -> Sample:
            word = "12" if prompt.count(RENDERER.index["<user>"]) > 1 else "9"
            ids = [RENDERER.index[w] for w in ("<answer>", word, "<end>")]
            return Sample(ids, [0.0] * 3)

    (row,) = RolloutEngine(Echo, RENDERER).play(Guess(), [RolloutRequest(0, EpisodeStart(3))])
    assert (row.outcome, row.turns, row.task_id) == ("solved", 2, "3")


# --------------------------------------------------------------------------------------------- writing by a model


@pytest.fixture(scope="module")
def model() -> Any:
    return build_model(len(RENDERER.tokens), seed=1)


def test_the_same_seed_gives_the_same_rows(model: Any) -> None:
    def play(seed: int) -> list[list[int]]:
        engine = RolloutEngine(Shop, RENDERER, max_turns=2, max_turn_ids=6)
        return [row.completion_ids for row in engine.play(ModelSampler(model, RENDERER, seed=seed), ask("fig", "pear"))]

    assert play(0) == play(0) != play(1)


def test_cached_and_padded_sampling_reports_the_models_own_log_probabilities(model: Any) -> None:
    prompts = [RENDERER.words("price of fig"), RENDERER.words("price of fig ? is is of price")]
    samples = ModelSampler(model, RENDERER, seed=0)(prompts, [5, 9], [0, 1])
    for prompt, sample in zip(prompts, samples, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([prompt + sample.ids])).logits[0]
        expected = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1].gather(1, torch.tensor(sample.ids)[:, None])
        assert torch.allclose(expected[:, 0], torch.tensor(sample.logprobs), atol=1e-5)


def test_what_is_sampled_does_not_depend_on_who_is_sampled_beside(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    prompts = [[rng.randrange(5, 20) for _ in range(rng.choice((2, 5, 20, 60)))] for _ in range(100)]
    limits = [rng.randrange(1, 12) for _ in prompts]
    assert len(bundles(list(map(len, prompts)), 16)) > 2
    sampler = ModelSampler(model, RENDERER, seed=3)
    bundled = [sample.ids for _ in range(2) for sample in sampler(prompts, limits, range(100))]
    monkeypatch.setattr(sampling, "bundles", lambda lengths, *_: [list(range(len(lengths)))])
    sampler = ModelSampler(model, RENDERER, seed=3)
    assert bundled == [sample.ids for _ in range(2) for sample in sampler(prompts, limits, range(100))]


def test_limits_and_stop_ids_end_a_turn(model: Any) -> None:
    prompts = [RENDERER.words("price of fig")] * 3
    short, none, long = ModelSampler(model, RENDERER, seed=0)(prompts, [2, 0, 40], range(3))
    assert len(short.ids) <= 2
    assert none.ids == []
    assert RENDERER.end_id not in long.ids[:-1]


def test_tokens_are_drawn_in_proportion_to_their_probability(model: Any) -> None:
    prompt = RENDERER.words("price of fig")
    drawn = [
        sample.ids[0] for sample in ModelSampler(model, RENDERER, seed=0)([prompt] * 4_000, [1] * 4_000, range(4_000))
    ]
    with torch.no_grad():
        probability = model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    share = torch.bincount(torch.tensor(drawn), minlength=len(probability)) / len(drawn)
    error = (share - probability) / (probability * (1 - probability) / len(drawn)).sqrt()
    assert float(error.abs().max()) < 5.0
    assert 0.8 < float(error.std()) < 1.2


def test_temperature_zero_is_greedy(model: Any) -> None:
    prompts = [RENDERER.words("price of fig")]
    greedy = ModelSampler(model, RENDERER, temperature=0.0, seed=1)(prompts, [1], [0])[0].ids[0]
    with torch.no_grad():
        assert greedy == int(model(torch.tensor(prompts)).logits[0, -1].argmax())


# ---------------------------------------------------------------------------------------------------------- starts


def test_starts_are_the_tasks_of_a_split_by_level() -> None:
    env = make_env("ToolOrchestra-Restaurant-v0", {})
    found = starts(env, "test", (1, 2))
    assert list(found) == [1, 2]
    _, info = env.reset(seed=0, options=found[2][0].options)
    assert (info["split"], info["difficulty"]) == ("test", 2)


def test_an_environment_without_tasks_is_started_by_seeds_that_differ_by_split() -> None:
    train, test = (starts(Shop(), split, (), count=5)[0] for split in ("train", "test"))
    assert len({*train, *test}) == 10


def test_levels_that_do_not_exist_are_refused() -> None:
    with pytest.raises(OptionError, match=r"no task .* with difficulty \[9\]"):
        starts(make_env("ToolOrchestra-Restaurant-v0", {}), "train", (9,))


def test_options_from_a_command_line_mean_what_they_say() -> None:
    env = make_env(
        "ParaManager-Math-v0", {"serial": "true", "cost_target": "4", "pool": "paramanager-unseen"}
    ).unwrapped
    env.reset(seed=0)
    assert env.play.rules.calls == 1
    assert env.play.rules.targets.cost == 4
    assert "gpt-oss-120b" in env.play.tools["standard_reasoner"].parameters["model_id"].enum


def test_another_start_of_a_task_has_a_seed_of_its_own() -> None:
    start = EpisodeStart(0, {"task_id": "math/x"})
    rng = random.Random(0)
    others = {start.another(rng).seed for _ in range(8)}
    assert len(others) == 8
    assert start.another(rng).options == start.options
    assert EpisodeStart(7).another(rng) == EpisodeStart(7)


# ------------------------------------------------------------------------------------------- whose failure it was


class Saying(type(RENDERER)):  # type: ignore[misc]  # the class of an instance
    """Reads every message as the same text."""

    text = ""

    def decode_action(self, ids: Any, tools: Any, before: Any = ()) -> Decoded:
        return Decoded(self.text, True)


def saying(text: str) -> Any:
    renderer = copy.copy(RENDERER)
    renderer.__class__ = Saying
    renderer.text = text
    return renderer


LOOK = '<tool_call>{"name": "list_menu", "arguments": {}}</tool_call>'


@pytest.mark.parametrize("env_id", ["ToolOrchestra-Restaurant-v0", "ParaManager-Math-v0", "ToolOrchestra-Travel-v0"])
@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max_turns": 2, "max_ids": 2_000}, "no answer after 2 turns"),
        ({"max_turns": 99, "max_ids": 2_000}, "no answer within 2000 ids"),
        ({"max_turns": 9, "max_ids": 10}, "no answer within 10 ids"),  # the prompt alone has more
    ],
)
def test_a_limit_of_the_engine_ends_an_episode_as_one_of_the_environment(
    env_id: str, limits: dict[str, int], why: str
) -> None:
    engine = RolloutEngine(partial(gym.make, env_id), saying(LOOK), **limits)
    (row,) = engine.play(Script(), [RolloutRequest(0, EpisodeStart(0))])
    assert (row.outcome, row.why, row.answered, row.valid) == ("failed", why, False, True)
    option = "max_rounds" if env_id.startswith("ParaManager") else "max_turns"
    env: Any = gym.make(env_id, **{option: max(1, row.turns)}).unwrapped
    assert len(row.prompt_ids) + len(row.completion_ids) <= limits["max_ids"]
    assert row.M is not None
    if why.endswith(" 10 ids"):
        assert (row.turns, row.mask, row.reward) == (0, [0], 0.0 if option == "max_turns" else row.reward)
        return
    env.reset(seed=0)
    for _ in range(row.turns):
        *_, reward, _, truncated, _ = env.step(LOOK)
    assert truncated
    assert (row.reward, row.parts) == (reward, env.episode.reward_parts)
    assert row.episode is not None
    assert (row.episode.outcome, row.episode.why, row.episode.reward) == ("failed", why, reward)


class Faulty(Shop):
    """Raises what it is told to, where it is told to."""

    raised: ClassVar[list[tuple[str, Exception]]] = []
    closed = 0

    def _raise(self, where: str) -> None:
        if self.raised and self.raised[0][0] == where:
            raise self.raised.pop(0)[1]

    def reset(self, **given: Any) -> tuple[str, dict[str, Any]]:
        self._raise("reset")
        return super().reset(**given)

    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._raise("step")
        return super().step(action)

    def close(self) -> None:
        Faulty.closed += 1
        raise OSError("it cannot even be closed")


@pytest.mark.parametrize("where", ["reset", "step"])
@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("division by zero"), KeyError("x"), AssertionError(), ValueError("a\nb"), StopIteration()],
)
def test_an_exception_in_a_foreign_environment_ends_that_episode_only(where: str, error: Exception) -> None:
    Faulty.raised, Faulty.closed, Faulty.made = [(where, error)], 0, 0
    engine = RolloutEngine(Faulty, RENDERER, in_flight=1, retries=0)
    rows = engine.play(Script(), ask("pear", "fig", "plum"))
    assert [row.outcome for row in rows] == ["infra_error", "solved", "solved"]
    assert rows[0].unjudged == f"infra_error: {type(error).__name__}: {error}"
    assert rows[0].reward != rows[0].reward
    assert (Faulty.made, Faulty.closed) == (2, 1)  # the one that raised is not used again


def test_an_episode_that_an_exception_ended_is_played_again() -> None:
    Faulty.raised = [("step", ValueError("once")), ("reset", ValueError("twice"))]
    (row,) = RolloutEngine(Faulty, RENDERER, retries=2).play(Script(), ask("fig"))
    assert (row.outcome, row.reward, row.unjudged) == ("solved", 1.0, None)


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), "much", [1.0, 2.0]])
def test_a_reward_that_is_no_finite_number_is_the_environments_failure(reward: Any) -> None:
    class Odd(Shop):
        def step(self, action: Any) -> Any:
            observation, _, *ends = super().step(action)
            return observation, reward, *ends

    (row,) = RolloutEngine(Odd, RENDERER, retries=0).play(Script(), ask("fig"))
    assert row.outcome == "infra_error"


def test_an_option_that_cannot_be_used_is_the_callers_mistake() -> None:
    engine = RolloutEngine(partial(gym.make, "ToolOrchestra-Restaurant-v0"), RENDERER)
    with pytest.raises(UnknownNameError):
        engine.play(Script(), [RolloutRequest(0, EpisodeStart(0, {"task_id": "nowhere"}))])


@pytest.mark.parametrize("action", ["seven", "", "1234", "<think>7", "٧"])
def test_an_action_outside_of_a_foreign_space_is_the_policys_failure(action: str) -> None:
    class Digits(gym.Env[str, str]):
        action_space = gym.spaces.Text(3, charset="0123456789")

        def reset(self, **_: Any) -> tuple[str, dict[str, Any]]:
            return "price of fig?", {}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "no", float(int(action)), False, False, {}

    (row,) = RolloutEngine(Digits, saying(action)).play(Script(), [RolloutRequest(0, EpisodeStart(0))])
    expected = f"expected an action in Text(1, 3, charset=0123456789), got {action!r}"
    assert (row.outcome, row.why, row.reward, row.turns) == ("failed", expected, 0.0, 1)
    assert row.messages[-1] == {"role": "assistant", "content": action}
    (row,) = RolloutEngine(Digits, saying("<think>a</think> 7\n"), max_turns=3).play(
        Script(), [RolloutRequest(0, EpisodeStart(0))]
    )
    assert (row.outcome, row.why, row.reward) == ("failed", "no answer after 3 turns", 21.0)  # the sum so far
