from __future__ import annotations

import csv
from pathlib import Path

import pytest

from toolorchestra.cli.main import main


def test_a_study_prints_its_tables_and_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "masbench", "--questions", "1", "--out", str(tmp_path / "study")]) == 0
    printed = capsys.readouterr().out
    assert "| 1: weak, gain on horizon |" in printed
    assert (tmp_path / "study" / "study.md").read_text(encoding="utf-8").startswith(printed)
    with (tmp_path / "study" / "study.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["axis"] for row in rows} == {"depth", "horizon", "breadth", "parallel", "robustness", "searches"}


def test_a_study_of_simulated_models_alone_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "found.json"
    assert main(["study", "paramanager", "--questions", "1", "--samples", "1", "--out", str(file)]) == 0
    assert "| parallel, paramanager |" in capsys.readouterr().out
    assert file.read_bytes().startswith(b'{"questions":1')


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["masbench", "--questions", "0"], "at least one question"),
        (["paramanager", "--catalog", "mine.yaml"], "simulated models alone"),
        (["tmatr", "--catalog", "mine.yaml"], "simulated models alone"),
        (["masbench", "--seeds", "1"], "trains nothing"),
        (["tmatr", "--outputs", "25"], "Leave out --outputs"),
        (["msarl", "--chains", "5"], "chains of 1 to 4"),
        (["msarl", "--catalog", "mine.yaml"], "simulated models alone"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", *arguments]) != 0
    assert message in capsys.readouterr().err


def test_real_models_need_an_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = tmp_path / "mine.yaml"
    catalog.write_text('experts: {qwen2.5-7b: {endpoint: {base_url: "http://127.0.0.1:9/v1"}}}', encoding="utf-8")
    assert main(["study", "masbench", "--questions", "1", "--catalog", str(catalog)]) != 0
    assert "gpt-oss-120b: expected an endpoint" in capsys.readouterr().err


def test_the_study_of_msarl_trains_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from toolorchestra.algos.studies import msarl

    def ended(cell: msarl.Cell, system: str, seed: int, *_: object) -> msarl.SystemRun:
        scores = [0.0, 1.0]
        return msarl.SystemRun(cell, system, seed, (scores, scores), (scores, scores), 1.0, 1.0, 36.0)

    monkeypatch.setattr(msarl, "begin", lambda *_: tmp_path)
    monkeypatch.setattr(msarl, "_trained", ended)
    assert main(["study", "msarl", "--quick", "--outputs", "25", "400", "--chains", "2", "--seeds", "3", "4"]) == 0
    printed = capsys.readouterr().out
    assert "2 seeds" in printed
    assert "0.1 hours of training" in printed
    assert printed.count("| single, deleted |") == 2


def test_a_quick_run_of_the_study_on_masbench_is_short() -> None:
    from toolorchestra.algos.studies import masbench

    assert masbench.episodes(*masbench.QUICK) < 25_000  # at about 600 a second on one core
