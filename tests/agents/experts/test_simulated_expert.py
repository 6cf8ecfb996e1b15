"""Simulated experts: as often right as they should be, and wrong together as much as they should be."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from statistics import mean

import msgspec
import pytest

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency, Tokens
from toolorchestra.agents.problems import Problem, Step

MANY = 2000


def spec(**changes: object) -> ExpertSpec:
    fields: dict[str, object] = {
        "provider": "none",
        "roles": ("math",),
        "price": Price(1.0, 2.0),
        "latency": Latency(10.0),
        "context": 1000,
        "skills": {"math": 0.8, "other": 0.6},
    }
    return ExpertSpec(**(fields | changes))  # type: ignore[arg-type]


def chain(number: int, length: int = 1, **changes: object) -> Problem:
    return Problem.chain(f"p{number}", "math", length, "12", ("13", "14", "15"), **changes)  # type: ignore[arg-type]


def share(expert: SimulatedExpert, length: int = 1, **options: object) -> float:
    return mean(expert.solve(chain(i, length), seed=i, **options).solved for i in range(MANY))  # type: ignore[arg-type]


def near(value: float, count: int = MANY) -> object:
    return pytest.approx(value, abs=4 * math.sqrt(value * (1 - value) / count))


def test_an_expert_is_right_as_often_as_its_skill_says():
    expert = SimulatedExpert("ada", spec())
    assert share(expert) == near(0.8)
    foreign = [msgspec.structs.replace(chain(i), subject="law") for i in range(MANY)]
    assert mean(expert.solve(problem).solved for problem in foreign) == near(0.6)


def test_the_temperature_changes_how_samples_differ_and_not_how_often_they_are_right():
    expert = SimulatedExpert("ada", spec())
    assert share(expert, temperature=0) == near(0.8)
    noted = Problem("p", "math", (Step("12", ("13", "14"), difficulty=1, note="99"),) * 3, targets=(0, 1, 2))
    for problem in (chain(1), noted):
        cold = [expert.solve(problem, seed=seed, temperature=0) for seed in range(50)]
        assert len({(one.answers, one.tokens) for one in cold}) == 1
    assert any(len({expert.solve(chain(i), seed=seed).right for seed in range(50)}) == 2 for i in range(5))


def test_difficulty_is_a_gap_to_the_skill_in_logits():
    expert = SimulatedExpert("ada", spec())
    odds = 0.8 / 0.2 * math.exp(-1.0)
    assert expert.chance(chain(0, difficulty=1.0), 0) == pytest.approx(odds / (1 + odds))


def test_more_steps_at_once_are_harder_each_and_decomposing_helps():
    expert = SimulatedExpert("ada", spec(skills={"other": 0.95}, load=0.5))
    four = chain(0, 4)
    odds = 19 * math.exp(-0.5 * 2)
    assert expert.chance(four, 0) == pytest.approx(odds / (1 + odds))
    assert share(expert, 4) == near((odds / (1 + odds)) ** 4)
    assert share(expert, 4) < share(expert) ** 4 - 0.05


def test_an_error_propagates_to_the_steps_that_need_it_only():
    wrong = Step("a", ("x",), difficulty=50)
    steps = (wrong, Step("b", ("y",), (0,), -50), Step("c", ("z",), (), -50))
    solution = SimulatedExpert("ada", spec()).solve(Problem("p", "math", steps, targets=(0, 1, 2)))
    assert solution.answers == ("x", "y", "c")
    assert solution.right == (False, False, True)
    assert not solution.solved


def test_what_does_not_fit_into_the_context_is_not_known():
    expert = SimulatedExpert("ada", spec(context=1000))
    fits, half = (msgspec.structs.replace(chain(0), reading=tokens) for tokens in (1000, 2000))
    assert expert.chance(half, 0) == pytest.approx(expert.chance(fits, 0) / 2)


def test_a_note_deceives_with_its_chance():
    step = Step("12", ("13",), difficulty=-50, note="99")
    expert = SimulatedExpert("ada", spec(deceived=0.3))
    counts = Counter(expert.solve(Problem(f"p{i}", "math", (step,)), seed=i).answers[0] for i in range(MANY))
    assert counts["99"] / MANY == near(0.3)
    assert counts["99"] + counts["12"] == MANY


def test_a_warned_expert_believes_notes_as_far_as_it_does_not_follow_the_warning():
    expert = SimulatedExpert("ada", spec(deceived=0.5, skills={"reasoning": 0.8, "other": 0.6}, load=0.5))

    def believed(count: int, **changes: object) -> float:
        steps = (Step("12", ("13",), difficulty=-50, note="99", **changes),) * count  # type: ignore[arg-type]
        problems = (Problem(f"p{i}", "math", steps) for i in range(MANY))
        return mean(expert.solve(problem, seed=i).answers == ("99",) for i, problem in enumerate(problems))

    assert believed(1) == near(0.5)
    assert believed(1, warned=True) == near(0.5 * (1 - 0.8))
    loaded = 1 / (1 + math.exp(0.5 * 3 - math.log(0.8 / 0.2)))  # among eight steps it is heeded less
    assert believed(8, warned=True) == near(0.5 * (1 - loaded))
    assert believed(1, trust=0.2) == near(0.2)


def test_nothing_is_written_about_what_is_merely_read():
    expert = SimulatedExpert("ada", spec())
    steps = (Step("1"), Step("2", read=True), Step("3", needs=(0, 1)))
    written = [expert.solve(Problem("p", "math", steps[:count])).tokens for count in (1, 2)]
    assert written[0] == written[1] < expert.solve(Problem("p", "math", steps)).tokens


def test_being_deceived_differs_between_models_more_than_between_samples_of_one():
    noted = [Problem(f"p{i}", "math", (Step("12", ("13",), difficulty=-50, note="99"),)) for i in range(MANY)]
    ada, bob = (SimulatedExpert(name, spec(deceived=0.5, own_noise=0.6)) for name in ("ada", "bob"))

    def agree(one: SimulatedExpert, other: SimulatedExpert) -> float:
        return mean(one.solve(p, seed=1).answers == other.solve(p, seed=2).answers for p in noted)

    assert agree(ada, ada) == near(0.5 + math.asin(0.2 + 0.6) / math.pi)
    assert agree(ada, bob) == near(0.5 + math.asin(0.2) / math.pi)


def vote(experts: list[SimulatedExpert], number: int, samples: int) -> bool:
    counts = Counter(
        experts[i % len(experts)].solve(chain(number), seed=1000 * number + i).answers[0] for i in range(samples)
    )
    return max(sorted(counts), key=lambda answer: counts[answer]) == "12"


def test_voting_helps_with_diminishing_returns_and_different_models_help_more():
    one = SimulatedExpert("ada", spec(skills={"other": 0.6}))
    pool = [SimulatedExpert(name, spec(skills={"other": 0.6})) for name in ("ada", "bob", "cyd", "dee", "eve")]
    problems = 800
    mono = [mean(vote([one], i, samples) for i in range(problems)) for samples in (1, 5, 25)]
    mixed = mean(vote(pool, i, 5) for i in range(problems))
    assert mono[0] + 0.04 < mono[1]
    gains = [later - earlier for earlier, later in pairwise(mono)]
    assert gains[1] < gains[0]
    assert mono[2] < 0.9  # blind spots stay
    assert mixed > mono[1] + 0.03


def test_steps_that_are_hard_for_all_are_hard_for_all():
    ada, bob = (SimulatedExpert(name, spec(skills={"other": 0.5}), shared_noise=0.5) for name in ("ada", "bob"))
    both = mean(ada.solve(chain(i), seed=i).solved == bob.solve(chain(i), seed=i).solved for i in range(MANY))
    # agreement of two normals with correlation 0.5, cut in the middle: 1/2 + asin(0.5)/pi
    assert both == near(0.5 + math.asin(0.5) / math.pi)


def test_mistakes_are_the_likely_ones():
    expert = SimulatedExpert("ada", spec(skills={"other": 0.01}))
    counts = Counter(expert.solve(chain(i), seed=i).answers[0] for i in range(MANY))
    assert counts["13"] > 1.7 * counts["14"] > 0
    assert set(counts) <= {"12", "13", "14", "15"}
    assert expert.solve(Problem("p", "math", (Step("12", difficulty=50),))).answers == ("",)


def test_length_time_and_money_follow_the_specification():
    expert = SimulatedExpert("ada", spec(tokens=Tokens(overhead=40, per_step=80), latency=Latency(10.0, {"math": 5.0})))
    typical = [expert.solve(chain(i, 4), seed=i) for i in range(MANY)]
    assert mean(one.tokens for one in typical) == pytest.approx(40 + 4 * 80, rel=0.02)
    assert mean(one.seconds for one in typical) == pytest.approx(10.0, rel=0.03)
    quick = [expert.solve(chain(i, 4), seed=i, role="math") for i in range(MANY)]
    assert mean(one.seconds for one in quick) == pytest.approx(5.0, rel=0.03)
    one = expert.solve(chain(0), prompt_tokens=500)
    assert one.usd == pytest.approx((500 * 1.0 + one.tokens * 2.0) / 1e6)


def test_the_same_seed_gives_the_same_solution_and_another_seed_another():
    expert = SimulatedExpert("ada", spec())
    assert expert.solve(chain(3, 5), seed=7) == SimulatedExpert("ada", spec()).solve(chain(3, 5), seed=7)
    assert len({expert.solve(chain(3, 5), seed=seed).seconds for seed in range(20)}) == 20
