from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from examples.studies.__main__ import main

ROOT = Path(__file__).parents[2]


def test_a_study_prints_its_tables_and_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["masbench", "--questions", "1", "--out", str(tmp_path / "study")]) == 0
    printed = capsys.readouterr().out
    assert "| 1: weak, gain on horizon |" in printed
    assert (tmp_path / "study" / "study.md").read_text(encoding="utf-8").startswith(printed)
    with (tmp_path / "study" / "study.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["axis"] for row in rows} == {"depth", "horizon", "breadth", "parallel", "robustness", "searches"}


def test_a_study_of_simulated_models_alone_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "new" / "found.json"
    assert main(["paramanager", "--questions", "1", "--samples", "1", "--out", str(file)]) == 0
    assert "| parallel, paramanager |" in capsys.readouterr().out
    assert file.read_bytes().startswith(b'{"questions":1')


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nothing can be made, as /proc")
@pytest.mark.parametrize("name", ["masbench", "paramanager"])
def test_a_place_that_cannot_be_written_is_found_before_any_work_is_done(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"examples.studies.{name}.run", lambda *_, **__: pytest.fail("something is played"))
    assert main([name, "--out", "/proc/x.svg"]) == 4
    told = "error: /proc/x.svg cannot be written: No such file or directory. Give another path.\n"
    assert capsys.readouterr().err == told


@pytest.mark.long
def test_the_page_of_workers_is_the_same() -> None:
    command = [sys.executable, "-m", "examples.studies", "masbench", "--questions", "1"]
    pages = [subprocess.check_output([*command, *more], cwd=ROOT) for more in ((), ("--workers", "2"))]
    assert pages[0] == pages[1] != b""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["masbench", "--questions", "0"], "at least one question"),
        (["paramanager", "--catalog", "mine.yaml"], "Unrecognized options"),
        (["tmatr", "--catalog", "mine.yaml"], "Unrecognized options"),
        (["masbench", "--seeds", "1"], "Unrecognized options"),
        (["tmatr", "--outputs", "25"], "Unrecognized options"),
        (["msarl", "--chains", "5"], "chains of 1 to 4"),
        (["msarl", "--catalog", "mine.yaml"], "Unrecognized options"),
        (["msarl", "--executor", "ray"], "give --runs"),
        (["masbnch"], "Did you mean 'masbench'?"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) != 0
    assert message in capsys.readouterr().err


def test_real_models_need_an_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = tmp_path / "mine.yaml"
    catalog.write_text('experts: {qwen2.5-7b: {endpoint: {base_url: "http://127.0.0.1:9/v1"}}}', encoding="utf-8")
    assert main(["masbench", "--questions", "1", "--catalog", str(catalog)]) != 0
    assert "gpt-oss-120b: expected an endpoint" in capsys.readouterr().err


def test_the_study_of_msarl_trains_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.studies import msarl

    def ended(cell: msarl.Cell, system: str, seed: int, *_: object) -> msarl.SystemRun:
        scores = [0.0, 1.0]
        return msarl.SystemRun(cell, system, seed, (scores, scores), (scores, scores), 1.0, 1.0, 36.0)

    monkeypatch.setattr(msarl, "begin", lambda *_: tmp_path)
    monkeypatch.setattr(msarl, "_trained", ended)
    assert main(["msarl", "--quick", "--outputs", "25", "400", "--chains", "2", "--seeds", "3", "4"]) == 0
    printed = capsys.readouterr().out
    assert "2 seeds" in printed
    assert "0.1 hours of training" in printed
    assert printed.count("| single, deleted |") == 2


def test_a_quick_run_of_the_study_on_masbench_is_short() -> None:
    from examples.studies import masbench

    assert masbench.episodes(*masbench.QUICK) < 25_000  # at about 600 a second on one core
