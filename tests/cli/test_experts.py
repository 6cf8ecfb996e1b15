"""The experts command: what it prints, writes and refuses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolorchestra.agents.chat.base import ChatRequest, ScriptedChat
from toolorchestra.agents.experts.catalog import Catalog
from toolorchestra.cli.main import main
from toolorchestra.toolscale.common.errors import ExpertError

Run = Any


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `experts` with words; returns the exit code, the output and the error output."""
    monkeypatch.setenv("COLUMNS", "150")

    def call(*words: object) -> tuple[int, str, str]:
        code = main(["experts", *map(str, words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    file = tmp_path / "tasks.jsonl"
    lines = [
        {"key": f"sum{i}", "instruction": f"What is {i} plus 1?", "answer": str(i + 1), "subject": "math"}
        for i in range(12)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return file


def test_list_shows_every_expert_and_json_holds_the_entries(run: Run):
    code, out, _ = run("list")
    assert code == 0
    for name in Catalog.load().experts:
        assert f"\n{name} " in out
    assert "33 experts" in out
    code, out, _ = run("list", "--configuration", "unseen-prices", "--json")
    found = json.loads(out)
    assert set(found) == set(Catalog.load().configure("evaluation").specs)
    assert found["llama-3.3-70b"]["price"] == {"input": 0.23, "output": 0.4}


def test_show_names_the_source_of_every_figure(run: Run):
    _, out, _ = run("show", "gpt-5")
    assert Catalog.load().spec("gpt-5").description[:40] in out
    lines = {line.split()[0]: line for line in out.splitlines() if line.strip()}
    assert "tools.json (answer-1)" in lines["latency.mean"]
    assert "our estimate from hle 23.4 %" in lines["skills.reasoning"]
    assert "query, code, generalist" in lines["roles"]
    assert json.loads(run("show", "gpt-5", "--json")[1])["context"] == 400_000


def test_a_file_of_ones_own_is_taken_along_everywhere(run: Run, tmp_path: Path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("experts: {gpt-5: {price: {input: 77}}}", encoding="utf-8")
    assert "77" in run("list", "--catalog", mine)[1]
    assert "mine.yaml" in run("show", "gpt-5", "--catalog", mine)[1]
    assert "77" in run("tool-config", "--catalog", mine)[1]


def test_tool_config_shows_a_fixed_configuration_or_a_seeded_draw(run: Run):
    _, out, _ = run("tool-config", "unseen-models")
    assert "openmath-llama-2-70b" in out
    assert "tools: web_search ($0.008, 2 s), local_search ($0, 0.3 s), python ($0, 1 s)" in out
    assert "prices: own\n" in out
    first, again, other = (run("tool-config", "training", "--seed", seed, "--json")[1] for seed in (1, 1, 2))
    assert first == again != other
    assert json.loads(first)["experts"]["generalist"]


def test_what_a_simulated_expert_answers_is_fitted_and_printed_as_a_catalogue_file(run: Run, tmp_path: Path):
    pytest.importorskip("scipy", reason="comes with the extra `fit`")
    answers, entry, plot = (tmp_path / name for name in ("asked/answers.jsonl", "fitted/entry.yaml", "drawn/fit.png"))
    code, out, _ = run("ask", "qwen3-8b", "--count", 140, "--out", answers)
    assert code == 0
    assert f"toolorchestra experts fit {answers} --name qwen3-8b" in out
    assert len(answers.read_text().splitlines()) == 560
    code, out, err = run("fit", answers, "--name", "qwen3-8b")
    assert code == 0
    found = yaml.safe_load(out)["experts"]["qwen3-8b"]
    assert set(found) == {"skills", "load", "deceived", "own_noise", "tokens", "latency", "sources"}
    assert "95 % interval" in err
    assert "shared_noise: taken as 0.2" in err
    assert run("fit", answers, "--name", "qwen3-8b", "--out", entry)[1] == ""
    assert entry.read_text() == out
    assert Catalog.load(entry).spec("qwen3-8b").load == found["load"]
    pytest.importorskip("matplotlib", reason="comes with the extra `fit`")
    assert run("fit", answers, "--name", "qwen3-8b", "--plot", plot, "--json", "--out", tmp_path / "same.yaml")[0] == 0
    assert (tmp_path / "same.yaml").read_text() == out
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_file_of_answers_that_is_not_there_is_named(run: Run):
    pytest.importorskip("scipy", reason="comes with the extra `fit`")
    code, _, err = run("fit", "missing.jsonl", "--name", "x")
    assert code == 2
    assert "missing.jsonl cannot be read" in err


def test_a_new_expert_takes_from_another_what_its_answers_do_not_tell(run: Run, tmp_path: Path):
    pytest.importorskip("scipy", reason="comes with the extra `fit`")
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        '{"expert": "ours", "key": "p", "right": true}\n{"expert": "ours", "key": "q", "right": false}\n'
    )
    _, out, _ = run("fit", answers, "--name", "ours")
    assert yaml.safe_load(out)["experts"]["ours"]["provider"] == "unknown"
    _, out, _ = run("fit", answers, "--name", "ours", "--like", "qwen3-8b")
    found = yaml.safe_load(out)["experts"]["ours"]
    assert found["price"] == {"input": 0.2, "output": 0.2}
    assert found["skills"]["other"] == pytest.approx(0.5, abs=1e-3)


def test_without_scipy_fitting_says_what_to_install(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for module in ("likelihood", "fitting"):
        monkeypatch.delitem(sys.modules, f"toolorchestra.agents.experts.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "scipy", None)
    code, _, err = run("fit", "x.jsonl", "--name", "x")
    assert code == 2
    assert "Fitting experts needs scipy, which is not installed: pip install" in err


def test_describe_writes_by_rule_and_as_yaml(run: Run, tmp_path: Path):
    code, out, _ = run("describe", "gpt-5", "--count", 140)
    assert code == 0
    assert out == Catalog.load().spec("gpt-5").description + "\n"
    assert run("describe", "gpt-5")[1].startswith("It is ")
    file = tmp_path / "described.yaml"
    file.write_text(run("describe", "gpt-5", "--yaml")[1])
    catalog = Catalog.load(file)
    assert catalog.source("gpt-5", "description") == "written by rule from 10 evaluations"
    assert catalog.spec("gpt-5").price == Catalog.load().spec("gpt-5").price


def answer(request: ChatRequest) -> str:
    number = int(str(request.messages[-1]["content"]).split()[2])
    return rf"\boxed{{{number + 1}}}" if number % 3 else "I cannot say."


def test_a_real_expert_is_asked_recorded_and_replayed_without_asking(
    run: Run, tmp_path: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
):
    chat_model = ScriptedChat(answer, name="Qwen/Qwen3-8B")
    monkeypatch.setattr(Catalog, "chat", lambda self, name: chat_model)
    record, first, second = (tmp_path / name for name in ("record.jsonl", "first.jsonl", "second.jsonl"))
    common = ("ask", "qwen3-8b", "--tasks", tasks, "--samples", 2)
    code, out, _ = run(*common, "--record", record, "--out", first)
    assert code == 0
    assert "24 answers" in out
    assert "16 right (66.7%)" in out
    assert len(chat_model.requests) == 24
    monkeypatch.setattr(Catalog, "chat", lambda self, name: pytest.fail("nothing is asked on replay"))
    assert run(*common, "--replay", record, "--out", second)[0] == 0
    assert first.read_bytes() == second.read_bytes()
    code, _, err = run("ask", "qwen3-8b", "--tasks", tasks, "--temperature", 0.5, "--replay", record, "--out", second)
    assert code == 2
    assert "differs in temperature (1.0 recorded, 0.5 asked)" in err


def test_an_interrupted_evaluation_keeps_the_answers_that_were_paid(
    run: Run, tmp_path: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
):
    def failing(request: ChatRequest) -> str | ExpertError:
        number = int(str(request.messages[-1]["content"]).split()[2])
        return ExpertError("the server hung up") if number == 5 else answer(request)

    down, up = ScriptedChat(failing, name="Qwen/Qwen3-8B"), ScriptedChat(answer, name="Qwen/Qwen3-8B")
    out, mine = tmp_path / "answers.jsonl", tmp_path / "mine.yaml"
    mine.write_text("experts: {qwen3-8b: {endpoint: {base_url: 'http://127.0.0.1:9/v1'}}}")
    common = ("ask", "qwen3-8b", "--catalog", mine, "--tasks", tasks, "--out", out)
    monkeypatch.setattr(Catalog, "chat", lambda self, name: down)
    code, _, err = run(*common)
    assert code != 0
    assert "answers.jsonl.part: the same command goes on from there" in err
    assert not out.exists()
    monkeypatch.setattr(Catalog, "chat", lambda self, name: up)
    assert run(*common)[0] == 0
    assert len(out.read_text().splitlines()) == 48
    assert 0 < len(up.requests) < 48
    assert [path.name for path in tmp_path.glob("answers*")] == ["answers.jsonl"]


def test_a_real_expert_is_described_from_a_sample_of_the_tasks_by_a_model(
    run: Run, tmp_path: Path, tasks: Path, monkeypatch: pytest.MonkeyPatch
):
    chat_model = ScriptedChat(answer, name="Qwen/Qwen3-8B")
    sampler = ScriptedChat(["Good at sums."], name="describer")

    class Fake:
        def __init__(self, url: str, model: str, **options: object) -> None:
            assert (url, model) == ("http://x/v1", "describer")

        def __enter__(self) -> ScriptedChat:
            return sampler

        def __exit__(self, *exc_info: object) -> None:
            pass

    monkeypatch.setattr(Catalog, "chat", lambda self, name: chat_model)
    monkeypatch.setattr("toolorchestra.agents.chat.openai_chat.OpenAIChat", Fake)
    record = ("--record", tmp_path / "record.jsonl")
    out = run("describe", "qwen3-8b", "--tasks", tasks, *record, "--llm", "http://x/v1", "--model", "describer")[1]
    assert out == "Good at sums.\n"
    assert len(chat_model.requests) == 10
    assert str(sampler.requests[0].messages[-1]["content"]).count("## Task") == 10


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("show", "gpt5"), "Unknown expert 'gpt5'. Did you mean 'gpt-5'"),
        (("tool-config", "traning"), "Unknown configuration 'traning'. Did you mean 'training'"),
        (("list", "--catalog", "missing.yaml"), "missing.yaml: It cannot be read"),
        (("fit", "x.jsonl", "--name", "x", "--plot", "x.gif"), "--plot writes .png, .pdf or .svg"),
        (("fit", "x.jsonl", "--name", "x", "--shared-noise", "1"), "--shared-noise must be at least 0 and below 1"),
        (("ask", "gpt-5", "--samples", "0"), "--samples must be at least 1, got 0"),
        (("ask", "gpt-5", "--noted", "2"), "--noted must be from 0 to 1"),
        (("ask", "gpt-5", "--record", "a", "--replay", "b"), "--record and --replay exclude each other"),
        (("ask", "gpt-5", "--simulated", "--replay", "b"), "are for real experts"),
        (("ask", "gpt-5", "--replay", "b"), "gpt-5 is real: give it tasks with --tasks FILE"),
        (("describe", "gpt-5", "--llm", "http://x"), "--llm and --model go together"),
        (("describe", "gpt-5", "--count", "0"), "--count must be at least 1"),
    ],
)
def test_mistakes_are_reported_with_the_remedy(run: Run, words: tuple[str, ...], message: str):
    code, _, err = run(*words)
    assert code == 2
    assert message in " ".join(err.replace("│", " ").split())


def test_a_real_expert_needs_an_endpoint_and_its_key(run: Run, tasks: Path, tmp_path: Path):
    code, _, err = run("ask", "gpt-5", "--tasks", tasks, "--record", tmp_path / "r.jsonl")
    assert code == 2
    assert "gpt-5: expected an endpoint to ask the real model at, found none" in err
    mine = tmp_path / "mine.yaml"
    mine.write_text("experts: {gpt-5: {endpoint: {base_url: 'http://127.0.0.1:9/v1', api_key_env: NO_SUCH_KEY}}}")
    code, _, err = run("ask", "gpt-5", "--tasks", tasks, "--catalog", mine)
    assert code == 2
    assert "expected a key in the environment variable NO_SUCH_KEY" in err
