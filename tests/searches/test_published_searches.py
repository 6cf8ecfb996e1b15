"""AFlow, GPTSwarm, ADAS, MaAS and ScoreFlow: the behaviour that defines each."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from examples.searches.mas_zero import MASZero
from examples.searches.search import SearchBudget, Validation, best, search
from examples.searches.strategies import EdgeSearch, MetaAgentSearch, MixedTreeSearch, WorkflowCandidate
from examples.searches.supernet import EXIT, Drawn, MaAS, ScoreFlow, Supernet
from examples.searches.workflows import Space, single
from toolorchestra.agents.chat.base import ScriptedChat
from toolorchestra.agents.policies.base import play_episode
from toolorchestra.envs.masorchestra.design import Agent, Design, to_text
from toolorchestra.envs.masorchestra.env import MASOrchestraEnv
from toolorchestra.envs.masorchestra.rules import AGENTS
from toolorchestra.envs.records.episode import ABANDONED
from toolorchestra.toolscale.answers.answers import final_answer
from toolorchestra.toolscale.common.errors import OptionError

SPACE = Space(AGENTS[:3], 4)


@pytest.fixture(scope="module")
def env() -> MASOrchestraEnv:
    return MASOrchestraEnv("Math", model="qwen2.5-7b")


# ----------------------------------------------------------------------------------------------------------- AFlow


def measured(number: int, score: float, move: str = "made", parent: int | None = None) -> WorkflowCandidate:
    parents = () if parent is None else (parent,)
    return WorkflowCandidate(number, single(AGENTS[number % 4]), parents, move, score, 10)


def test_aflow_mixes_the_best_scores_with_chance() -> None:
    strategy = MixedTreeSearch(SPACE)
    history = [measured(0, 0.5), measured(1, 0.9), measured(2, 0.1)]
    chances = strategy.chances(history)
    assert sum(chances) == pytest.approx(1)
    assert chances[1] > 0.85
    assert min(chances) == pytest.approx(0.2 / 3, abs=1e-3)  # λ / n: no one is left out
    drawn = [strategy.propose(history, random.Random(seed)).parents[0] for seed in range(60)]
    assert drawn.count(1) > 40
    assert set(drawn) == {0, 1, 2}


def test_aflow_does_not_repeat_an_edit_that_made_its_parent_worse() -> None:
    strategy = MixedTreeSearch(SPACE, uniform=0.0)
    failed = ("review", "widen", "prepare", "other_task")
    history = [measured(0, 0.9), *(measured(n, 0.1, move, 0) for n, move in enumerate(failed, 1))]
    proposed = [strategy.propose(history, random.Random(seed)) for seed in range(30)]
    assert {one.parents for one in proposed} == {(0,)}
    assert {one.move for one in proposed}.isdisjoint(failed)


# --------------------------------------------------------------------------------------------------------- GPTSwarm


def test_gptswarm_learns_the_edges_of_graphs_that_score_well() -> None:
    strategy = EdgeSearch(SPACE, agents=3, rate=1.0)
    assert set(strategy.chances([measured(0, 0.5)]).values()) == {0.5}
    history = [measured(0, 0.5)]
    for number in range(1, 200):
        proposed = strategy.propose(history, random.Random(number))
        good = "0-1" in proposed.move and "0-2" not in proposed.move  # what is worth it, unknown to the search
        history.append(msgspec.structs.replace(proposed, score=0.9 if good else 0.2))
    chances = strategy.chances(history)
    assert chances[0, 1] > 0.9 > 0.1 > chances[0, 2]
    likeliest = strategy.propose([*history, measured(200, 0.5)], random.Random(0))
    assert isinstance(likeliest.design, Design)
    assert len(likeliest.design.agents) == 3


def test_gptswarm_needs_agents_to_connect() -> None:
    with pytest.raises(OptionError, match="2 to 4 agents"):
        EdgeSearch(SPACE, agents=9)


# ------------------------------------------------------------------------------------------------------------- ADAS


def written(kind: str, instruction: str = "Answer the question.") -> str:
    first, last = Agent("A", "CoTAgent"), Agent("B", kind, f"{instruction} ${{A}}")
    return to_text(Design(dom="high", thinking="Better.", agents=(first, last), edges=(("A", "B"),)))


def test_adas_shows_the_archive_to_a_model_and_measures_what_it_writes(env: MASOrchestraEnv) -> None:
    model = ScriptedChat([written("ReflexionAgent"), written("SCAgent"), written("SCAgent")[:-30], written("CoTAgent")])
    validation = Validation.drawn(env, 8, seed=1)
    history = search("adas", validation, SearchBudget(4), seed=1, model=model)
    assert [one.move for one in history] == ["start", "written", "written", "written"]
    assert [one.design.agents[-1].kind for one in history[1:]] == ["ReflexionAgent", "SCAgent", "CoTAgent"]
    shown = str(model.requests[1].messages[-1]["content"])
    assert f"score {history[1].score:.1%}" in shown  # what was measured is in the archive
    assert to_text(history[1].design) in shown
    again = str(model.requests[3].messages[-1]["content"])
    assert again.startswith("This is no valid system: Rule `complete`")  # the fault is shown back
    assert best(history).score == max(one.score for one in history)


def test_adas_ends_where_the_model_writes_no_system(env: MASOrchestraEnv) -> None:
    model = ScriptedChat(lambda request: "I cannot.")
    assert len(search("adas", Validation.drawn(env, 2), SearchBudget(4), model=model)) == 1
    with pytest.raises(OptionError, match="a chat model that designs"):
        search("adas", Validation.drawn(env, 2))
    with pytest.raises(OptionError, match="an archive"):
        MetaAgentSearch(SPACE, model=model, archive=0)


# ---------------------------------------------------------------------------------------------------------- MAS-Zero


def test_mas_zero_revises_its_system_by_what_the_agents_answered_and_verifies(env: MASOrchestraEnv) -> None:
    records = []
    for _ in range(2):
        first, second = to_text(single("CoTAgent")), written("SCAgent")
        model = ScriptedChat([first, "no system", second, "2"])
        play_episode(env, MASZero(model), seed=4, options={"split": "test"})
        records.append(msgspec.json.encode(env.episode))
    assert records[0] == records[1]
    shown = [str(request.messages[-1]["content"]) for request in model.requests]
    assert "A1 (CoTAgent): " in shown[1]  # what the agents answered comes back
    assert shown[2].startswith("This is no valid system")
    spent = env.episode.details[ABANDONED]
    assert spent["turns"] == 2
    assert spent["calls"] == 3
    assert env.episode.cost > spent["cost"] > 0
    assert sum(env.episode.cost_parts.values()) == pytest.approx(env.episode.cost)
    if len(shown) == 4:  # the two systems came to different answers
        assert f"2. {final_answer(env.episode.answer)}" in shown[3]
    assert len(env.episode.turns) == 1


def test_mas_zero_needs_rounds_and_a_graph(env: MASOrchestraEnv) -> None:
    with pytest.raises(OptionError, match="at least one round"):
        MASZero(ScriptedChat([]), rounds=0)
    with pytest.raises(OptionError, match="dom='high'"):
        play_episode(MASOrchestraEnv("Math", dom="low"), MASZero(ScriptedChat([])))


# -------------------------------------------------------------------------------------------- MaAS and ScoreFlow


def test_the_gradient_of_a_drawn_workflow_is_that_of_its_probability(env: MASOrchestraEnv) -> None:
    policy = MaAS.fit(env, episodes=0)
    policy.sample = True
    play_episode(env, policy, seed=1)
    drawn, rng = policy.drawn, np.random.default_rng(0)
    weights = rng.normal(size=policy.weights.shape)
    _, gradient = drawn.gradient(weights)
    for place in [(layer, won, 0) for layer, _, won in drawn.choices]:
        step = np.zeros_like(weights)
        step[place] = 1e-5
        numeric = (drawn.gradient(weights + step)[0] - drawn.gradient(weights - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(numeric, abs=1e-6)


def supernet(*wanted: tuple[int, int]) -> Supernet:
    """Return a supernet whose favourite in a layer is this operator."""
    start = Supernet.untrained(["CoTAgent", "SCAgent"], 2)
    weights = np.array(start.weights)
    for layer, operator in wanted:
        weights[layer, operator, 0] = 9.0
    return Supernet.of(start.operators, weights)


def test_a_layer_takes_operators_until_their_probability_reaches_the_threshold_and_exit_ends(
    env: MASOrchestraEnv,
) -> None:
    exits = len(supernet().operators) - 1
    assert supernet().operators[exits][0] == EXIT
    policy = MaAS(supernet=supernet((0, 3), (1, exits)))
    play_episode(env, policy, seed=1, options={"split": "test"})
    assert [agent.kind for agent in policy.design().agents] == ["SCAgent"]  # sure of one operator, then the exit
    unsure = MaAS(supernet=supernet((1, exits)))
    play_episode(env, unsure, seed=1, options={"split": "test"})
    assert policy.design().shape != unsure.design().shape
    assert unsure.design().shape.width == 2  # each has a probability of 1/6, the threshold is 0.3
    with pytest.raises(OptionError, match="dom='high'"):
        play_episode(MASOrchestraEnv("Math", dom="low"), policy)


def share(env: MASOrchestraEnv, policy: MaAS, tasks: int = 80) -> tuple[float, float]:
    infos = [play_episode(env, policy, seed=seed, options={"split": "test"}) for seed in range(tasks)]
    return sum(info["outcome"] == "solved" for info in infos) / tasks, sum(info["cost"] for info in infos) / tasks


@pytest.mark.long
def test_maas_learns_workflows_that_cost_less_and_solve_no_fewer(env: MASOrchestraEnv) -> None:
    random_one = MaAS.fit(env, episodes=0)
    random_one.sample = True
    (before, cost), (after, later) = share(env, random_one), share(env, MaAS.fit(env))
    assert later < 0.7 * cost
    assert after >= before - 0.03


def test_score_dpo_raises_the_probability_of_what_scored_better(env: MASOrchestraEnv) -> None:
    start = MaAS.fit(env, episodes=0)
    policy = ScoreFlow.fit(env, questions=12, iterations=1)
    untrained = ScoreFlow(supernet=start.supernet)
    pairs = [pair for seed in range(12) for pair in untrained._pairs(env, "train", seed, 6, 3)]
    assert len(pairs) > 3
    assert all(high > low for _, high, _, low in pairs)

    def margin(weights: np.ndarray) -> float:
        def difference(better: Drawn, worse: Drawn) -> float:
            return better.gradient(weights)[0] - worse.gradient(weights)[0]

        return sum(difference(better, worse) for better, _, worse, _ in pairs)

    assert margin(policy.weights) > margin(start.weights)


@pytest.mark.parametrize("kind", [MaAS, ScoreFlow])
def test_a_supernet_that_learnt_nothing_is_refused(kind: type[MaAS]) -> None:
    with pytest.raises(OptionError, match="learns its supernet"):
        kind()
