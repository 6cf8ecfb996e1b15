"""MAS-GPT: a system for each question from one inference, learnt from consistent pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.baselines.routing import RoutingEvaluation
from examples.searches.mas_gpt import MASGPT, MASPair, paired, recorded
from examples.searches.workflows import single
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.algos.reporting.stats import mean_interval
from toolorchestra.envs.masorchestra.design import to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.orchestrators import make_orchestrator
from toolorchestra.envs.records.recording import Recording
from toolorchestra.toolscale.common.errors import OptionError

SUMS, PLACES, COSTLY = (to_text(single(kind)) for kind in ("SCAgent", "ReflexionAgent", "DebateAgent"))


def evaluations() -> list[RoutingEvaluation]:
    """Sums are solved by one system and questions of places by another, but for two lucky exceptions."""
    found = []
    for number in range(12):
        for question, right in (
            (f"Sum up the numbers {number} and 7.", SUMS),
            (f"Where was Ada {number} born?", PLACES),
        ):
            for system in (SUMS, PLACES, COSTLY):
                solved = system == right if number != 3 else system == (PLACES if right == SUMS else SUMS)
                solved |= system == COSTLY and number < 11  # solves as many, at ten times the price
                found.append(RoutingEvaluation(question, system, solved, 0.1 if system == COSTLY else 0.01))
    return found


def test_similar_questions_are_paired_with_the_one_system_that_solves_most_of_them() -> None:
    pairs = {pair.question: pair.system for pair in paired(evaluations(), groups=2)}
    assert len(pairs) == 24
    assert {system for question, system in pairs.items() if question.startswith("Sum")} == {SUMS}  # the lucky one, too
    assert {system for question, system in pairs.items() if question.startswith("Where")} == {PLACES}
    with pytest.raises(OptionError, match="No system solved any question"):
        paired([RoutingEvaluation("1 + 1?", SUMS, False, 0.1)])


def test_one_inference_writes_the_system_for_a_new_question() -> None:
    policy = MASGPT(pairs=paired(evaluations(), groups=2))
    for question, system in (("Sum up the numbers 40 and 2.", SUMS), ("Where was Ben 99 born?", PLACES)):
        chances = policy.chances(question)
        assert sum(chances) == pytest.approx(1)
        assert policy.systems[int(np.argmax(chances))] == system
        assert max(chances) > 0.8


def test_a_generator_solves_more_than_a_single_agent_in_one_turn() -> None:
    env = MASOrchestraEnv("MultiHopQA", model="gpt-oss-120b")
    policy = MASGPT.fit(env, questions=20, pool=8)
    solved: dict[str, list[float]] = {}
    for name, one in (("generated", policy), ("single", make_orchestrator("single"))):
        infos = [play_episode(env, one, seed=seed, options={"split": "test"}) for seed in range(60)]
        solved[name] = [float(info["outcome"] == "solved") for info in infos]
        assert len(env.episode.turns) == 1
    assert mean_interval(np.subtract(solved["generated"], solved["single"])).low > 0


def test_recorded_episodes_are_learnt_from_as_well(tmp_path: Path) -> None:
    env = MASOrchestraEnv("Math", model="gpt-oss-120b")
    with Recording(tmp_path / "episodes.jsonl", {}) as writer:
        for seed in range(4):
            for name in ("single", "chain"):
                play_episode(env, make_orchestrator(name), seed=seed)
                writer.write(env.episode)
        play_episode(env, make_orchestrator("single"), seed=9)
        env.reset(seed=1)
        env.step("no design")
        writer.write(env.episode)
    found = recorded(tmp_path / "episodes.jsonl")
    assert len(found) == 8
    assert len({one.expert for one in found}) == 2
    policy = MASGPT(pairs=paired(found))
    assert play_episode(env, policy, seed=3)["rule"] is None


def test_impossible_options_are_refused() -> None:
    with pytest.raises(OptionError, match=r"MASGPT.fit\(env\)"):
        MASGPT()
    with pytest.raises(OptionError, match="no valid system"):
        MASGPT(pairs=[MASPair("1 + 1?", "Two agents.")])
    with pytest.raises(OptionError, match="dom='high'"):
        play_episode(MASOrchestraEnv("Math", dom="low"), MASGPT(pairs=[MASPair("1 + 1?", SUMS)]))
