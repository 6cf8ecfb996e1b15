from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolorchestra.toolscale.common.errors import ExpertError, InUseError, SynthesisError
from toolorchestra.toolscale.synth.answer_store import AnswerStore, ModelAnswer, ModelQuestion, RecordedModel

ANSWER = ModelAnswer("Grüße\n- one", 12, 3, 0.25)


def question(text: str = "Why?", **changes: object) -> ModelQuestion:
    fields = {"temperature": 0.7, "max_tokens": 100, "seed": 0, "attempt": 0} | changes
    return ModelQuestion(messages=(("user", text),), **fields)  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "domain" / "answers.jsonl"


def test_an_answer_stored_is_there_when_the_store_is_opened_again(file: Path) -> None:
    with AnswerStore(file) as store:
        store.add("k1", "tools/get_book/0", "m", ANSWER)
        store.add("k2", "tools/get_book/1", "m", ANSWER)
    with AnswerStore(file) as store:
        assert store.get("k1") == ANSWER
        assert store.get("k3") is None
        assert (len(store), store.spent) == (2, 0.5)


def test_an_answer_is_on_disk_before_the_process_goes_on(file: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from toolorchestra.toolscale.synth.answer_store import *
store = AnswerStore(Path({str(file)!r}))
store.add("k1", "m", "m", ModelAnswer("text"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], check=False)
    with AnswerStore(file) as store:
        assert store.get("k1") == ModelAnswer("text")


@pytest.mark.parametrize("torn", [1, 20, -1])
def test_a_line_that_a_kill_tore_is_cut_off_and_written_again(file: Path, torn: int) -> None:
    with AnswerStore(file) as store:
        store.add("k1", "a", "m", ANSWER)
        store.add("k2", "b", "m", ANSWER)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:torn])
    with AnswerStore(file) as store:
        assert store.get("k1") == ANSWER
        if torn == -1:  # only its end is missing
            assert store.get("k2") == ANSWER
        else:
            assert store.get("k2") is None
            store.add("k2", "b", "m", ANSWER)
    assert file.read_bytes() == b"".join(lines)


def test_a_line_that_a_person_broke_is_named_and_not_overwritten(file: Path) -> None:
    with AnswerStore(file) as store:
        store.add("k1", "a", "m", ANSWER)
    file.write_bytes(b"{}\n" + file.read_bytes())
    before = file.read_bytes()
    with pytest.raises(SynthesisError, match=r"answers\.jsonl, line 1: expected a stored answer"):
        AnswerStore(file)
    assert file.read_bytes() == before


def test_two_runs_do_not_share_a_store(file: Path) -> None:
    with AnswerStore(file), pytest.raises(InUseError, match=f"is being written by process {os.getpid()}"):
        AnswerStore(file)
    with AnswerStore(file):
        pass


def test_a_disk_that_is_full_leaves_the_store_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, fill_disk: Callable[[int], None]
) -> None:
    with AnswerStore(file) as store:
        store.add("k1", "a", "m", ANSWER)
        before = file.read_bytes()
        fill_disk(7)
        with pytest.raises(SynthesisError, match=r"answers\.jsonl cannot be written: No space left") as caught:
            store.add("k2", "b", "m", ANSWER)
        assert caught.value.resumable
        assert store.get("k2") is None
    assert file.read_bytes() == before


def test_the_key_of_a_question_covers_all_that_its_answer_depends_on() -> None:
    questions = [
        question(),
        question("Why not?"),
        question(temperature=0.0),
        question(max_tokens=7),
        question(seed=1),
        question(attempt=1),
    ]
    assert len({each.key("m") for each in questions} | {question().key("other")}) == len(questions) + 1
    assert question().key("m") == question().key("m")


def test_the_store_is_lines_of_json_with_the_question_and_the_model(file: Path) -> None:
    with AnswerStore(file) as store:
        store.add("k1", "tools/get_book/0", "m", ANSWER)
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["matter"] == "tools/get_book/0"
    assert json.loads(line)["answer"]["text"] == "Grüße\n- one"


def test_a_recording_answers_with_the_next_answer_when_shown_one(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("- question: [birds]\n  answers: [bad, better]\n")
    model = RecordedModel(tmp_path / "r.yaml")
    start = (("system", "s"), ("user", "Name birds."))
    assert model.ask(ModelQuestion(start, 0, 1, 0)).text == "bad"
    shown = (*start, ("assistant", "bad"), ("user", "No."))
    assert model.ask(ModelQuestion(shown, 0, 1, 0)).text == "better"
    with pytest.raises(ExpertError, match="nothing is recorded"):
        model.ask(ModelQuestion((("system", "s"), ("user", "Name fish.")), 0, 1, 0))
