"""Fitting: a simulated expert's parameters come back from its answers, and errors name the line."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

pytest.importorskip("scipy", reason="comes with the extra `fit`")

from toolorchestra.agents.chat.base import Price
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.agents.experts.evaluation import AnswerRow, ExpertTask, graded_tasks, read_answers, simulate
from toolorchestra.agents.experts.fit import Fit, plot_fit
from toolorchestra.agents.experts.fitting import fit_expert
from toolorchestra.agents.experts.likelihood import Kind, Outcome, maximise
from toolorchestra.agents.experts.simulated_expert import SimulatedExpert
from toolorchestra.agents.experts.specification import ExpertSpec, Latency, Tokens
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.common.jsonl import write_jsonl
from toolorchestra.toolscale.common.yaml_reader import dump_yaml

SPEC = ExpertSpec(
    provider="us",
    roles=("math",),
    price=Price(1, 2),
    latency=Latency(12.0, {}, 0.4),
    context=10_000,
    skills={"math": 0.93, "code": 0.85, "other": 0.5},
    load=0.4,
    deceived=0.4,
    own_noise=0.3,
    tokens=Tokens(60.0, 120.0, 0.3),
)
TRUTH = {
    "skills.math": 0.93,
    "skills.code": 0.85,
    "load": 0.4,
    "deceived": 0.4,
    "own_noise": 0.3,
    "tokens.overhead": 60.0,
    "tokens.per_step": 120.0,
    "tokens.spread": 0.3,
    "latency.mean": 12.0,
    "latency.spread": 0.4,
}


def answers(name: str = "ada", spec: ExpertSpec = SPEC, count: int = 600, samples: int = 6) -> list[AnswerRow]:
    tasks = graded_tasks(count, subjects=("math", "code"), noted=0.3)
    return [evaluation.row for evaluation in simulate(SimulatedExpert(name, spec), tasks, samples=samples)]


@pytest.fixture(scope="module")
def fit() -> Fit:
    return fit_expert(answers(), "ada")


@pytest.mark.parametrize(
    ("path", "tolerance"),
    [
        ("skills.math", 0.02),
        ("skills.code", 0.03),
        ("load", 0.12),
        ("deceived", 0.07),
        ("own_noise", 0.1),
        ("tokens.overhead", 8.0),
        ("tokens.per_step", 4.0),
        ("tokens.spread", 0.015),
        ("latency.mean", 0.5),
        ("latency.spread", 0.02),
    ],
)
def test_the_parameters_of_a_simulated_expert_come_back_from_its_own_answers(fit: Fit, path: str, tolerance: float):
    found = fit.estimates[path]
    assert found.fitted
    assert found.value == pytest.approx(TRUTH[path], abs=tolerance)
    assert found.low < found.value < found.high
    assert found.high - found.low < 3 * tolerance


def test_the_intervals_hold_the_truth_about_as_often_as_they_say():
    inside: Counter[str] = Counter()
    for number in range(20):
        found = fit_expert(answers(f"ada{number}", count=150, samples=3), f"ada{number}").estimates
        inside.update(path for path, true in TRUTH.items() if found[path].low <= true <= found[path].high)
    assert sum(inside.values()) >= 0.9 * 20 * len(TRUTH)
    assert min(inside[path] for path in TRUTH) >= 15


def test_what_the_fit_predicts_is_what_was_observed(fit: Fit):
    assert {cell.subject for cell in fit.cells} == {"math", "code"}
    assert sum(cell.answers for cell in fit.cells) == fit.answers == 3600
    for cell in fit.cells:
        low, high = cell.interval
        assert low <= cell.right / cell.answers <= high
        assert cell.predicted == pytest.approx(cell.right / cell.answers, abs=0.08)


def test_answers_of_two_experts_determine_the_noise_they_share():
    bob = msgspec.structs.replace(SPEC, skills={"other": 0.9}, own_noise=0.4)
    rows = answers(count=250, samples=4) + answers("bob", bob, count=250, samples=4)
    found = fit_expert(rows, "ada").estimates
    assert found["shared_noise"].fitted
    assert found["shared_noise"].low <= 0.2 <= found["shared_noise"].high
    assert found["shared_noise"].high < 0.45


def test_answers_of_one_expert_determine_only_the_sum_of_its_noise(fit: Fit):
    assert not fit.estimates["shared_noise"].fitted
    assert any(
        "shared_noise: taken as 0.2; estimating it needs answers of another expert" in remark for remark in fit.remarks
    )
    more = fit_expert(answers(), "ada", shared_noise=0.4).estimates["own_noise"]
    assert more.value == pytest.approx(fit.estimates["own_noise"].value - 0.2, abs=1e-6)


def test_what_answers_do_not_determine_is_taken_from_the_entry_and_remarked():
    rows = [AnswerRow(expert="ada", key=f"p{i}", right=i % 4 > 0, subject="math") for i in range(400)]
    fit = fit_expert(rows, "ada", SPEC)
    fitted = {path for path, one in fit.estimates.items() if one.fitted}
    assert fitted == {"skills.math"}
    assert fit.estimates["skills.math"].value == pytest.approx(0.75, abs=1e-3)
    assert fit.estimates["load"].value == SPEC.load
    assert fit.estimates["tokens.per_step"].value == SPEC.tokens.per_step
    assert fit.spec(SPEC) == msgspec.structs.replace(
        SPEC, skills=SPEC.skills | {"math": 0.75}, sources={"skills.math": "fitted to 400 answers to 400 problems"}
    )
    assert len(fit.remarks) == 9


def test_the_context_explains_what_was_not_read():
    spec = msgspec.structs.replace(SPEC, context=1000)
    rows = [AnswerRow(expert="ada", key=f"p{i}", right=i % 2 == 0, prompt_tokens=1500) for i in range(400)]
    found = fit_expert(rows, "ada", spec).estimates["skills.other"].value
    assert found == pytest.approx(0.75, abs=1e-3)  # two thirds of it are read


@pytest.mark.parametrize("right", [True, False])
def test_answers_that_are_all_right_or_all_wrong_have_a_skill_at_its_bound(right: bool):
    rows = [AnswerRow(expert="ada", key=f"p{i}", sample=j, right=right) for i in range(30) for j in range(2)]
    fit = fit_expert(rows, "ada")
    assert fit.estimates["skills.other"].value == pytest.approx(0.999 if right else 0.001, abs=1e-3)
    assert any("skills.other: at its bound" in remark for remark in fit.remarks)


def test_difficulty_lowers_what_a_right_answer_takes():
    easy = [AnswerRow(expert="ada", key=f"p{i}", right=i % 2 == 0) for i in range(200)]
    hard = [msgspec.structs.replace(row, difficulty=1.0) for row in easy]
    values = [fit_expert(rows, "ada").estimates["skills.other"].value for rows in (easy, hard)]
    assert [math.log(value / (1 - value)) for value in values] == pytest.approx([0.0, 1.0], abs=1e-3)


def test_many_samples_of_a_problem_are_taken_in_several_batches():
    few = fit_expert(answers(count=60, samples=16), "ada").estimates["own_noise"]
    many = fit_expert(answers(count=60, samples=40), "ada").estimates["own_noise"]
    assert many.low <= 0.3 <= many.high
    assert many.high - many.low < few.high - few.low


def test_the_likelihood_of_one_step_is_that_of_an_equicorrelated_normal():
    # with no common noise, rights are binomial; with nearly all noise common, all samples agree
    kind = Kind("math", 1, 0.0, 0, 1.0)
    independent = [Outcome(kind, 2, r) for r, times in ((0, 1), (1, 2), (2, 1)) for _ in range(100 * times)]
    assert maximise(independent, load=0.35, deceived=0.3, noise=0.5).noise < 0.01
    agreeing = [Outcome(kind, 2, r) for r in (0, 2) for _ in range(100)]
    assert maximise(agreeing, load=0.35, deceived=0.3, noise=0.5).noise > 0.9


def test_roles_have_latencies_of_their_own():
    def rows(role: str, mean: float) -> Iterator[AnswerRow]:
        evaluations = simulate(
            SimulatedExpert(role, msgspec.structs.replace(SPEC, latency=Latency(mean))), graded_tasks(300)
        )
        for evaluation in evaluations:
            key = f"{role}/{evaluation.task.key}"
            yield msgspec.structs.replace(evaluation.row, expert="ada", key=key, role=role)

    found = fit_expert([*rows("query", 8.0), *rows("code", 20.0)], "ada").estimates
    assert found["latency.by_role.query"].value == pytest.approx(8.0, rel=0.06)
    assert found["latency.by_role.code"].value == pytest.approx(20.0, rel=0.06)
    assert found["latency.spread"].value == pytest.approx(0.3, abs=0.02)


def test_lengths_of_one_kind_of_problem_give_the_tokens_of_a_step():
    tasks = [ExpertTask(key=str(i), instruction="?", answer="1", steps=3) for i in range(500)]
    rows = [evaluation.row for evaluation in simulate(SimulatedExpert("ada", SPEC), tasks)]
    found = fit_expert(rows, "ada", SPEC).estimates
    assert not found["tokens.overhead"].fitted
    assert found["tokens.per_step"].value == pytest.approx(120, rel=0.05)


# ------------------------------------------------------------------------------------------------ files and entries


def test_rows_read_back_as_they_were_written(tmp_path: Path):
    rows = answers(count=20)
    write_jsonl(tmp_path / "a.jsonl", rows)
    assert read_answers(tmp_path / "a.jsonl") == rows


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (['{"expert": "a", "key": "p"}'], r"a\.jsonl:1: expected an answer as JSON: .*`right`"),
        (['{"expert": "a", "key": "p", "right": true, "step": 3}'], r":1: .*unknown field `step`"),
        (['{"expert": "a", "key": "p", "right": true, "steps": 0}'], r":1: .*>= 1"),
        (
            ['{"expert": "a", "key": "p", "right": true}'] * 2,
            r":2: expected one row for sample 0 of a on 'p'; line 1 is",
        ),
        (
            ['{"expert": "a", "key": "p", "right": true}', '{"expert": "b", "key": "p", "right": true, "steps": 2}'],
            r":2: expected 'p' to be what it is in line 1 .*Give another problem another key",
        ),
        (["not json"], r":1: expected an answer as JSON"),
        ([], r"holds no answer"),
    ],
)
def test_a_line_that_is_no_answer_is_named(tmp_path: Path, lines: list[str], message: str):
    file = tmp_path / "a.jsonl"
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    with pytest.raises(OptionError, match=message):
        read_answers(file)


def test_an_expert_that_answered_nothing_is_unknown():
    with pytest.raises(UnknownNameError, match=r"Unknown expert among the answers 'adda'\. Did you mean 'ada'"):
        fit_expert(answers(count=4), "adda")


def test_an_entry_is_a_catalogue_file_that_gives_back_the_fitted_expert(tmp_path: Path, fit: Fit):
    catalog = Catalog.load()
    base = catalog.spec("qwen3-8b")
    file = tmp_path / "fitted.yaml"
    entries = {"qwen3-8b": fit.entry(base), "new": fit.entry(), "copy": fit.entry(base, new=True)}
    file.write_text(dump_yaml({"experts": entries}), encoding="utf-8")
    read = Catalog.load(file)
    known, new, copy = (read.spec(name) for name in entries)
    assert "price" not in entries["qwen3-8b"]
    assert msgspec.structs.replace(known, sources={}) == msgspec.structs.replace(fit.spec(base), sources={})
    assert msgspec.structs.replace(copy, sources={}) == msgspec.structs.replace(known, sources={})
    assert new.skills["math"] == known.skills["math"]
    assert (new.skills["other"], new.provider) == (new.skills["code"], "unknown")
    assert read.source("qwen3-8b", "load") == "fitted to 3,600 answers to 600 problems"
    assert read.source("qwen3-8b", "latency.mean") == "fitted to 3,600 answers to 600 problems"
    assert read.source("qwen3-8b", "skills.science") == catalog.source("qwen3-8b", "skills.science")
    assert read.source("new", "price") == "unknown"


def test_the_plot_shows_observed_shares_with_their_intervals_and_what_is_predicted(tmp_path: Path, fit: Fit):
    pytest.importorskip("matplotlib", reason="comes with the extra `fit`")
    figure = plot_fit(fit)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == 2
    for axes, subject in zip(shown, ("code", "math"), strict=True):
        assert subject in axes.get_title()
        cells = [cell for cell in fit.cells if cell.subject == subject]
        observed, _, (bars,) = axes.containers[0]
        assert list(observed.get_ydata()) == pytest.approx([cell.right / cell.answers for cell in cells])
        ends = [tuple(sorted(point[1] for point in segment)) for segment in bars.get_segments()]
        assert np.array(ends) == pytest.approx(np.array([cell.interval for cell in cells]))
        predicted = next(line for line in axes.lines if line.get_label() == "predicted")
        assert list(predicted.get_ydata()) == pytest.approx([cell.predicted for cell in cells])
    figure.savefig(tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes().startswith(b"\x89PNG")
