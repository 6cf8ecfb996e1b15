from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import pytest

import toolorchestra
from toolorchestra.envs.checks import one_agent, report as report_module
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.envs.checks.one_agent import CHECKS
from toolorchestra.envs.checks.report import CheckReport, CheckResult
from toolorchestra.envs.checks.wording import wording_finding
from toolorchestra.envs.play import Play, PlaySnapshot
from toolorchestra.envs.task_source import DomainSource, MixtureSource
from toolorchestra.envs.toolorchestra.env import ToolOrchestraEnv
from toolorchestra.toolscale.answers.typed_answers import TypedAnswer
from toolorchestra.toolscale.common.errors import OptionError, UnknownNameError
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.tasks import verify as verification
from toolorchestra.toolscale.tasks.task import Call, Task, write_tasks
from toolorchestra.toolscale.tasks.verify import SOLVED
from toolorchestra.toolscale.tools.tool import Status

CUSTOM = "ToolOrchestra-Custom-v0"
MUTANTS = ("drop a write", "alter an argument", "change a slot", "add a stray write")
VARIANTS = ("reorder independent calls", "add reads", "another tool, same facts", "spell the answer otherwise")


@pytest.fixture
def check(quick_folder: Path) -> Callable[..., CheckResult]:
    """Run one check on the mini domain."""

    def run(name: str, **options: Any) -> CheckResult:
        (result,) = check_environment(CUSTOM, domain=quick_folder, checks=[name], **options).results
        return result

    return run


def test_the_mini_domain_passes_all_checks(quick_folder: Path):
    reported = []
    report = check_environment(
        CUSTOM,
        domain=quick_folder,
        random_episodes=200,
        hostile=200,
        progress=lambda name, done, total: reported.append((name, done, total)),
    )
    assert report.passed, report
    assert [result.name for result in report.results] == list(CHECKS)
    findings = {result.name: result.finding for result in report.results}
    assert re.sub(r"\(\w{12}\)", "(…)", findings.pop("determinism")) == (
        "50 episodes: the same bytes twice here and in 2 processes with other hash seeds (…)"
    )
    counts = {result.name: result.counts for result in report.results}
    hostile, attacked = counts["hostile"], counts["attacks"]
    statuses = ", ".join(f"{hostile[str(status)]} {status}" for status in Status)
    assert findings == {
        "gymnasium": "Gymnasium's checker passes without warnings",
        "oracle": "all 48 tasks of all splits solved by their reference trajectory",
        "null": "the empty answer solves 0 of 48 tasks (0.0%; the floor is below 1%)",
        "random": "the random policy solves 0 of 200 episodes (0.0%; the floor is below 1%)",
        "snapshot": "48 snapshots, restored twice each: every episode went on the same",
        "hostile": f"200 actions: nothing raised, nothing harmed ({statuses})",
        "verifier": "100.00% of 384 mutants judged failed, 100.00% of 334 legitimate variants judged solved",
        "attacks": f"0 of {attacked['attacks']:,} attacks paid (0.00%), "
        f"100.00% of {attacked['rephrasings']:,} rephrasings accepted",
        "exploit": "best exploit 100.0% (random 50.0%; at most 3 points more), without calls 0.00% (at most 1%)",
        "wording": "wording to look at: sentences 5, registers 4, ids 1",
        "coverage": "6 of 12 tools are on a reference trajectory; tasks: train 34, test 6, test_intents 8",
    }
    assert [result.verdict for result in report.results] == [*["pass"] * 9, "note", "note", "note"]
    assert min(attacked["attacks"], attacked["rephrasings"]) > 200
    for name, count in {"oracle": 48, "null": 48, "random": 200, "snapshot": 48, "hostile": 200}.items():
        assert [step[1:] for step in reported if step[0] == name] == [(done, count) for done in range(count + 1)]
    for name in ("verifier", "attacks"):
        assert [step for step in reported if step[0] == name][-1] == (name, 48, 48)


def test_it_is_public():
    assert toolorchestra.check_environment is check_environment


def test_environments_with_several_agents_are_checked_too():
    steps = []
    report = check_environment(
        "MSARL-Math-v0", checks=["privacy", "snapshot"], python="simulated", progress=lambda *step: steps.append(step)
    )
    assert report.passed, report
    assert [result.name for result in report.results] == ["privacy", "snapshot"]
    assert steps == [("privacy", 0, 1), ("privacy", 1, 1), ("snapshot", 0, 1), ("snapshot", 1, 1)]
    with pytest.raises(UnknownNameError, match="Did you mean 'privacy'"):
        check_environment("MSARL-Math-v0", checks=["privaci"])


def test_counts_stand_behind_the_findings(check: Callable[..., CheckResult], mini: Domain):
    tasks = len(mini.tasks())
    assert check("oracle").counts == {"tasks": tasks, "solved": tasks}
    assert check("null").counts == {"tasks": tasks, "solved": 0}
    verifier = check("verifier").counts
    for name, part, kinds in (("mutants", "killed", MUTANTS), ("variants", "accepted", VARIANTS)):
        assert {kind for kind in verifier if kind.startswith(f"{name}: ")} == {f"{name}: {kind}" for kind in kinds}
        assert verifier[name] == verifier[part] == sum(verifier[f"{name}: {kind}"] for kind in kinds) > 0
    assert verifier["equivalent"] == 0


def test_idle_tools_and_empty_splits_are_noted_but_no_failure(check: Callable[..., CheckResult]):
    result = check("coverage")
    assert (result.verdict, result.counts["tools"], result.counts["idle tools"]) == ("note", 12, 6)
    assert result.finding.startswith("6 of 12 tools are on a reference trajectory; tasks: train ")
    assert "mini: no reference trajectory calls take_coupon" in result.details
    assert len(result.details) == 6


def test_a_split_without_tasks_is_noted_and_nothing_is_where_all_are_used(mini: Domain, tmp_path: Path):
    def coverage(*tasks: Task, world: Domain = mini) -> CheckResult:
        source = DomainSource(world.with_tasks(tasks, {}))
        return check_environment(CUSTOM, source=source, checks=["coverage"]).results[0]

    train = next(task for task in mini.tasks("train"))
    assert coverage(train).details[-2:] == ("the split 'test' has no task", "the split 'test_intents' has no task")
    every = msgspec.structs.replace(train, reference_calls=tuple(Call(name, {}) for name in mini.tools))
    tasks = [msgspec.structs.replace(every, id=f"mini/{split}", split=split) for split in SPLITS]
    result = coverage(*tasks)
    assert (result.verdict, result.details) == ("pass", ())
    assert result.finding == "14 of 14 tools are on a reference trajectory; tasks: train 1, test 1, test_intents 1"


def test_wording_that_no_person_would_use_is_noted_in_a_users_domain_and_fails_in_one_of_the_library(
    check: Callable[..., CheckResult],
):
    result = check("wording")
    assert (result.verdict, result.counts["ids"]) == ("note", 1)
    assert any("phrasings without registers" in line for line in result.details)
    restaurant = load_domain("restaurant")
    assert wording_finding([(restaurant, restaurant.tasks())]).verdict == "pass"
    worse = [msgspec.structs.replace(task, answer="T05") for task in restaurant.tasks()[:3]]
    assert wording_finding([(restaurant, worse)]).verdict == "fail"


# What each check finds, with an environment in which only that is wrong


def greeting(communicate: tuple[tuple[str, ...], ...], answer: str) -> Task:
    """Return a task without calls, that wants nothing but a word."""
    return Task(
        id="mini/greet/000", domain="mini", intent="greet", split="train", difficulty=1, instruction="Greet me.",
        reference_calls=(), communicate=communicate, answer=answer,
    )  # fmt: skip


@pytest.fixture
def only_failure(mini: Domain, edited: Callable[..., Path]) -> Callable[..., CheckResult]:
    """Run all checks on eight tasks of the mini domain and more of one's own; return the result of the one that fails.

    Determinism, which starts two processes, is left out unless it is `wanted`.
    """
    folder = edited("tools.spin", ..., file="tools.yaml")
    edited("tools.spin_writing", ..., file="tools.yaml")

    def run(wanted: str, *tasks: Task, **options: Any) -> CheckResult:
        file = folder / "few.jsonl"
        write_tasks(file, [*mini.tasks()[::6], *tasks])
        names = [name for name in CHECKS if name in {*CHECKS} - {"determinism"} | {wanted}]
        report = check_environment(
            CUSTOM, tasks=file, checks=names, **({"random_episodes": 30, "hostile": 60} | options)
        )
        assert [result.name for result in report.results if result.verdict == "fail"] == [wanted], report
        return next(result for result in report.results if result.name == wanted)

    return run


def test_gymnasiums_checker_finds_a_space_that_is_none(
    only_failure: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    made = ToolOrchestraEnv.__init__

    def without_space(self: ToolOrchestraEnv, *args: Any, **options: Any) -> None:
        made(self, *args, **options)
        self.action_space = None  # type: ignore[assignment]

    monkeypatch.setattr(ToolOrchestraEnv, "__init__", without_space)
    assert only_failure("gymnasium").finding.startswith(
        "TypeError: action space does not inherit from `gymnasium.spaces.Space`, actual type: <class 'NoneType'>"
    )


def test_warnings_of_gymnasiums_checker_are_noted(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    close = ToolOrchestraEnv.close

    def once(self: ToolOrchestraEnv) -> None:
        if self.__dict__.setdefault("closed", False):
            raise RuntimeError("closed already")
        self.__dict__["closed"] = True
        close(self)

    monkeypatch.setattr(ToolOrchestraEnv, "close", once)
    result = check("gymnasium")
    assert (result.verdict, result.finding, result.counts) == ("note", "passes, with 1 warnings", {"warnings": 1})
    assert "on the closed environment should be allowed, but it raised an exception: closed" in result.details[0]


def test_determinism_finds_records_that_depend_on_the_environment_that_made_them(
    only_failure: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    prompt, numbers = ToolOrchestraEnv._prompt, iter(range(10**9))

    def numbered(self: ToolOrchestraEnv, *about: Any) -> str:
        return f"{prompt(self, *about)} {self.__dict__.setdefault('number', next(numbers))}"

    monkeypatch.setattr(ToolOrchestraEnv, "_prompt", numbered)
    result = only_failure("determinism")
    assert result.finding == "150 of 150 replayed episodes differ"
    assert result.counts == {"episodes": 50, "processes": 3, "differing": 150}
    assert result.details[0].startswith("episode 0: mini/")
    assert len(result.details) == 51


def test_the_oracle_finds_tasks_that_cannot_be_done_in_so_few_turns(only_failure: Callable[..., CheckResult]):
    result = only_failure("oracle", max_turns=1, answer="text")  # the oracle makes its calls in the only turn
    assert result.finding == "0 of 8 tasks solved by their reference trajectory"
    assert result.counts == {"tasks": 8, "solved": 0}
    assert result.details[0] == "mini/ask_price/000: failed: no answer after 1 turns"


def test_the_null_policy_finds_a_task_that_wants_nothing(only_failure: Callable[..., CheckResult]):
    result = only_failure("null", greeting((), "Hello."), random_episodes=5)
    assert result.finding == "the empty answer solves 1 of 9 tasks (11.1%; the floor is below 1%)"
    assert (result.counts, result.details) == ({"tasks": 9, "solved": 1}, ("mini/greet/000",))


def test_the_random_policy_finds_a_task_that_any_answer_solves(only_failure: Callable[..., CheckResult]):
    result = only_failure("random", greeting((("It is",),), "It is so."), answer="text")
    solved = result.counts["solved"]
    assert 1 <= solved < 30
    share = f"{solved / 30:.1%}"
    assert result.finding == f"the random policy solves {solved} of 30 episodes ({share}; the floor is below 1%)"
    assert all(re.fullmatch(r"mini/greet/000 \(seed \d+\)", detail) for detail in result.details)


def test_snapshot_finds_a_restore_that_forgets_the_database(
    only_failure: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    restored = PlaySnapshot.restored

    def forgetful(self: PlaySnapshot, session: Any) -> Play:
        play = restored(self, session)
        play.session.reset()
        return play

    monkeypatch.setattr(PlaySnapshot, "restored", forgetful)
    result = only_failure("snapshot")
    wrong = result.counts["wrong"]
    assert result.finding == f"{wrong} of 80 restored episodes went on differently"
    assert 0 < wrong < 80
    assert re.fullmatch(
        r"mini/\w+/\d+ \(seed \d+\), before action \d+, restored into the same environment", result.details[0]
    )
    assert any(detail.endswith("restored into a fresh environment") for detail in result.details)


def test_hostile_finds_a_step_that_raises_for_what_is_no_text(
    only_failure: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    step = ToolOrchestraEnv.step

    def fussy(self: ToolOrchestraEnv, action: Any) -> Any:
        return step(self, action.strip())

    monkeypatch.setattr(ToolOrchestraEnv, "step", fussy)
    result = only_failure("hostile")
    assert result.finding == f"{result.counts['wrong']} faults in 60 actions"
    assert len(result.details) == result.counts["wrong"] > 5
    assert result.details[0].startswith("step raised AttributeError: '")
    assert "' object has no attribute 'strip'; action " in result.details[0]


def test_verifier_finds_that_only_look_ups_by_identity_count(
    only_failure: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(verification, "not_shown", lambda entries, _: set(entries))
    monkeypatch.setattr(one_agent, "RIGHT", 0)
    result = only_failure("verifier")
    assert result.counts["variants: another tool, same facts"] == 7
    assert result.counts["accepted: another tool, same facts"] == 2  # entries that are written too
    assert result.finding.endswith(
        "legitimate variants judged solved; 5 that see the same facts with another tool judged failed, expected none"
    )


def test_verifier_finds_right_answers_judged_failed(check: Callable[..., CheckResult], judge_by: Callable[..., None]):
    def literal(text: str, typed: TypedAnswer) -> list[str]:
        """Judge, and take no spelling but one."""
        return [] if text == typed.written() else ["another spelling"]

    judge_by(literal)
    result = check("verifier")
    accepted, variants = result.counts["accepted"], result.counts["variants"]
    assert result.verdict == "fail"
    assert 0 < accepted < variants == 334
    assert result.finding == (
        f"100.00% of 384 mutants judged failed, {accepted / 334:.2%} of 334 legitimate variants judged solved"
    )
    assert "spell the answer otherwise: with spaces — fidelity: another spelling" in " ".join(result.details)


def test_an_environment_without_tasks_has_no_reference_trajectory_that_solves_one(mini: Domain):
    empty = DomainSource(mini.with_tasks([], {}))
    (result,) = check_environment(CUSTOM, source=empty, checks=["oracle"]).results
    assert (result.verdict, result.finding) == ("fail", "0 of 0 tasks solved by their reference trajectory")


def test_a_process_that_breaks_down_fails_determinism_with_its_last_words(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho Looking. >&2\necho No Python here. >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    assert check("determinism").finding == "RuntimeError: The other process ended with code 3: No Python here."


def test_an_environment_that_solves_everything_fails_the_floors(
    check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Domain, "verify", lambda *_: SOLVED)
    for name, count, unit in (("null", 48, "tasks"), ("random", 20, "episodes")):
        result = check(name, random_episodes=20)
        assert result.verdict == "fail"
        assert f"solves {count} of {count} {unit} (100.0%; the floor is below 1%)" in result.finding


def test_arguments_that_another_process_cannot_have_are_refused_by_determinism(mini: Domain):
    class LocalSource(DomainSource):
        """A source that no other process can import."""

    (result,) = check_environment(CUSTOM, source=LocalSource(mini), checks=["determinism"]).results
    assert result.verdict == "fail"
    assert result.finding.startswith("OptionError: The environment's arguments cannot be sent to another process (")
    assert result.finding.endswith("): give names or folders.")


def test_a_verifier_that_accepts_everything_fails(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolorchestra.toolscale.tasks.verify.Verifier.verify", lambda *_: SOLVED)
    result = check("verifier")
    assert result.verdict == "fail"
    mutants = result.counts["mutants"]
    assert result.counts["killed"] == 0
    assert result.finding.startswith(f"0.00% of {mutants} mutants judged failed (")
    assert len(result.details) == 51
    assert result.details[-1] == f"… and {mutants - 50} more"


def test_a_check_that_breaks_fails_and_hides_no_other(mini_folder: Path, monkeypatch: pytest.MonkeyPatch):
    def breaks(subject: Any) -> Any:
        raise RuntimeError("broken check")

    monkeypatch.setitem(CHECKS, "oracle", breaks)
    report = check_environment(CUSTOM, domain=mini_folder, checks=["oracle", "null"])
    assert [result.verdict for result in report.results] == ["fail", "pass"]
    assert report.results[0].finding == "RuntimeError: broken check"
    assert report.results[0].details[-1].strip() == 'raise RuntimeError("broken check")'
    assert not report


def test_long_lists_of_details_are_cut(check: Callable[..., CheckResult], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(report_module, "_MAX_DETAILS", 3)
    details = check("oracle", max_turns=1).details
    assert len(details) == 4
    assert details[-1] == "… and 45 more"


def test_a_mixture_is_checked_as_well(quick: Domain, edited: Callable[..., Path]):
    folder = edited("name", "other")
    for name in ("spin", "spin_writing"):
        edited(f"tools.{name}", ..., file="tools.yaml")
    source = MixtureSource([DomainSource(quick), DomainSource(folder)])
    names = ["oracle", "null", "snapshot", "hostile", "verifier"]
    report = check_environment(CUSTOM, source=source, checks=names, hostile=100)
    assert report.passed, report
    assert report.results[0].counts["tasks"] == 2 * len(quick.tasks())


def test_wrong_arguments_are_the_callers_errors(mini_folder: Path):
    with pytest.raises(UnknownNameError, match="Did you mean 'oracle'"):
        check_environment(CUSTOM, domain=mini_folder, checks=["orcale"])
    with pytest.raises(OptionError, match="`hostile` must be at least 1, got 0"):
        check_environment(CUSTOM, domain=mini_folder, hostile=0)
    with pytest.raises(OptionError, match="`random_episodes` must be at least 1, got -1"):
        check_environment(CUSTOM, domain=mini_folder, random_episodes=-1)
    reported = r"CartPole-v1 is no ToolOrchestra environment of this library but CartPoleEnv; .*check_env checks any"
    with pytest.raises(OptionError, match=reported):
        check_environment("CartPole-v1")
    with pytest.raises(gym.error.Error, match="`ToolOrchestra-Nowhere` doesn't exist"):
        check_environment("ToolOrchestra-Nowhere-v0")


def test_a_report_reads_as_text_and_as_a_condition():
    passed, failed = CheckResult("a", "pass", "fine"), CheckResult("b", "fail", "not fine")
    noted = CheckResult("c", "note", "by the way")
    assert CheckReport("X-v0", (passed, noted))
    report = CheckReport("X-v0", (passed, failed))
    assert not report
    assert str(report) == "X-v0\npass  a                0.0 s  fine\nfail  b                0.0 s  not fine"


def test_attacks_are_tried_on_a_sample_of_many_tasks(quick: Domain, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolorchestra.envs.checks.one_agent.MAX_ATTACKED", 20)
    (result,) = check_environment(CUSTOM, domain=quick, checks=["attacks"]).results
    assert result.counts["tasks"] == len(quick.tasks()[::3]) <= 20
    assert "(one of 3 tasks of each domain was tried)" in result.finding
    assert any(line.startswith("attack: as it is, nothing done: 0 of") for line in result.details)
