from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gymnasium.spaces import Discrete, Text
from pettingzoo import AECEnv, ParallelEnv

from toolorchestra.envs import make_multiagent
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.several_agents import random_messages
from toolorchestra.envs.external import SEEDS, ExternalEnv
from toolorchestra.envs.play import EpisodeLimits
from toolorchestra.envs.starts import EpisodeStart
from toolorchestra.toolscale.common.errors import OptionError

GAME = '''
import random
from gymnasium.spaces import Text
from pettingzoo import AECEnv


class Guess(AECEnv):
    """The teller sees a digit and says something; the guesser is paid 2 for the digit, and both lose 1 otherwise."""

    metadata = {"name": "guess_v0"}

    def __init__(self, rounds=1):
        self.possible_agents = ["teller", "guesser"]
        self.rounds = rounds

    def action_space(self, agent):
        return Text(8, charset="0123456789 ")

    observation_space = action_space

    def reset(self, seed=None, options=None):
        self.rng = random.Random(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection, self.left, self.said = "teller", self.rounds, ""
        self.digit = str(self.rng.randrange(10))

    def observe(self, agent):
        return f"The digit is {self.digit}." if agent == "teller" else f"You hear: {self.said}"

    def step(self, action):
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        if agent == "teller":
            self.said, self.agent_selection = action, "guesser"
            return
        right = action.strip() == self.digit
        self.rewards = {"teller": 0.0 if right else -1.0, "guesser": 2.0 if right else -1.0}
        self.left -= 1
        self.agent_selection, self.digit = "teller", str(self.rng.randrange(10))
        if not self.left:
            self.terminations = dict.fromkeys(self.agents, True)


def game(rounds=1):
    return Guess(rounds)


def random_message(env, rng):
    return str(rng.randrange(10))
'''


@pytest.fixture(autouse=True)
def _own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "guessing.py").write_text(GAME)
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.fixture
def env() -> ExternalEnv:
    made = make_multiagent("guessing:game", rounds=3)
    assert isinstance(made, ExternalEnv)
    return made


def play(env: ExternalEnv, guess: Callable[[str], str]) -> Any:
    """Play to the end: the teller tells the digit, the guesser makes something of it."""
    while not env.play.over:
        observation = env.observe(env.agent_selection)
        digit = "".join(c for c in observation.rsplit(" ", 1)[1] if c.isdigit())
        env.step(digit if env.agent_selection == "teller" else guess(digit))
    return env.episode


def test_the_reward_of_each_agent_is_the_sum_of_its_own_rewards(env: ExternalEnv) -> None:
    env.reset(seed=0, options={"task_id": "guess_v0/seed/train-00005"})
    answers = iter([False, True, True])
    episode = play(env, lambda digit: digit if next(answers) else str((int(digit) + 1) % 10))
    assert episode.rewards == {"teller": -1.0, "guesser": 3.0}
    assert (episode.reward, episode.outcome) == (1.0, "solved")
    assert len(episode.turns) == 6


def test_agents_know_only_what_they_observed(env: ExternalEnv) -> None:
    env.reset(seed=0)
    play(env, lambda digit: digit)
    teller, guesser = (env.episode.history(agent) for agent in ("teller", "guesser"))
    assert [m["role"] for m in teller] == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]
    assert all("You hear" not in str(m["content"]) for m in teller)
    assert all("The digit is" not in str(m["content"]) for m in guesser)


def test_a_seed_is_a_task_and_splits_have_seeds_of_their_own(env: ExternalEnv) -> None:
    ids = {split: {task.id for task in env.source.tasks(split)} for split in SEEDS}
    assert {split: len(found) for split, found in ids.items()} == SEEDS
    assert len({task.bindings["seed"] for task in env.source.tasks("all")}) == sum(SEEDS.values())
    seen = []
    for _ in range(2):
        env.reset(options={"task_id": "guess_v0/seed/test-01030"})
        seen.append(env.observe("teller"))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("said", [None, True, False])
def test_whether_steps_may_block_is_what_the_environment_says(env: ExternalEnv, said: bool | None) -> None:
    if said is not None:
        env._external.may_block = said
    env.reset(seed=0)
    assert env.may_block is said


def test_branches_go_on_apart(env: ExternalEnv) -> None:
    pytest.importorskip("torch", reason="comes with the extra `train`")
    from toolorchestra.algos.rollout.multi_agent import MultiAgentEngine

    slot = MultiAgentEngine(env, {}, {}).start(EpisodeStart(0, {"task_id": "guess_v0/seed/train-00003"}))
    slot.play.act("1")
    twin = slot.fork()
    for _ in range(5):
        twin.play.act("0")
    assert twin.over
    assert not slot.over
    assert len(slot.play.episode.turns) == 1


@pytest.mark.parametrize("action", ["abc", "12345678901234", "", "1a", "<think>7</think>", None, {"digit": 7}])
def test_an_action_outside_of_the_space_is_the_failure_of_who_acts(env: ExternalEnv, action: Any) -> None:
    env.reset(seed=0)
    env.step(action)
    given = action if isinstance(action, str) else ""
    assert env.episode.why == f"teller: expected an action in {env.action_space('teller')}, got {given!r}"
    assert (env.episode.outcome, env.episode.rewards) == ("failed", {"teller": 0.0, "guesser": 0.0})
    assert env.terminations == {"teller": True, "guesser": True}


@pytest.mark.parametrize(
    "action", ["7", "7 ", "\n7\n", "<think>It is 7, I guess.</think>\n7", "<reasoning>a</reasoning>7"]
)
def test_white_space_and_thoughts_around_an_action_do_not_count(env: ExternalEnv, action: str) -> None:
    env.reset(seed=0)
    env.step(action)
    assert env.observe("guesser").endswith(("You hear: 7", "You hear: 7 "))
    assert env.episode.outcome is None


@pytest.mark.parametrize("where", ["reset", "observe", "step", "action_space"])
@pytest.mark.parametrize("error", [ValueError("a fault"), KeyError("x"), ZeroDivisionError()])
def test_an_exception_ends_that_episode_only(
    env: ExternalEnv, monkeypatch: pytest.MonkeyPatch, where: str, error: Exception
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    with monkeypatch.context() as patched:
        if where != "reset":
            env.reset(seed=0)
        patched.setattr(type(env._external), where, fail)
        if where == "reset":
            env.reset(seed=0)
        else:
            env.step("7")
        episode = env.episode
        assert (episode.outcome, episode.why) == ("infra_error", f"{type(error).__name__}: {error}")
        assert (episode.reward, episode.rewards) == (None, {})
        assert all(env.truncations.values())
        assert env.play.branch().over
    env.reset(seed=1)
    assert play(env, lambda digit: digit).outcome == "solved"


def test_episodes_that_cannot_be_reset_are_recorded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from toolorchestra.envs.multiagent.views import CurrentAgentEnv, RandomMessages
    from toolorchestra.envs.records.recording import Tally
    from toolorchestra.envs.run_episodes import run_all

    env = make_multiagent("guessing:game")
    kind = type(env._external)
    reset, count = kind.reset, iter(range(99))
    monkeypatch.setattr(kind, "reset", lambda self, **given: reset(self, **given) if next(count) % 2 else 1 / 0)
    write = random_messages("guessing:game")
    played = run_all(
        lambda: CurrentAgentEnv(env), lambda: RandomMessages(write), [EpisodeStart(n, {}) for n in range(4)], retries=0
    )
    assert [one.outcome for one in played] == ["infra_error", "failed", "infra_error", "failed"]
    summary = Tally(played).summary()
    assert (summary["episodes"], summary["judged"], summary["success_of_all"]) == (4, 2, 0.0)
    assert "2 × infra_error: ZeroDivisionError" in summary["unjudged"]


@pytest.mark.parametrize("reward", [float("nan"), float("-inf"), "two", [1]])
def test_a_reward_that_is_no_finite_number_is_the_environments_failure(
    env: ExternalEnv, monkeypatch: pytest.MonkeyPatch, reward: Any
) -> None:
    step = type(env._external).step

    def odd(self: Any, action: Any) -> None:
        step(self, action)
        self.rewards = {"teller": reward, "guesser": 1.0}

    monkeypatch.setattr(type(env._external), "step", odd)
    env.reset(seed=0)
    env.step("7")
    assert (env.episode.outcome, env.episode.reward) == ("infra_error", None)


@pytest.mark.parametrize(
    ("ends", "said", "outcome"),
    [
        ("terminations", {}, "solved"),
        ("truncations", {}, "failed"),
        ("truncations", {"outcome": "solved"}, "solved"),
        ("terminations", {"outcome": "failed"}, "failed"),
        ("terminations", {"outcome": "judge_error", "verdict": "no judge"}, "judge_error"),
    ],
)
def test_the_outcome_is_what_the_environment_says_or_its_own_end(
    env: ExternalEnv, monkeypatch: pytest.MonkeyPatch, ends: str, said: dict[str, str], outcome: str
) -> None:
    step = type(env._external).step

    def ending(self: Any, action: Any) -> None:
        if self.terminations[self.agent_selection] or self.truncations[self.agent_selection]:
            self._was_dead_step(action)
            return
        step(self, action)
        self.rewards = dict.fromkeys(self.agents, 1.0)
        setattr(self, ends, dict.fromkeys(self.agents, True))
        self.infos["guesser"] = dict(said)

    monkeypatch.setattr(type(env._external), "step", ending)
    env.reset(seed=0)
    env.step("7")
    assert env.episode.outcome == outcome
    assert env.episode.reward == (None if outcome == "judge_error" else 1.0)
    assert all((env.terminations if ends == "terminations" and outcome != "judge_error" else env.truncations).values())


def test_a_truncated_episode_keeps_its_rewards(env: ExternalEnv) -> None:
    env.limits = EpisodeLimits(turns=4)
    env.reset(seed=0)
    episode = play(env, lambda digit: digit)
    assert episode.rewards == {"teller": 0.0, "guesser": 4.0}


def test_it_passes_the_checks_of_environments_with_several_agents() -> None:
    report = check_environment("guessing:game", rounds=2)
    assert report, str(report)


def test_random_messages_come_from_the_action_space_where_the_module_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain.py").write_text(GAME.partition("def random_message")[0])
    write, env = random_messages("plain:game"), make_multiagent("plain:game")
    env.reset(seed=0)
    sent = [write(env, random.Random(seed)) for seed in (*range(20), *range(20))]
    assert sent[:20] == sent[20:]
    assert len(set(sent)) > 10
    assert all(env.action_space("teller").contains(text) and set(text) <= set("0123456789 ") for text in sent)
    assert check_environment("plain:game", rounds=2)


def test_a_parallel_environment_is_played_in_turns() -> None:
    class Both(ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
        metadata = {"name": "both_v0"}  # noqa: RUF012 - PettingZoo's declaration
        possible_agents = ["a", "b"]  # noqa: RUF012
        render_mode = None

        def observation_space(self, agent: str) -> Text:
            return Text(100)

        def action_space(self, agent: str) -> Text:
            return Text(10)

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            self.agents = list(self.possible_agents)
            return dict.fromkeys(self.agents, "Say the same."), {agent: {} for agent in self.agents}

        def step(self, actions: dict[str, str]) -> Any:
            agents, self.agents = self.agents, []
            same = float(actions["a"] == actions["b"])
            over = dict.fromkeys(agents, True)
            return (
                dict.fromkeys(agents, "Over."),
                dict.fromkeys(agents, same),
                over,
                dict.fromkeys(agents, False),
                {agent: {} for agent in agents},
            )

    env = ExternalEnv(Both(), rules="A game.")
    for action, reward in (("x", 1.0), ("y", 0.0)):
        env.reset(seed=0)
        env.step("x")
        assert env.observe("b") == "A game.\n\nYou are b.\n\nSay the same."
        env.step(action)
        assert env.episode.rewards == {"a": reward, "b": reward}


def test_an_observation_that_is_no_text_is_refused_with_the_remedy(
    env: ExternalEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(env._external), "observe", lambda self, agent: 3)
    with pytest.raises(OptionError, match=r"teller observes a int, and models read text: wrap .*returns text"):
        env.reset(seed=0)


def test_what_models_cannot_play_is_refused_with_the_remedy() -> None:
    class Pressing(AECEnv):  # type: ignore[misc]  # PettingZoo ships no types
        metadata = {"name": "pressing_v0"}  # noqa: RUF012 - PettingZoo's declaration
        possible_agents = ["a"]  # noqa: RUF012

        def action_space(self, agent: str) -> Discrete:
            return Discrete(4)

    with pytest.raises(OptionError, match=r"actions of a in pressing_v0 are Discrete\(4\).*wrap"):
        ExternalEnv(Pressing())
    with pytest.raises(OptionError, match=r"Expected a MultiAgentEnv or an environment of PettingZoo, got Random\."):
        ExternalEnv(random.Random())
    with pytest.raises(OptionError, match="There is no module 'nowhere', neither installed nor in "):
        make_multiagent("nowhere:game")
    with pytest.raises(OptionError, match="The module 'guessing' has no 'play': name a function"):
        make_multiagent("guessing:play")
    with pytest.raises(OptionError, match=r"guessing:game cannot be made so: .*unexpected keyword argument 'turns'"):
        make_multiagent("guessing:game", turns=3)
