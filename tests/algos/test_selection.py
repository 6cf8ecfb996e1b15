from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.reference import NoisyOraclePolicy
from toolorchestra.algos.data.selection import (
    EpisodeCandidate,
    QuestionRecord,
    Selection,
    questions,
    select_hard,
    select_rl,
    select_sft,
)
from toolorchestra.cli import main as cli
from toolorchestra.envs.records.episode import CallRecord, Episode, Outcome, Turn, read_episodes, write_episodes
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.tasks.task import read_tasks
from toolorchestra.toolscale.tools.tool import Status

OK, EXEC_ERR, PARSE_ERR = Status.OK, Status.EXEC_ERR, Status.PARSE_ERR


def episode(
    task: str = "a",
    turns: Sequence[Sequence[tuple[str, Status]]] = (),
    *,
    outcome: Outcome | None = "solved",
    words: str | None = None,
    split: str = "train",
    cost: float = 0.0,
) -> Episode:
    """An episode of these calls, a turn each, and an answer."""
    made = [
        Turn(
            {"role": "assistant", "content": ""},
            tuple(CallRecord(str(n), name, {}, status) for n, (name, status) in calls),
        )
        for calls in map(enumerate, turns)
    ]
    return Episode(
        env_id="ToolOrchestra-Restaurant-v0",
        task_id=task,
        seed=0,
        split=split,
        difficulty=1,
        prompt="",
        instruction=f"Do {task}." if words is None else words,
        tools=("a", "b"),
        turns=[*made, Turn({"role": "assistant", "content": "Done."})],
        answer="Done.",
        outcome=outcome,
        cost=cost,
    )


def sft(*episodes: Episode, **options: object) -> Selection:
    return select_sft([EpisodeCandidate.of(one) for one in episodes], **({"max_tool_share": 1.0} | options))  # type: ignore[arg-type]


def rl(*episodes: Episode, **options: int) -> Selection:
    return select_rl([EpisodeCandidate.of(one) for one in episodes], **options)


# ------------------------------------------------------------------------------------------------- one episode


@pytest.mark.parametrize(
    ("turns", "recovers"),
    [
        ([[("a", OK)]], False),
        ([[("a", EXEC_ERR)], [("b", OK)]], True),
        ([[("a", PARSE_ERR)], [("a", OK)]], True),
        ([[("a", Status.TIMEOUT), ("b", OK)]], False),  # nothing came after it
        ([[("a", OK)], [("a", EXEC_ERR)]], False),
        ([[("a", EXEC_ERR)], [("a", EXEC_ERR)]], False),
    ],
)
def test_an_episode_recovers_when_a_later_turn_goes_well(turns: list[list[tuple[str, Status]]], recovers: bool):
    assert EpisodeCandidate.of(episode(turns=turns)).recovers is recovers


def test_the_final_answer_is_neither_a_recovery_nor_a_tool_to_balance():
    failed = episode(turns=[[("a", EXEC_ERR)], [("final_answer", OK)]])
    failed.turns.pop()  # in ParaManager the call itself ends the episode
    assert not EpisodeCandidate.of(failed).recovers
    assert EpisodeCandidate.of(failed).calls == {"a": 1}


@pytest.mark.parametrize(
    ("outcome", "solved"),
    [("solved", True), ("failed", False), ("infra_error", None), ("judge_error", None), (None, None)],
)
def test_an_infrastructure_error_is_no_verdict(outcome: Outcome | None, solved: bool | None):
    assert EpisodeCandidate.of(episode(outcome=outcome)).solved is solved


def test_questions_are_known_by_their_ids_and_by_their_words():
    records = [
        QuestionRecord("a", "x"),
        QuestionRecord("b", "y"),
        QuestionRecord("c", "x"),
        QuestionRecord("a", "y"),
        QuestionRecord("d"),
        QuestionRecord("e"),
    ]
    assert questions(records) == [0, 0, 0, 0, 1, 2]


# --------------------------------------------------------------------------------------------------------- sft


def test_of_a_question_the_episode_that_recovers_is_kept():
    clean, recovering = episode(turns=[[("a", OK)]]), episode(turns=[[("a", EXEC_ERR)], [("b", OK)]])
    found = sft(clean, recovering, clean)
    assert found.kept == (1,)
    assert found.recovering == 1
    assert found.dropped == {"another episode of the question was chosen": 2}


def test_among_those_that_do_not_recover_the_shortest_and_then_the_cheapest_is_kept():
    long, short = [[("a", OK)], [("b", OK)]], [[("a", OK)]]
    assert sft(episode(turns=long), episode(turns=short, cost=2.0), episode(turns=short, cost=1.0)).kept == (2,)


def test_why_an_episode_is_dropped_is_counted():
    found = sft(
        episode("a", outcome="failed"),
        episode("b", outcome="infra_error"),
        episode("c", split="test"),
        episode("d"),
        episode("e"),
        exclude=[QuestionRecord.of("d", "?")],
    )
    assert found.kept == (4,)
    assert found.dropped == {"not solved": 1, "no verdict": 1, "held-out split": 1, "question of the excluded set": 1}


def test_a_question_of_the_rl_set_is_known_by_its_words_too():
    found = sft(episode("a", words="How many are there?"), exclude=[QuestionRecord.of("z", "How many are there")])
    assert found.dropped == {"question of the excluded set": 1}


def test_other_episodes_are_taken_before_a_question_is_left_out():
    python = [[("python", OK)]]
    found = sft(
        *(episode(f"{n}", turns=python) for n in range(4)),
        *(episode(f"{n}", turns=[[("search", OK), ("python", OK)]]) for n in range(4)),
        max_tool_share=0.7,
    )
    assert len(found.kept) == 4
    assert not found.dominating
    assert found.before == {"python": 8, "search": 4}
    assert found.after["python"] <= 0.7 * sum(found.after.values())


def test_questions_are_left_out_where_nothing_else_balances_the_tools():
    found = sft(
        *(episode(f"p{n}", turns=[[("python", OK)]]) for n in range(5)),
        *(episode(f"s{n}", turns=[[("search", OK)]]) for n in range(3)),
        max_tool_share=0.5,
    )
    assert found.after == {"python": 3, "search": 3}
    assert found.dropped == {"question left out to balance the tools": 2}


def test_a_recovery_is_left_out_last():
    recovering = [[("python", EXEC_ERR)], [("python", OK)]]
    found = sft(
        episode("r", turns=recovering),
        *(episode(f"p{n}", turns=[[("python", OK), ("python", OK)]]) for n in range(3)),
        episode("s", turns=[[("search", OK), ("search", OK)]]),
        max_tool_share=0.5,
    )
    assert found.kept == (0, 4)


def test_where_nothing_balances_the_tools_that_is_reported_and_nothing_is_left_out():
    found = sft(*(episode(f"{n}", turns=[[("python", OK)], [("search", OK)]]) for n in range(3)))
    assert not found.dominating
    found = sft(*(episode(f"{n}", turns=[[("python", OK)], [("search", OK)]]) for n in range(3)), max_tool_share=0.4)
    assert found.kept == (0, 1, 2)
    assert found.dominating == ("python", "search")


def test_episodes_without_calls_need_no_balance():
    assert sft(episode("a"), episode("b"), max_tool_share=0.4).kept == (0, 1)


@pytest.mark.parametrize("share", [0.0, 1.5, -1.0])
def test_a_share_is_a_share(share: float):
    with pytest.raises(OptionError, match="must lie in"):
        sft(episode(), max_tool_share=share)


CANDIDATES = st.lists(
    st.builds(
        EpisodeCandidate,
        question=st.builds(QuestionRecord, st.sampled_from("abcdef"), st.sampled_from(("", "x", "y", "z"))),
        split=st.sampled_from(("train", "train", "test")),
        solved=st.sampled_from((True, True, False, None)),
        calls=st.dictionaries(st.sampled_from(("p", "q", "r", "s")), st.integers(1, 4)),
        failed=st.integers(0, 2),
        recovers=st.booleans(),
        cost=st.floats(0, 1),
    ),
    max_size=24,
)


@given(CANDIDATES, st.lists(st.builds(QuestionRecord, st.sampled_from("abc"), st.sampled_from(("", "x"))), max_size=2))
def test_what_is_kept_is_right_new_and_in_balance(candidates: list[EpisodeCandidate], exclude: list[QuestionRecord]):
    found = select_sft(candidates, exclude=exclude, max_tool_share=0.4)
    kept = [candidates[n] for n in found.kept]
    assert all(one.solved and one.split == "train" for one in kept)
    numbers = questions([*(one.question for one in kept), *exclude])
    selected, excluded = numbers[: len(kept)], numbers[len(kept) :]
    assert len(set(selected)) == len(selected)
    assert not set(selected) & set(excluded)
    total = sum(found.after.values())
    above = {name for name, calls in found.after.items() if calls > 0.4 * total + 1e-9}
    assert above == set(found.dominating)
    if found.dominating:  # nothing was left out in vain
        assert "question left out to balance the tools" not in found.dropped
    assert len(kept) + sum(found.dropped.values()) == len(candidates)


@given(CANDIDATES)
def test_without_a_bound_every_question_with_a_right_answer_is_kept(candidates: list[EpisodeCandidate]):
    numbers = questions([one.question for one in candidates])
    answered = {n for n, one in zip(numbers, candidates, strict=True) if one.solved and one.split == "train"}
    assert {numbers[n] for n in select_sft(candidates, max_tool_share=1.0).kept} == answered


@given(CANDIDATES)
def test_the_same_episodes_give_the_same_selection(candidates: list[EpisodeCandidate]):
    assert select_sft(candidates) == select_sft(candidates)


# ---------------------------------------------------------------------------------------------------------- rl


def samples(task: str, solved: int, failed: int, broken: int = 0) -> list[Episode]:
    outcomes: list[Outcome] = ["solved"] * solved + ["failed"] * failed + ["infra_error"] * broken  # type: ignore[assignment]
    return [episode(task, outcome=outcome) for outcome in outcomes]


def test_tasks_with_mixed_outcomes_are_kept():
    found = rl(*samples("a", 8, 0), *samples("b", 3, 5), *samples("c", 0, 8), *samples("d", 1, 7))
    assert found.kept == (8, 24)
    assert found.questions == 4
    assert found.dropped == {"all solved": 1, "none solved": 1}


def test_infrastructure_errors_are_no_failures():
    found = rl(*samples("a", 8, 0, broken=1), *samples("b", 7, 0, broken=1), *samples("c", 6, 1, broken=1))
    assert found.kept == (17,)
    assert found.dropped == {"all solved": 1, "alike so far, but fewer than 8 samples": 1}


def test_held_out_tasks_are_never_trained_on():
    found = rl(episode("a", split="test"), episode("a", split="test", outcome="failed"))
    assert found.kept == ()
    assert found.dropped == {"held-out split": 1}


def test_one_sample_never_differs():
    with pytest.raises(OptionError, match="never differ"):
        rl(episode(), samples=1)


@given(CANDIDATES, st.integers(2, 9))
def test_every_task_kept_has_been_solved_and_failed(candidates: list[EpisodeCandidate], wanted: int):
    found = select_rl(candidates, samples=wanted)
    numbers = questions([one.question for one in candidates])
    assert len(found.kept) + sum(found.dropped.values()) == found.questions == len(set(numbers))
    for n in found.kept:
        outcomes = {candidates[i].solved for i in range(len(candidates)) if numbers[i] == numbers[n]}
        assert {True, False} <= outcomes


# ------------------------------------------------------------------------------------------------ the commands

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line and return its exit code and what it printed."""

    def call(*arguments: object) -> tuple[int, str]:
        code = cli.main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return call


@pytest.fixture
def played(make_env: Callable[..., object], tmp_path: Path) -> Path:
    """Three noisy episodes of each task of the mini domain."""
    env = make_env()
    policy = NoisyOraclePolicy(seed=1, error=0.4)
    for seed in range(3):
        for task in env.unwrapped.source.tasks("all"):  # type: ignore[attr-defined]
            play_episode(env, policy, seed=seed, options={"task_id": task.id})  # type: ignore[arg-type]
            write_episodes(tmp_path / "played.jsonl", [env.unwrapped.episode])  # type: ignore[attr-defined]
    return tmp_path / "played.jsonl"


def test_the_two_sets_are_disjoint_and_play_on(run: Run, played: Path, mini_folder: Path, tmp_path: Path):
    tasks, shown = tmp_path / "rl.jsonl", tmp_path / "out" / "sft.jsonl"
    code, printed = run("synth", "select", "rl", played, "--samples", 3, "--env", mini_folder, "--out", tasks)
    assert code == 0, printed
    assert "none solved" in printed or "all solved" in printed
    training = {task.id for task in read_tasks(tasks) if task.split == "train"}
    assert training
    assert {task.split for task in read_tasks(tasks)} == {"train", "test", "test_intents"}
    assert run("envs", tasks, "--json")[0] == 2  # the domain is not shipped: its folder is named beside the file
    code, printed = run("synth", "select", "sft", played, "--exclude", tasks, "--max-tool-share", 1, "--out", shown)
    assert code == 0, printed
    kept = list(read_episodes(shown))
    assert kept
    assert not {one.task_id for one in kept} & training
    assert all(one.outcome == "solved" and one.split == "train" for one in kept)
    lines = set(played.read_bytes().splitlines())
    assert set(shown.read_bytes().splitlines()) <= lines  # copied as they are


def test_reports_come_as_json(run: Run, played: Path, mini_folder: Path, tmp_path: Path):
    out = ("--json", "--out", tmp_path / "x.jsonl")
    report = json.loads(run("synth", "select", "sft", played, "--max-tool-share", 1, *out)[1])
    assert report["kept"] + sum(report["dropped"].values()) == report["read"]
    report = json.loads(run("synth", "select", "rl", played, "--samples", 3, "--env", mini_folder, *out)[1])
    assert report["kept"] > 0
    assert report["held_out"] > 0


def test_tools_that_dominate_are_reported(run: Run, tmp_path: Path):
    write_episodes(tmp_path / "e.jsonl", [episode(f"{n}", turns=[[("python", OK)]]) for n in range(3)])
    code, printed = run("synth", "select", "sft", tmp_path / "e.jsonl", "--out", tmp_path / "out.jsonl")
    assert code == 0
    assert "No choice was found in which no tool makes more than 40% of the calls; more has: python." in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sft", "e.jsonl", "--out", "e.jsonl"), "is one of the files to select from"),
        (("sft", "--out", "x.jsonl"), "at least one file"),
        (("sft", "none.jsonl", "--out", "x.jsonl"), "cannot be read"),
        (
            ("sft", "e.jsonl", "--split", "test", "--out", "x.jsonl"),
            "No episode is left to learn from: 2 held-out split",
        ),
        (
            ("sft", "e.jsonl", "--exclude", "odd.jsonl", "--out", "x.jsonl"),
            "odd.jsonl:1: expected a task or an episode",
        ),
        (("rl", "e.jsonl", "--out", "x.jsonl"), "no task of ToolOrchestra-Restaurant-v0: give its --env"),
        (("rl", "e.jsonl", "--split", "test", "--out", "x.jsonl"), "No task is left to train on: 1 held-out split"),
    ],
)
def test_what_cannot_be_selected_is_reported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
):
    monkeypatch.chdir(tmp_path)
    write_episodes(Path("e.jsonl"), [episode(), episode(outcome="failed")])
    Path("odd.jsonl").write_text('{"instruction": "What?"}\n')
    code, printed = run("synth", "select", *arguments)
    assert code == 2
    assert message in printed
    assert not Path("x.jsonl").exists()


# ------------------------------------------------------------------------------- what a base model does not solve


def hard(*base: Episode, by: Sequence[Episode] | None = None, **options: int) -> Selection:
    team = None if by is None else [EpisodeCandidate.of(one) for one in by]
    return select_hard([EpisodeCandidate.of(one) for one in base], solved_by=team, **options)


def test_questions_that_the_base_model_solves_at_once_are_left_out():
    found = hard(
        episode("a"),
        episode("b", outcome="failed"),
        episode("b"),  # a later sample does not count
        episode("c", outcome="infra_error"),
        episode("c", outcome="failed"),
        episode("d", outcome="judge_error"),
        episode("e", outcome="failed", split="test"),
    )
    assert found.kept == (1, 4)
    assert found.dropped == {"solved by the base model": 1, "no verdict": 1, "held-out split": 1}


def test_questions_that_the_team_does_not_solve_are_left_out():
    base = [episode(name, outcome="failed") for name in "abc"]
    team = [episode("a", outcome="failed"), episode("a"), episode("b", outcome="failed")]
    found = hard(*base, by=team)
    assert found.kept == (0,)
    assert found.dropped == {"not solved by the team": 2}


def test_a_limit_draws_by_the_seed():
    base = [episode(str(n), outcome="failed") for n in range(20)]
    found = hard(*base, limit=5)
    assert len(found.kept) == 5
    assert found == hard(*base, limit=5)
    assert found.kept != hard(*base, limit=5, seed=1).kept
    assert found.dropped == {"not drawn": 15}
    with pytest.raises(OptionError, match="at least one"):
        hard(*base, limit=0)


def test_demonstrations_are_of_the_questions_wanted():
    found = sft(episode("a"), episode("b"), only=[QuestionRecord.of("a", "Do a.")])
    assert found.kept == (0,)
    assert found.dropped == {"question that is not wanted": 1}


def test_tasks_of_games_are_selected_and_the_advice_is_taken(run: Run, tmp_path: Path):
    from toolorchestra.algos.options.config_files import options_of, parse_options
    from toolorchestra.envs import make_multiagent
    from toolorchestra.envs.tmatr.teacher import DEMONSTRATIONS, knows, teach

    env = make_multiagent("TMATR-Math-v0")
    tasks = [task for task in env.source.tasks("train") if knows(task) and not DEMONSTRATIONS[task.intent].by_heart][:3]
    for number, task in enumerate(tasks):
        for solves in (False, number > 0):
            env.reset(seed=number, options={"task_id": task.id})
            while not env.play.over:
                env.step(teach(env.play) if solves else "I do not know.")
            write_episodes(tmp_path / "played.jsonl", [env.episode])
    for arguments, kept in ((("rl", "--samples", 2), tasks[1:]), (("hard",), tasks)):
        out = tmp_path / f"{arguments[0]}.jsonl"
        code, printed = run("synth", "select", *arguments, tmp_path / "played.jsonl", "--out", out)
        assert code == 0, printed
        assert [task.id for task in read_tasks(out) if task.split == "train"] == [task.id for task in kept]
        advice = "toolorchestra train tmatr --env TMATR-Custom-v0 --env-options tasks"
        assert advice in " ".join(printed.split())
        config = parse_options(options_of("tmatr"), [*advice.split()[3:], str(out)], "train")
        assert config.make_env().source.tasks("train") == kept  # type: ignore[attr-defined]
    out = tmp_path / "team.jsonl"
    by = ("--solved-by", tmp_path / "played.jsonl", "--limit", 1)
    assert run("synth", "select", "hard", tmp_path / "played.jsonl", *by, "--out", out)[0] == 0
    assert len([task for task in read_tasks(out) if task.split == "train"]) == 1
    only = ("--only", out, "--max-tool-share", 1)
    code, printed = run("synth", "select", "sft", tmp_path / "played.jsonl", *only, "--out", tmp_path / "sft.jsonl")
    assert code == 0, printed
    words = ["--env", "TMATR-Math-v0", "--episodes", str(tmp_path / "sft.jsonl")]
    assert f"toolorchestra train sft {' '.join(words[:3])}" in " ".join(printed.split())
    assert parse_options(options_of("sft"), words, "train").env == "TMATR-Math-v0"
