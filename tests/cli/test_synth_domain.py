"""The synth command against a local server that speaks the protocol and answers from a recording."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from toolorchestra.cli.main import main
from toolorchestra.toolscale.common.errors import ExpertError
from toolorchestra.toolscale.domain_folder import load_domain
from toolorchestra.toolscale.synth.answer_store import ModelAnswer, ModelQuestion, RecordedModel

RECORDING = Path(__file__).parents[1] / "data" / "synth" / "library.yaml"
SIZES = "--subjects 2 --entries 40 --tools 5 --intents 4 --tasks-per-intent 6 --evolved 2 --repairs 2"
MADE = "domain.yaml tools.yaml intents.yaml synth.json domain.db tasks.jsonl build.json report.json"


class Recorded:
    """Answers from the recording, as slowly and badly as the test sets."""

    def __init__(self) -> None:
        self.url = ""
        self.model = RecordedModel(RECORDING)
        self.questions: list[str] = []
        """The keys of the questions, in the order in which they came."""
        self.trouble: Callable[[int], int] = lambda number: 200
        """The status of the n-th request; 0 hangs up, -1 keeps silent."""
        self.silence = threading.Event()
        """Set when it need no longer keep silent."""
        self.player: str | None = None
        """What it says to requests that are not in the recording: as a player of tasks."""

    def respond(self, body: dict[str, Any]) -> tuple[int, Any]:
        messages = tuple((message["role"], message["content"]) for message in body["messages"])
        seed = attempt = body.get("seed", 0)  # counts up from --seed
        question = ModelQuestion(messages, body["temperature"], body["max_tokens"], seed, attempt)
        self.questions.append(question.key("m"))
        status = self.trouble(len(self.questions))
        if status == -1:
            self.silence.wait(60)
        if status != 200:
            return max(status, 0), {"error": {"message": "in trouble"}}
        try:
            answer = self.model.ask(question)
        except ExpertError as error:
            if self.player is None:
                return 404, {"error": {"message": str(error)}}
            answer = ModelAnswer(self.player, 1000, 10)
        return 200, {
            "choices": [{"message": {"role": "assistant", "content": answer.text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": answer.prompt_tokens, "completion_tokens": answer.completion_tokens},
        }


@pytest.fixture
def server(fake_server: Any) -> Iterator[Recorded]:
    server = Recorded()
    server.url, fake_server.respond = fake_server.url, server.respond
    yield server
    server.silence.set()


@pytest.fixture
def unvalidated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the validation out: it is slow, and tested by itself."""
    monkeypatch.setattr("toolorchestra.cli.synth.domain.SynthDomainCommand._validate", lambda self: 0)


def options(server: Recorded, folder: Path, *more: str) -> list[str]:
    title = ["--llm", server.url, "--model", "m", "--title", "Village library"]
    return ["synth", str(folder), *title, *SIZES.split(), *more]


def made(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in MADE.split()}


def stored(folder: Path) -> list[dict[str, Any]]:
    """The whole lines of a store of answers."""
    file = folder / "answers.jsonl"
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


# without a model


def test_a_domain_written_by_hand_is_built_filtered_and_reported(
    edited: Callable[..., Path], unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    folder = edited("tools.spin.description", "Never ends.", file="tools.yaml")
    assert main(["synth", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "near-duplicate" in out
    report = json.loads((folder / "report.json").read_bytes())
    assert [stage["name"] for stage in report["stages"]] == ["build", "filter"]
    assert report["not_run"] == [{"name": "unsolved in pass@8", "why": "no solver was given"}]


def test_the_filter_by_solvers_keeps_what_a_solver_solves(edited: Callable[..., Path], unvalidated: None):
    folder = edited()
    assert main(["synth", str(folder), "--solver", "noisy-oracle", "--k", "2"]) == 0
    report = json.loads((folder / "report.json").read_bytes())
    assert report["not_run"] == []
    kept = {one["name"]: one["kept"] for one in report["stages"][1]["filters"]}
    assert 0 < kept["unsolved in pass@2"] <= kept["solvable without action"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--title Zoo", "give --llm BASE_URL or --from-sqlite FILE"),
        ("--llm http://x --model m", "--llm needs a model and a title"),
        ("--llm http://x --title Zoo", "--llm needs a model and a title"),
        ("--llm http://x --from-sqlite zoo.db", "--llm needs a model: --model NAME"),
        ("--references zoo.yaml", "--references is for --from-sqlite FILE: give that as well."),
        ("--model m", "--model is for --llm BASE_URL"),
        ("--budget 3", "--budget is for --llm BASE_URL"),
        ("--llm http://x --model m --title Zoo --budget 3", "and --price IN OUT"),
        ("--llm http://x --model m --title Zoo --price -1 0", "--price must be at least 0"),
        ("--llm http://x --model m --title Zoo --tools 0", "--tools must be at least 1"),
        ("--llm http://x --model m --title Zoo --tasks-per-intent 0", "--tasks-per-intent must be at least 1"),
        ("--llm http://x --model m --title Zoo --today 2025-02-30", "expected a date"),
        ("--solver llm", "--solver llm needs a model"),
    ],
)
def test_options_that_cannot_go_together_are_refused_with_the_way_out(
    given: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["synth", str(tmp_path), *given.split()]) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


# from a SQLite file


def test_what_a_database_lost_is_printed_and_english_names_are_suggested_or_asked_for(
    fake_server: Any, tmp_path: Path, unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    with contextlib.closing(sqlite3.connect(tmp_path / "my.db")) as connection:
        connection.executescript("""
            CREATE TABLE kunden (id INTEGER PRIMARY KEY, vorname TEXT);
            CREATE TABLE bestellungen (id INTEGER PRIMARY KEY, kunden_id INTEGER, datum TEXT);
            CREATE TABLE alembic_version (id INTEGER PRIMARY KEY);
        """)
        connection.executemany("INSERT INTO kunden VALUES (?, ?)", [(i, f"Ada {i}") for i in range(1, 41)])
        orders = [(i, i % 40 + 1, f"2025-01-{i % 28 + 1:02d}") for i in range(1, 81)]
        connection.executemany("INSERT INTO bestellungen VALUES (?, ?, ?)", orders)
        connection.commit()
    command = ["synth", str(tmp_path / "shop"), "--from-sqlite", str(tmp_path / "my.db")]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "Left out: 1\n  Tables of Alembic's own: alembic_version." in out
    evidence = "bestellungen.kunden_id → kunden.id: 80 of 80 values, 40 different; the name says so."
    assert f"Inferred from names and values, not declared in the file: 1\n  {evidence}\nAll of it stands at" in out
    assert f"run the same command with --names {tmp_path / 'shop' / 'names.yaml'}" in out
    words = {
        "kunden": "customers",
        "kunden.vorname": "name",
        "bestellungen": "orders",
        "bestellungen.datum": "order date",
    }
    reply = {"choices": [{"message": {"role": "assistant", "content": json.dumps(words)}, "finish_reason": "stop"}]}
    fake_server.respond = lambda body: (200, reply)
    assert main([*command, "--llm", fake_server.url, "--model", "m"]) == 0
    assert "do not look English" not in capsys.readouterr().out
    assert set(load_domain(tmp_path / "shop").spec.tables) == {"customers", "orders"}
    assert len(stored(tmp_path / "shop")) == 1


# with a model


def test_good_and_bad_answers_and_a_failing_endpoint_lead_to_a_valid_domain(
    server: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    troubles = {1: 429, 2: 500, 5: 503, 9: 0, 14: -1, 20: 429, 21: 429, 33: 0, 40: -1, 41: 500}
    server.trouble = lambda number: troubles.get(number, 200)
    folder = tmp_path / "library"
    arguments = options(server, folder, "--timeout", "1", "--random-episodes", "20", "--hostile", "20")
    assert main(arguments) == 0
    captured = capsys.readouterr()
    assert "all checks passed" in captured.out
    assert f"toolorchestra train grpo --env {folder}\n" in captured.out
    assert "repaired" in captured.err
    domain = load_domain(folder)
    assert set(domain.spec.tools) == {
        *("get_member", "get_book", "lend_book", "return_book", "list_loans"),
        *("calculator", "look_calendar"),
    }
    assert set(domain.spec.intents) == {
        *("borrow_book", "give_back", "expired_card", "what_is_out"),
        "borrow_book_constraint",
    }
    assert domain.spec.intents["borrow_book_constraint"].operator == "constraint"
    assert [row["name"] for row in domain.spec.tables["branches"].rows] == ["Market Square", "Mill Lane"]
    stages = {
        stage["name"]: stage["filters"][0] for stage in json.loads((folder / "report.json").read_bytes())["stages"]
    }
    assert stages["tools"]["dropped"] == 1
    assert "clear_out" in stages["tools"]["examples"][0]
    assert stages["evolved"] | {"examples": []} == {"name": "no valid answer", "kept": 1, "dropped": 1, "examples": []}
    env = gym.make("ToolOrchestra-Custom-v0", domain=folder)
    assert "Village library" in env.reset(seed=0)[1]["messages"][0]["content"]
    env.close()


def test_the_same_command_again_sends_no_question(server: Recorded, tmp_path: Path, unvalidated: None):
    assert main(options(server, tmp_path, "--parallel", "1")) == 0
    first, count = made(tmp_path), len(server.questions)
    assert main(options(server, tmp_path, "--parallel", "7")) == 0
    assert len(server.questions) == count == len(set(server.questions)) == len(stored(tmp_path))
    assert made(tmp_path) == first


@pytest.mark.long
def test_the_number_of_parallel_requests_makes_no_difference(server: Recorded, tmp_path: Path, unvalidated: None):
    rng = random.Random(0)
    trouble = server.trouble
    server.trouble = lambda number: (threading.Event().wait(rng.random() * 0.01), trouble(number))[1]
    for parallel in ("1", "8"):
        assert main(options(server, tmp_path / parallel, "--parallel", parallel)) == 0
    assert made(tmp_path / "1") == made(tmp_path / "8")
    keys = [{line["key"] for line in stored(tmp_path / parallel)} for parallel in ("1", "8")]
    assert keys[0] == keys[1]


def test_an_endpoint_that_fails_for_good_ends_the_run_with_all_saved(
    server: Recorded, tmp_path: Path, unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    server.trouble = lambda number: 200 if number <= 20 else 429
    assert main(options(server, tmp_path, "--retries", "1")) == 3
    assert len(server.questions) <= 20 + 2 * 4  # those under way, twice
    saved = len(stored(tmp_path))
    assert saved == 20
    message = capsys.readouterr().err
    assert "stopped: No answer for" in message
    assert "got status 429" in message
    assert "20 answers are saved in" in message
    assert "Run the same command again to go on." in message
    server.trouble = lambda number: 200
    before = set(server.questions[:20])
    del server.questions[:]
    assert main(options(server, tmp_path, "--retries", "1")) == 0
    assert not before & set(server.questions)


def test_no_server_at_all_is_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = ["synth", str(tmp_path), "--llm", "http://127.0.0.1:9/v1", "--model", "m", "--title", "Zoo"]
    assert main([*arguments, "--retries", "0"]) == 3
    assert "could not reach it" in capsys.readouterr().err


def test_a_spent_budget_stops_before_the_next_question_and_counts_what_was_spent_before(
    server: Recorded, tmp_path: Path, unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    costs = ["--price", "1000", "0", "--parallel", "1"]  # a dollar for a thousand words
    assert main(options(server, tmp_path, *costs, "--budget", "2")) == 3
    message = capsys.readouterr().err
    assert "The budget of $2 is spent" in message
    assert "Raise --budget and run the same command again to go on." in message
    spent = [line["answer"]["cost"] for line in stored(tmp_path)]
    assert sum(spent[:-1]) < 2 <= sum(spent)
    count = len(server.questions)
    assert main(options(server, tmp_path, *costs, "--budget", "2")) == 3
    assert len(server.questions) == count
    assert main(options(server, tmp_path, *costs, "--budget", "1000")) == 0


def test_tasks_that_the_model_itself_does_not_solve_are_dropped(
    server: Recorded, tmp_path: Path, unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    solver = ["--solver", "llm", "--k", "1", "--price", "1000", "0"]
    assert main(options(server, tmp_path, *solver)) == 3  # nothing recorded: status 404
    assert "stopped: The solver failed" in capsys.readouterr().err
    server.player = "I do not know."
    assert main(options(server, tmp_path, *solver)) == 1
    assert "No task is left after the filters" in capsys.readouterr().err
    unsolved = {
        one["name"]: one for one in json.loads((tmp_path / "report.json").read_bytes())["stages"][-1]["filters"]
    }
    assert unsolved["unsolved in pass@1"]["kept"] == 0
    spent = sum(line["answer"]["cost"] for line in stored(tmp_path))
    assert main(options(server, tmp_path, *solver, "--budget", str(spent + 5))) == 3
    assert "expected to spend less than $5" in capsys.readouterr().err


def test_yaml_that_a_person_changed_is_not_overwritten(
    server: Recorded, tmp_path: Path, unvalidated: None, capsys: pytest.CaptureFixture[str]
):
    assert main(options(server, tmp_path)) == 0
    with (tmp_path / "tools.yaml").open("a") as file:
        file.write("# looked through\n")
    before = made(tmp_path)
    assert main(options(server, tmp_path)) == 2
    assert "was written or changed by hand" in capsys.readouterr().err
    assert made(tmp_path) == before
    assert main(["synth", str(tmp_path)]) == 0  # built as it is


def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    arguments = ["--llm", "http://127.0.0.1:9/v1", "--model", "m", "--title", "Zoo"]
    assert main(["synth", str(tmp_path / "file"), *arguments]) == 4
    assert f"{tmp_path / 'file'} is a file, not a folder" in capsys.readouterr().err


# ended from outside

PARENT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # where tests run in the background it is ignored
from toolorchestra.cli.main import main
from toolorchestra.cli.synth.domain import SynthDomainCommand
import toolorchestra.agents.chat.openai_chat, toolorchestra.cli.display.synthesis
import toolorchestra.toolscale.synth.pipeline, faker
SynthDomainCommand._validate = lambda self: 0
for line in sys.stdin:
    if (child := os.fork()) == 0:
        os._exit(main(line.split("\\t")[:-1]))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runs:
    """A process that has imported everything and forks one run after another, so that starting one takes no time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def start(self, arguments: list[str]) -> int:
        """Start a run; return its process id."""
        assert self._process.stdin
        self._process.stdin.write("\t".join([*arguments, "\n"]))
        self._process.stdin.flush()
        return self._line()

    def end(self) -> int:
        """Wait for the run; return its exit code, negative when a signal ended it."""
        return self._line()

    def _line(self) -> int:
        assert self._process.stdout
        while True:
            line = self._process.stdout.readline()
            assert line, "the parent of the runs has ended"
            if line.strip().lstrip("-").isdigit():
                return int(line)

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


@pytest.mark.long
def test_kill_9_at_twenty_random_questions_loses_no_finished_answer(server: Recorded, tmp_path: Path, runs: Runs):
    runs.start(options(server, tmp_path / "whole"))
    assert runs.end() == 0
    whole, asked = made(tmp_path / "whole"), len(server.questions)
    moment, child = 0, 0
    started = threading.Event()

    def kill(number: int) -> int:
        if number == moment:
            started.wait()
            with contextlib.suppress(ProcessLookupError):  # another request had the same number
                os.kill(child, signal.SIGKILL)
        return 200

    server.trouble = kill
    rng = random.Random(0)
    killed = rounds = 0
    while killed < 20:
        folder = tmp_path / str(rounds)
        rounds += 1
        del server.questions[:]
        known: dict[str, int] = {}  # the answers stored: by key, how many questions had been asked by then
        for attempt in range(11):  # the last one is left alone
            last = attempt == 10 or killed == 20
            moment = 0 if last else len(server.questions) + rng.randint(1, asked // 3)  # the question that it dies at
            started.clear()
            child = runs.start(options(server, folder))
            started.set()
            code = runs.end()
            lines = [line["key"] for line in stored(folder)]
            assert list(known) == lines[: len(known)]  # nothing that was stored is gone
            for key in lines:
                known.setdefault(key, len(server.questions))
            if code == 0:
                break
            assert code == -signal.SIGKILL
            killed += 1
        else:
            pytest.fail("no run came to its end")
        assert made(folder) == whole
        assert set(server.questions) == set(known)
        for key, before in known.items():
            assert key not in server.questions[before:]  # nothing that is answered is asked again
        lost = len(server.questions) - len(known)
        assert lost <= 4 * killed  # answers under way, at most --parallel of them at a kill


def test_an_interruption_keeps_the_answers_under_way(server: Recorded, tmp_path: Path, unvalidated: None):
    interrupted = threading.Event()

    def interrupt(number: int) -> int:
        """At the ninth question, and answer no later one before."""
        if number == 9:
            os.kill(os.getpid(), signal.SIGINT)
            interrupted.set()
        assert number < 9 or interrupted.wait(60)
        return 200

    server.trouble = interrupt
    assert main(options(server, tmp_path)) == 130
    assert len(stored(tmp_path)) == len(server.questions) == len(set(server.questions))
    assert main(options(server, tmp_path)) == 0
    assert len(stored(tmp_path)) == len(server.questions) == len(set(server.questions))
