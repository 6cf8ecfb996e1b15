"""Recording and replay: the same answers, nothing paid for twice, and errors that say what differs."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from toolorchestra.agents.chat.base import BatchError, ChatRequest, Completion, ScriptedChat
from toolorchestra.agents.chat.replay import Recorded, RecordingChat, ReplayChat, request_key
from toolorchestra.toolscale.common.append_only import AppendingError
from toolorchestra.toolscale.common.errors import ExpertError, InUseError, OptionError, OutputError

TOOL = {"type": "function", "function": {"name": "get_dish", "parameters": {"type": "object"}}}


def ask(text: str = "What is 6 times 7?", **settings: Any) -> ChatRequest:
    return ChatRequest([{"role": "user", "content": text}], **settings)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "records" / "answers.jsonl"


def full(number: int) -> Completion:
    """An answer in which every field counts."""
    call = {"id": "c1", "name": "get_dish", "arguments": '{"dish": "Grüße \\u0000"}'}
    return Completion(
        f"Grüße {number}\n🍲",
        [call],
        12,
        3,
        0.1 + 0.2,
        1 / 3,
        "tool_calls",
        [1, 2],
        [-0.1, -1e-300],
        [4],  # type: ignore[list-item]
    )


def record(file: Path, requests: list[ChatRequest], answers: list[Any]) -> list[Completion]:
    with RecordingChat(ScriptedChat(answers, name="m"), file) as chat:
        return chat.complete(requests)


def test_a_replay_gives_back_every_field_of_every_answer_and_counts_it(file: Path) -> None:
    requests = [ask(temperature=0), ask("And 6 plus 7?", tools=[TOOL], temperature=0.3, stop=("x",), seed=4)]
    given_out = record(file, requests, [full(1), full(2)])
    chat = ReplayChat(file)
    assert chat.complete(requests) == given_out == [full(1), full(2)]
    assert (chat.name, chat.meter.usage.calls, chat.meter.usage.cost) == ("m", 2, 2 * (0.1 + 0.2))


def test_samples_of_one_question_stay_several_and_in_order(file: Path) -> None:
    record(file, [ask(), ask("Else?"), ask(), ask()], ["41", "x", "42", "43"])
    chat = ReplayChat(file)
    assert [chat.complete([ask()])[0].text for _ in range(3)] == ["41", "42", "43"]
    with pytest.raises(BatchError, match=r"holds 4 answers, but this request only 3 times, and it came once more"):
        chat.complete([ask()])


def test_the_order_of_keys_does_not_matter_and_every_setting_does() -> None:
    swapped = ChatRequest([{"content": "What is 6 times 7?", "role": "user"}])
    assert request_key("m", ask()) == request_key("m", swapped)
    others = [
        ask("What is 6 times 7 ?"),
        ask(temperature=0.5),
        ask(top_p=0.5),
        ask(max_tokens=5),
        ask(stop=("a",)),
        ask(seed=0),
        ask(tools=[TOOL]),
    ]
    keys = {request_key("m", ask()), request_key("n", ask()), request_key("m", ask(), 1)}
    assert len(keys | {request_key("m", other) for other in others}) == 3 + len(others)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            ask("What is 6 times 8?"),
            r"differs in message 1, 'content', at character 16 \('What is 6 times 7\?' recorded, 'Wh",
        ),
        (ask(temperature=0.0), r"differs in temperature \(1\.0 recorded, 0\.0 asked\)\."),
        (
            ask(seed=3, max_tokens=7),
            r"differs in max_tokens \(1024 recorded, 7 asked\) and seed \(None recorded, 3 asked\)\.",
        ),
        (ask(tools=[TOOL]), r"differs in tools \(none recorded, get_dish asked\)"),
        (
            ChatRequest([{"role": "user", "content": "What is 6 times 7?"}] * 2),
            r"differs in the number of messages \(1 recorded, 2 asked\)",
        ),
        (
            ChatRequest([{"role": "system", "content": "What is 6 times 7?"}]),
            r"differs in message 1, 'role', at character 0 \('user' recorded, 'system' asked\)",
        ),
    ],
)
def test_a_request_that_was_not_recorded_names_what_differs(file: Path, changed: ChatRequest, message: str) -> None:
    record(file, [ask("Something quite different", temperature=0.2, top_p=0.3), ask()], ["no", "42"])
    with pytest.raises(ExpertError, match=message):
        ReplayChat(file).complete([changed])


def test_an_error_keeps_the_other_answers_of_its_batch(file: Path) -> None:
    record(file, [ask()], ["42"])
    with pytest.raises(BatchError) as caught:
        ReplayChat(file).complete([ask("Else?"), ask()])
    assert [type(result) for result in caught.value.results] == [ExpertError, Completion]


def test_a_recorder_asks_only_what_its_record_does_not_hold(file: Path) -> None:
    record(file, [ask(), ask()], ["41", "42"])
    inner = ScriptedChat(["43", "new"], name="m")
    with RecordingChat(inner, file) as chat:
        texts = [answer.text for answer in chat.complete([ask(), ask("Else?"), ask(), ask()])]
    assert texts == ["41", "43", "42", "new"]
    assert [request.messages[0]["content"] for request in inner.requests] == ["Else?", "What is 6 times 7?"]
    assert chat.meter.usage.calls == 4
    assert [one.text for one in ReplayChat(file).complete([ask()] * 3)] == ["41", "42", "new"]


def test_what_failed_is_not_recorded_and_comes_again_as_if_for_the_first_time(file: Path) -> None:
    with RecordingChat(ScriptedChat([ExpertError("down"), "41", "42"], name="m"), file) as chat:
        with pytest.raises(BatchError) as caught:
            chat.complete([ask(), ask()])
        assert str(caught.value.results[0]) == "down"
        assert chat.complete([ask()])[0].text == "42"
    assert [one.text for one in ReplayChat(file).complete([ask(), ask()])] == ["41", "42"]


def test_a_recorder_killed_at_any_moment_loses_nothing_that_it_returned(file: Path) -> None:
    code = f"""
import os, signal, sys
from pathlib import Path
from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.chat.replay import RecordingChat
chat = RecordingChat(ScriptedChat(["41", "42"], name="m"), Path({str(file)!r}))
chat.complete([ChatRequest([{{"role": "user", "content": "What is 6 times 7?"}}])] * 2)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run([sys.executable, "-c", code], check=False)
    assert ended.returncode == -signal.SIGKILL
    whole = file.read_bytes()
    file.write_bytes(whole[:-9])  # as if killed while writing
    assert [one.text for one in ReplayChat(file).complete([ask()])] == ["41"]
    assert [one.text for one in record(file, [ask(), ask()], ["43"])] == ["41", "43"]
    assert len(file.read_bytes().splitlines()) == 2


def test_of_many_requests_only_a_batch_is_lost_to_an_interruption(file: Path) -> None:
    def answer(request: ChatRequest) -> str:
        if request.messages[0]["content"] == "5":
            raise KeyboardInterrupt
        return "ok"

    with RecordingChat(ScriptedChat(answer, name="m"), file, batch_size=2) as chat, pytest.raises(KeyboardInterrupt):
        chat.complete([ask(str(i)) for i in range(8)])
    assert len(file.read_bytes().splitlines()) == 4
    with pytest.raises(OptionError, match="at least 1 request at once, got 0"):
        RecordingChat(ScriptedChat([]), file, batch_size=0)


def test_a_record_of_several_models_replays_the_one_that_is_named(file: Path) -> None:
    record(file, [ask()], ["42"])
    with RecordingChat(ScriptedChat(["six times seven"], name="poet"), file) as chat:
        chat.complete([ask()])
    assert ReplayChat(file, "poet").complete([ask()])[0].text == "six times seven"
    with pytest.raises(OptionError, match=r"holds answers of m, poet: say whose are replayed with name="):
        ReplayChat(file)
    with pytest.raises(OptionError, match=r"holds no answer of ghost, only of m, poet"):
        ReplayChat(file, "ghost")
    file.write_bytes(b"")
    with pytest.raises(OptionError, match=r"holds no answer of m, nor of any other\."):
        ReplayChat(file, "m")


def test_a_file_that_is_no_record_or_is_in_use_is_refused(file: Path) -> None:
    with pytest.raises(AppendingError, match="cannot be read"):
        ReplayChat(file)
    record(file, [ask()], ["42"])
    with RecordingChat(ScriptedChat([], name="m"), file), pytest.raises(InUseError, match="written by process"):
        RecordingChat(ScriptedChat([], name="m"), file)
    file.write_bytes(b'{"model": 3}\n' + file.read_bytes())
    with pytest.raises(AppendingError, match=r"line 1: expected a recorded answer"):
        ReplayChat(file)


def test_a_full_disk_leaves_the_record_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch, fill_disk: Callable[[int], None]
) -> None:
    record(file, [ask()], ["42"])
    before = file.read_bytes()
    fill_disk(5)
    with pytest.raises(OutputError, match="No space left on device"):
        record(file, [ask(), ask()], ["43"])
    monkeypatch.undo()
    assert file.read_bytes() == before


def test_a_request_that_cannot_be_written_as_json_is_an_error_and_not_sent(file: Path) -> None:
    inner = ScriptedChat(["ok"], name="m")
    with RecordingChat(inner, file) as chat, pytest.raises(BatchError, match="can be written as JSON") as caught:
        chat.complete([ask("\ud800"), ask()])
    assert isinstance(caught.value.results[1], Completion)
    assert len(inner.requests) == 1
    with pytest.raises(BatchError, match="can be written as JSON"):
        ReplayChat(file).complete([ask("\ud800")])


def test_many_threads_record_into_one_file_and_none_is_lost(file: Path) -> None:
    chat = RecordingChat(ScriptedChat(lambda request: str(request.messages[0]["content"]) + "!", name="m"), file)
    threads = [
        threading.Thread(target=lambda n=n: [chat.complete([ask(f"{n}-{i}"), ask("same")]) for i in range(10)])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chat.close()
    replay = ReplayChat(file)
    questions = [ask(f"{n}-{i}") for n in range(8) for i in range(10)]
    random.Random(0).shuffle(questions)
    assert [one.text for one in replay.complete(questions)] == [f"{q.messages[0]['content']}!" for q in questions]
    assert [one.text for one in replay.complete([ask("same")] * 80)] == ["same!"] * 80


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 2), st.integers(-(2**62), 2**62))
def test_a_line_of_a_record_reads_back_as_it_was_written(text: str, temperature: float, seed: int) -> None:
    line = Recorded("m", ask(text, temperature=temperature, seed=seed), 0, full(1))
    again = msgspec.json.decode(msgspec.json.encode(line), type=Recorded)
    assert again.key == line.key
    assert again.completion == line.completion
