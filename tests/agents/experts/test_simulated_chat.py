"""Simulated chat models: each act errs by its rule, in the format that the act asks for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

import msgspec
import pytest

from toolorchestra.agents.chat.base import ChatRequest, Completion, Price, ScriptedChat, Usage
from toolorchestra.agents.chat.replay import RecordingChat, ReplayChat, request_key
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.simulated_chat import SimulatedChat
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency
from toolorchestra.agents.messages.text_parts import answer_in, code_in, queries_in, tag
from toolorchestra.agents.problems import GroundTruth, Problem, Step, facts
from toolorchestra.toolscale.answers.answers import count_votes
from toolorchestra.toolscale.common.errors import OptionError

MANY = 600
KEY = "29aed1e19e8b2eb401c1ee7b62f7f13461e35a3fce13e884312bb2026816de37"  # of older records


def expert(name: str = "ada", **changes: Any) -> SimulatedExpert:
    fields: dict[str, Any] = {
        "provider": "none",
        "roles": ("generalist",),
        "price": Price(1.0, 2.0),
        "latency": Latency(10.0),
        "context": 100_000,
        "skills": {"other": 0.9},
    }
    return SimulatedExpert(name, ExpertSpec(**(fields | changes)))


def chain(number: int, length: int = 4) -> Problem:
    return Problem.chain(f"p{number}", "math", length, "12", ("13", "14", "15"))


def ask(
    model: SimulatedChat,
    ground_truth: GroundTruth,
    *,
    content: str = "What is it?",
    seed: int | None = 0,
    temperature: float = 0.5,
) -> Completion:
    messages = [{"role": "user", "content": content}]
    return model.complete([ChatRequest(messages, temperature=temperature, seed=seed, ground_truth=ground_truth)])[0]


def share(model: SimulatedChat, length: int = 4, right: str = "12", **ground_truth: Any) -> float:
    """How often the answer to a problem of so many steps is right."""
    ground_truths = (GroundTruth(chain(i, length), seed=i, **ground_truth) for i in range(MANY))
    return mean(answer_in(ask(model, one).text) == right for one in ground_truths)


# ------------------------------------------------------------------------------------------------------ protocol


def test_without_ground_truth_a_simulated_model_names_the_remedy():
    with pytest.raises(
        OptionError, match=r"expected a request with `ground_truth`, got none\. Give ChatRequest\(…, ground_truth="
    ):
        SimulatedChat(expert()).complete([ChatRequest([{"role": "user", "content": "What is 5 + 7?"}])])


def test_the_same_request_has_the_same_answer_and_other_seeds_have_others():
    model, again = SimulatedChat(expert()), SimulatedChat(expert())
    ground_truth = GroundTruth(chain(0, 8))
    assert ask(model, ground_truth) == ask(again, ground_truth)
    assert len({ask(model, ground_truth, seed=seed).completion_tokens for seed in range(20)}) > 5
    reseeded = [msgspec.structs.replace(ground_truth, seed=seed) for seed in range(20)]
    assert len({ask(model, one).completion_tokens for one in reseeded}) > 5


def test_at_temperature_0_all_samples_are_the_same():
    model = SimulatedChat(expert())
    for act in ("solve", "review", "code", "choose"):
        ground_truth = GroundTruth(chain(0, 8), act, ("13", "12", "14"))
        assert len({ask(model, ground_truth, seed=seed, temperature=0.0).text for seed in range(20)}) == 1


def test_solving_is_what_the_expert_makes_of_the_problem():
    problem, subject = chain(3), expert()
    answer = ask(SimulatedChat(subject), GroundTruth(problem), seed=7, temperature=1.0)
    solution = subject.solve(problem, seed=7, prompt_tokens=answer.prompt_tokens)
    assert answer_in(answer.text) == solution.answers[0]
    assert (answer.completion_tokens, answer.latency, answer.cost) == (solution.tokens, solution.seconds, solution.usd)


def test_tokens_read_are_those_of_the_messages_or_of_the_problem():
    model, problem = SimulatedChat(expert()), chain(0)
    assert ask(model, GroundTruth(problem), content="x" * 400).prompt_tokens == 100
    long = msgspec.structs.replace(problem, reading=5000)
    assert ask(model, GroundTruth(long), content="x" * 400).prompt_tokens == 5000


def test_what_does_not_fit_into_the_context_is_not_read():
    model = SimulatedChat(expert(context=1000))
    short, long = (
        mean(answer_in(ask(model, GroundTruth(chain(i, 1)), content="x" * length).text) == "12" for i in range(MANY))
        for length in (4000, 40_000)
    )
    assert short > 0.85
    assert long < 0.2


def test_the_meter_counts_every_answer():
    model = SimulatedChat(expert())
    answers = [ask(model, GroundTruth(chain(i))) for i in range(3)]
    prompt, written = sum(a.prompt_tokens for a in answers), sum(a.completion_tokens for a in answers)
    assert model.meter.usage == Usage(3, prompt, written, sum(a.cost for a in answers))


def test_writing_code_and_queries_takes_the_time_of_these_roles():
    spec = {"latency": Latency(100.0, by_role={"code": 10.0, "query": 1.0}, spread=0.0)}
    model = SimulatedChat(expert(**spec))
    problem = Problem("p", "search", (Step("Elm", ("Oak",)),))
    seconds = [ask(model, GroundTruth(problem, act)).latency for act in ("solve", "code", "query")]
    assert seconds[0] == pytest.approx(10 * seconds[1]) == pytest.approx(100 * seconds[2])
    as_coder = SimulatedChat(expert(**spec), role="code")
    assert ask(as_coder, GroundTruth(problem)).latency == pytest.approx(seconds[1])


def test_several_targets_are_all_answered():
    steps = (Step("3", difficulty=-50), Step("5", difficulty=-50), Step("8", needs=(0, 1), difficulty=-50))
    answer = ask(SimulatedChat(expert()), GroundTruth(Problem("p", "math", steps, targets=(0, 2))))
    assert answer.text.endswith("<answer>\n\\boxed{3, 8}\n</answer>")


# ------------------------------------------------------------------------------------------- records, real models


def test_ground_truth_is_no_part_of_a_record(tmp_path: Path):
    messages = [{"role": "user", "content": "What is it?"}]
    informed, bare = ChatRequest(messages, ground_truth=GroundTruth(chain(0)), seed=1), ChatRequest(messages, seed=1)
    file = tmp_path / "record.jsonl"
    with RecordingChat(SimulatedChat(expert()), file) as chat:
        (answer,) = chat.complete([informed])
    assert b"ground_truth" not in file.read_bytes()
    assert b"wrong" not in file.read_bytes()
    assert ReplayChat(file).complete([bare]) == [answer]
    assert ReplayChat(file).complete([informed]) == [answer]


def test_the_keys_of_records_made_before_are_kept():
    request = ChatRequest([{"role": "user", "content": "Say hello."}])
    assert request_key("m", request) == KEY
    informed = msgspec.structs.replace(request, ground_truth=GroundTruth(chain(0)))
    assert request_key("m", informed) == request_key("m", request)


def test_other_models_ignore_ground_truth():
    request = ChatRequest([{"role": "user", "content": "Say hello."}], ground_truth=GroundTruth(chain(0)))
    assert ScriptedChat(["Hello!"]).complete([request])[0].text == "Hello!"


# ------------------------------------------------------------------------------------------------------- review


def test_a_reviewer_often_corrects_a_wrong_answer_and_seldom_spoils_a_right_one():
    model = SimulatedChat(expert())
    alone = share(model, act="solve")
    corrected = share(model, act="review", candidates=("13",))
    kept = share(model, act="review", candidates=("12",))
    assert alone < 0.5
    assert corrected > alone + 0.04
    assert kept > 0.9


def test_a_stronger_reviewer_corrects_more():
    weak, strong = (
        share(SimulatedChat(expert(skills={"other": skill})), act="review", candidates=("13",)) for skill in (0.8, 0.97)
    )
    assert strong > weak + 0.3


def test_reviewing_many_steps_is_no_harder_than_reviewing_them_one_at_a_time():
    light = share(SimulatedChat(expert(load=0.0)), 8, act="review", candidates=("13",))
    heavy = share(SimulatedChat(expert(load=2.0)), 8, act="review", candidates=("13",))
    assert heavy == light
    assert share(SimulatedChat(expert(load=2.0)), 8) < 0.05


def test_a_review_names_the_candidate_that_it_agrees_with():
    sure = SimulatedChat(expert(skills={"other": 1 - 1e-12}))
    text = ask(sure, GroundTruth(chain(0), "review", ("13", r"\frac{24}{2}"))).text
    assert r"The answer \frac{24}{2} holds. The answer 13 does not follow." in text
    assert (tag(text, "correct"), answer_in(text)) == ("True", r"\frac{24}{2}")
    refuted = ask(sure, GroundTruth(chain(0), "review", ("13",))).text
    assert "I do not come to 13." in refuted
    assert (tag(refuted, "correct"), answer_in(refuted)) == ("False", "12")


def test_a_reviewer_who_comes_to_no_firm_answer_leaves_the_last_one_as_it_stands():
    hopeless = SimulatedChat(expert(skills={"other": 1e-12}))
    answers = [answer_in(ask(hopeless, GroundTruth(chain(i), "review", ("77",), seed=i)).text) for i in range(50)]
    assert "77" in answers
    assert "12" not in answers
    assert set(answers) > {"77"}  # it can be sure of the same mistake, too


def test_with_nothing_to_review_or_to_choose_from_a_model_solves():
    model = SimulatedChat(expert())
    for act in ("review", "choose"):
        assert ask(model, GroundTruth(chain(0), act)) == ask(model, GroundTruth(chain(0)))


# ------------------------------------------------------------------------------------------------------- choose


def choices(model: SimulatedChat, candidates: Sequence[str], length: int = 4) -> float:
    return share(model, length, act="choose", candidates=tuple(candidates))


def test_a_clear_majority_is_followed_whatever_it_says():
    model = SimulatedChat(expert())
    assert choices(model, ["12", "13", "12", "12", "12"]) > 0.95
    assert choices(model, ["13", "12", "13", "13", "13"]) < 0.1
    assert choices(model, ["13", "13", "13"]) == 0  # no better than its evidence


def test_between_equally_frequent_answers_a_models_own_view_decides():
    weak, strong = (SimulatedChat(expert(skills={"other": skill})) for skill in (0.7, 0.99))
    tie = ["12", "13"]
    assert choices(strong, tie) > 0.9
    assert choices(weak, tie) < choices(strong, tie) - 0.2
    assert choices(strong, ["13", "13", "12"]) > 0.85  # and between nearly equally frequent ones


def test_a_model_of_less_skill_is_more_easily_misled():
    slight = [
        choices(SimulatedChat(expert(skills={"other": skill})), ["12", "12", "12", "13"]) for skill in (0.6, 0.95)
    ]
    assert slight[0] < slight[1] - 0.03


def test_choosing_is_better_than_the_average_candidate():
    model = SimulatedChat(expert())
    others = [SimulatedChat(expert(name)) for name in ("bob", "cleo", "dora", "emil", "fay")]
    chosen, given = [], []
    for number in range(MANY):
        problem = chain(number)
        answers = tuple(answer_in(ask(other, GroundTruth(problem, seed=number)).text) for other in others)
        given.append(mean(answer == "12" for answer in answers))
        chosen.append(answer_in(ask(model, GroundTruth(problem, "choose", answers, seed=number)).text) == "12")
    assert mean(chosen) > mean(given) + 0.1


def test_equal_forms_of_an_answer_count_together():
    assert count_votes(["0.5", "3", r"\frac{1}{2}", "", "1/2"]) == [("0.5", 3), ("3", 1)]


# --------------------------------------------------------------------------------------------------------- code


def test_setting_up_code_gets_no_harder_with_the_number_of_steps():
    coder = {"skills": {"code": 0.97, "other": 0.85}}
    for length in (4, 8):
        programs = [
            ask(SimulatedChat(expert(**coder)), GroundTruth(chain(i, length), "code", seed=i)).text for i in range(MANY)
        ]
        right = mean("result = '12'" in code_in(program) for program in programs)
        assert right > share(SimulatedChat(expert(**coder)), length) + 0.25


def test_a_program_prints_the_answer_or_fails_to_run():
    model = SimulatedChat(expert(skills={"code": 0.7, "other": 0.9}))
    programs = [code_in(ask(model, GroundTruth(chain(i, 1), "code", seed=i)).text) for i in range(MANY)]
    fails = [program.endswith("print(results)") for program in programs]
    assert 0.2 < mean(fails) < 0.4
    assert set(programs) >= {"result = '12'\nprint(result)", "result = '13'\nprint(results)"}


@pytest.mark.parametrize("answer", ["12", r"\frac{1}{2}", 'O\'Hara "the Elm"', "Thornby, Elmby"])
def test_programs_are_python_and_really_print_the_answer(answer: str):
    sure = SimulatedChat(expert(skills={"other": 1 - 1e-12}))
    program = code_in(ask(sure, GroundTruth(Problem.chain("p", "math", 1, answer), "code")).text)
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{answer}\n"
    broken = SimulatedChat(expert(skills={"other": 1e-12}))
    program = code_in(ask(broken, GroundTruth(Problem.chain("p", "math", 1, answer), "code")).text)
    ran = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=False)
    assert "NameError: name 'results' is not defined" in ran.stderr


def test_a_program_that_failed_may_run_once_it_is_fixed():
    model = SimulatedChat(expert(skills={"code": 0.7, "other": 0.9}))

    def runs(number: int, turns: int) -> bool:
        messages = [{"role": "user", "content": "Compute it."}] * turns
        ground_truth = GroundTruth(chain(number, 1), "code", seed=number)
        return (
            model.complete([ChatRequest(messages, temperature=0.0, ground_truth=ground_truth)])[0].text.count("results")
            == 0
        )

    failed = [number for number in range(MANY) if not runs(number, 1)]
    assert mean(runs(number, 3) for number in failed) > 0.5


# -------------------------------------------------------------------------------------------------------- query


HOPS = Problem(
    "hops",
    "search",
    (
        Step("Ada", ("Bea",), difficulty=-50),
        Step("1815", ("1816",), (0,), difficulty=-50),
        Step("yes", ("no",), (1,), difficulty=-50, subject="reasoning"),
    ),
)
WORDS = ("Who wrote the notes?", "When was Ada born?", "")


def test_facts_are_the_steps_to_be_looked_up():
    assert facts(HOPS) == [0, 1]


def test_queries_are_for_facts_whose_needs_are_found():
    model = SimulatedChat(expert())
    for found, queries in (((), ["Who wrote the notes?"]), ((0,), ["When was Ada born?"])):
        text = ask(model, GroundTruth(HOPS, "query", queries=WORDS, found=found)).text
        assert queries_in(text, 8) == queries
    assert answer_in(ask(model, GroundTruth(HOPS, "query", queries=WORDS, found=(0, 1))).text) == "yes"


def test_a_misread_fact_is_looked_up_under_the_mistake():
    steps = (msgspec.structs.replace(HOPS.steps[0], difficulty=50), *HOPS.steps[1:])
    text = ask(SimulatedChat(expert()), GroundTruth(Problem("hops", "search", steps), "query", queries=WORDS)).text
    assert queries_in(text, 8) == ["Bea"]


def test_facts_are_hard_to_recall_and_easy_to_read():
    model = SimulatedChat(expert())
    problems = [Problem(f"f{i}", "search", (Step("Ada", ("Bea",)), Step("1815", ("1816",), (0,)))) for i in range(MANY)]
    recalled, read = (
        mean(answer_in(ask(model, GroundTruth(problem, found=found)).text) == "1815" for problem in problems)
        for found in ((), (0, 1))
    )
    assert recalled < 0.25
    assert read > 0.75


# ------------------------------------------------------------------------------------------------------- voting


def majority(models: Sequence[SimulatedChat], samples: int, length: int = 3) -> float:
    """How often the answer given most often by all samples of all models is right."""
    right = 0
    for number in range(MANY):
        ground_truth = GroundTruth(chain(number, length), seed=number)
        answers = [
            answer_in(ask(model, ground_truth, seed=s, temperature=1.0).text)
            for model in models
            for s in range(samples)
        ]
        right += max(count_votes(answers), key=lambda pair: pair[1])[0] == "12"
    return right / MANY


def test_more_samples_of_one_model_help_only_so_far():
    model = SimulatedChat(expert())
    one, five, fifteen = (majority([model], samples) for samples in (1, 5, 15))
    assert one + 0.08 < five < fifteen < 0.85
    assert fifteen - five < 0.7 * (five - one)


def test_three_models_vote_better_than_as_many_samples_of_one():
    models = [SimulatedChat(expert(name, own_noise=0.5)) for name in ("ada", "bob", "cleo")]
    assert majority(models, 1) > mean(majority([model], 3) for model in models) + 0.04
    assert majority(models, 5) > majority(models[:1], 15) + 0.04


def test_every_shipped_expert_can_be_asked():
    catalog = Catalog.load()
    for name in catalog.experts:
        chat = SimulatedChat(catalog.simulated(name))
        assert chat.name == name
        assert ask(chat, GroundTruth(chain(0))).cost > 0
