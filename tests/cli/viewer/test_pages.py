from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from toolorchestra.cli.viewer.details import details
from toolorchestra.cli.viewer.pages import Answers
from toolorchestra.cli.viewer.reference import reference
from toolorchestra.cli.viewer.runs import rollouts
from toolorchestra.cli.viewer.token_texts import _tokenizer, token_texts
from toolorchestra.envs.records.episode import Episode, Turn, read_episodes
from toolorchestra.toolscale.common.errors import OptionError
from toolorchestra.toolscale.domain import Domain


def ids(answers: Answers, **filters: str) -> list[int]:
    return [row["id"] for row in answers.index.rows(filters, limit=500)[1]]


def test_an_episode_comes_with_what_is_derived_from_it(answers: Answers) -> None:
    number = ids(answers, policy="noisy-oracle", outcome="failed")[0]
    found = answers.episode(number)
    episode = msgspec.json.decode(found["episode"], type=Episode)
    assert sum(found["cost_parts"].values()) == pytest.approx(episode.cost)
    wrong = {one["name"] for one in found["criteria"] if one["holds"] is False}
    assert wrong == set(found["reasons"]) & {"execution", "completeness", "fidelity"}
    assert {name for name in wrong if name in episode.why} == wrong
    solved = answers.episode(ids(answers, policy="oracle", outcome="solved")[0])
    assert [(one["name"], one["holds"]) for one in solved["criteria"]] == [
        ("execution", True), ("completeness", True), ("fidelity", True),
    ]  # fmt: skip


def test_thoughts_and_calls_are_apart_from_what_is_said(answers: Answers) -> None:
    number = ids(answers, policy="noisy-oracle")[0]
    recording, line = answers.index.line(number)
    episode = msgspec.json.decode(line, type=Episode)
    call = '<tool_call>{"name": "get_dish", "arguments": {}}</tool_call>'
    calls = next(turn.calls for turn in episode.turns if turn.calls)
    episode.turns = [
        Turn({"role": "assistant", "content": f"<think>12 + 1</think>I look. {call}"}, calls),
        Turn({"role": "assistant", "content": "13.", "reasoning_content": "So it is."}),
        Turn({"role": "assistant", "content": call}),
    ]
    assert details(recording, episode.to_json())["said"] == [
        {"thought": "12 + 1", "text": "I look."},
        {"thought": "So it is.", "text": "13."},
        {"thought": "", "text": call},
    ]


def test_the_reference_is_beside_what_the_episode_did(answers: Answers, mini: Domain) -> None:
    judged = [number for policy in ("noisy-oracle", "oracle") for number in ids(answers, policy=policy)]
    wrote = 0
    for number in judged:
        found, episode = answers.reference(number), answers.episode(number)
        assert "missing" not in found, found
        assert not found["note"], found["note"]
        execution = next(one for one in episode["criteria"] if one["name"] == "execution")
        if execution["holds"] is not None:
            assert found["same"] == execution["holds"]
        for table in found["tables"]:
            for row in table["rows"]:
                wrote += 1
                shown = [row[side] for side in ("before", "reference", "actual") if row[side] is not None]
                assert all(len(cells) == len(mini.spec.tables[table["name"]].columns) for cells in shown)
                assert any(row["changed"])
    assert wrote > 10


def test_a_wrong_change_differs_from_that_of_the_reference(answers: Answers) -> None:
    numbers = ids(answers, policy="noisy-oracle", reason="execution")
    tables = [table for number in numbers for table in answers.reference(number)["tables"]]
    rows = [row for table in tables for row in table["rows"]]
    assert any(row["reference"] != row["actual"] for row in rows)


def test_the_slots_of_an_answer_stand_beside_what_is_right_in_them(answers: Answers, recordings: Path) -> None:
    judged = 0
    for number in ids(answers, policy="noisy-oracle"):
        episode = msgspec.json.decode(answers.episode(number)["episode"], type=Episode)
        slots = answers.reference(number)["slots"]
        if episode.outcome not in ("solved", "failed") or not slots:
            continue
        judged += 1
        assert all(one["holds"] for one in slots) == ("fidelity" not in episode.why)
        given = json.loads(episode.answer or "{}")["answer"]
        assert {one["name"]: one["given"] for one in slots if "given" in one} == given
    assert judged > 5
    file = recordings / "noisy-oracle.jsonl"
    line = next(line for line in file.read_bytes().splitlines() if b'"outcome":"solved"' in line)
    unread = msgspec.structs.replace(msgspec.json.decode(line, type=Episode), answer="It is done.")
    recording = next(one for one in answers.index.recordings if one.path == file)
    slots = reference(recording, unread.to_json())["slots"]
    assert slots
    assert not any(one["holds"] or "given" in one for one in slots)


def test_designs_and_decisions_are_graphs(answers: Answers, recordings: Path) -> None:
    by_env = {answers.index.facts(number)["env_id"]: number for number in ids(answers)}
    found = answers.episode(by_env["MASOrchestra-MASBenchBreadth-v0"])
    assert {agent["id"] for agent in found["design"]["agents"]} >= {
        end for edge in found["design"]["edges"] for end in edge
    }
    assert found["tree"] is None
    tree = answers.episode(by_env["TMATR-Math-v0"])["tree"]
    assert len(tree["edges"]) == len(tree["nodes"]) > 0
    reference = answers.reference(by_env["TMATR-Math-v0"])
    assert reference["tables"] is None
    assert reference["answer"]


def test_two_recordings_are_compared_task_by_task(answers: Answers) -> None:
    numbers = {one["policy"]: one["id"] for one in answers.index.state()["recordings"]}
    found = answers.comparison(numbers["noisy-oracle"], numbers["oracle"])
    assert found["success"]["b"] == 1.0
    assert found["better"]
    assert set(found["pairs"]) == {*found["better"], *found["worse"]}
    a, b = (answers.index.facts(number) for number in found["pairs"][found["better"][0]])
    assert a["task_id"] == b["task_id"] == found["better"][0]
    assert answers.comparison(numbers["oracle"], numbers["random"])["tasks"] == 0


def test_metrics_are_read_on_from_where_they_ended(answers: Answers, run_folder: Path) -> None:
    (name,) = answers.places.runs
    found = answers.metrics({})[name]
    assert [record["step"] for record in found["records"]] == [1, 2, 3, 4, 5, 5]
    file = run_folder / "metrics.jsonl"
    before = file.read_bytes()
    with file.open("ab") as stream:
        stream.write(b'{"phase": "grpo", "step": 6, "kind": "train", "success": 0.9}\n{"phase": "gr')
    later = answers.metrics({name: str(found["read"])})[name]
    assert [record["step"] for record in later["records"]] == [6]
    file.write_bytes(before[: before.index(b"\n") + 1])  # another run begins
    anew = answers.metrics({name: str(later["read"])})[name]
    assert (anew["restarted"], len(anew["records"])) == (True, 1)
    file.write_bytes(before)
    assert answers.rollouts(name)[0]["advantage"] == 0.75
    with pytest.raises(OptionError, match="no run"):
        answers.rollouts("../other")


def test_a_line_that_is_no_episode_any_more_is_an_error(answers: Answers, recordings: Path) -> None:
    number = ids(answers, policy="oracle")[0]
    file = recordings / "oracle.jsonl"
    before = file.read_bytes()
    try:
        file.write_bytes(json.dumps({"x": " " * len(before)}).encode())
        with pytest.raises(OptionError, match="expected an episode"):
            answers.episode(number)
    finally:
        file.write_bytes(before)


def test_tokens_are_shown_as_text_where_the_run_has_a_tokenizer(run_folder: Path, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="comes with the extra `train`")
    words = tokenizers.models.WordLevel({"<unk>": 0, "Seven": 3, "is": 4, "right": 5}, unk_token="<unk>")
    folder = tmp_path / "run"
    shutil.copytree(run_folder, folder)
    assert rollouts(folder)[0]["texts"] is None
    (folder / "start").mkdir()
    tokenizers.Tokenizer(words).save(str(folder / "start" / "tokenizer.json"))
    _tokenizer.cache_clear()
    assert rollouts(folder)[0]["texts"] == ["Seven", "is", "right"]
    assert token_texts(folder, "../orchestrator", [3]) == ["Seven"]


def test_an_episode_that_ended_before_it_was_judged_has_no_verdict(answers: Answers, recordings: Path) -> None:
    episode = next(read_episodes(recordings / "oracle.jsonl"))
    episode.outcome, episode.why = "failed", "ended after 20 turns without an answer"
    found = details(answers.index.recordings[0], episode.to_json())
    assert [one["holds"] for one in found["criteria"]] == [None] * 3
