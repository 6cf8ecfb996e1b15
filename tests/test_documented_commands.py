"""Documents and `--help` agree: commands parse, options, scripts and environments exist, each command has a section."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
import tyro

from examples.designs import Command as Design, main as designs
from examples.exchange import Command as Exchange, main as exchange
from examples.studies.__main__ import Command as Study, main as study
from toolorchestra.algos.options.config_files import LEARNERS, config_argument, options_of
from toolorchestra.cli.main import COMMAND_CONFIG, Command, expand, main
from toolorchestra.cli.options import command_names
from toolorchestra.envs.registration import environment_ids, multiagent_ids

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^ *(```+)(\w*)[^\n]*\n(.*?)^ *\1 *$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(
    r"(?:\w+=\S+ )*(?:(?:torchrun|accelerate launch) (?:--\S+ (?:[\w.]+ )?)*)?(?:(?:python3? )?-m )?(?:python )?"
    r"(?:\.\./)?(?:(?:\S+/bin/)?toolorchestra(?:\.cli)?|(?P<script>(?:algos|benchmarks|examples)/\w+\.py|examples\.\w+))"
    r"(?: (?P<rest>.*))?$"
)
"""How our commands begin: `toolorchestra …`, `python algos/grpo.py …`, `torchrun --nproc_per_node 8 -m …`."""
PLACEHOLDERS = {"ENV": "ToolOrchestra-Restaurant-v0", "ID": "ToolOrchestra-Restaurant-v0", "N": "3"}
OTHERS = {
    "vllm serve": {
        "--enable-lora", "--max-lora-rank", "--max-loras", "--max-model-len", "--max-num-batched-tokens",
        "--no-enable-chunked-prefill", "--weight-transfer-config",
    },
    "accelerate launch": {"--num_processes"},
    "verifiers": {"--env"},
}  # fmt: skip
"""Options of other programs that the documents name on their own."""


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def shown_commands(page: Path) -> Iterator[str]:
    """Yield the command lines in a page's blocks, without what follows a pipe."""
    for _, language, code in BLOCK.findall(text_of(page)):
        if language not in ("sh", "bash", "console", ""):
            continue
        code = re.sub(r" *\\\n>?\s*", " ", code)
        for name, value in re.findall(r"\bfor (\w+) in (\S+)", code):
            code = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", value, code)
        for line in re.split(r"\n| && |; do\b", code):
            line = re.sub(r"^\s*[$>] |\s#\s.*|;? done$", "", line).split(" | ")[0].split(" > ")[0].strip()
            if PROGRAM.match(line):
                yield line


def inline(page: Path, beginning: str) -> list[str]:
    """Return the code spans of a page's prose that begin with something."""
    return re.findall(rf"`({beginning}[^`\n]*)`", BLOCK.sub("", text_of(page)))


def arguments(line: str) -> tuple[str | None, list[str]]:
    """Return the script of a command line, if it is not `toolorchestra`, and its words."""
    found = PROGRAM.match(line)
    assert found is not None, line
    words = [PLACEHOLDERS.get(word, word) for word in shlex.split(found["rest"] or "") if word not in ("…", "...")]
    return found["script"], words


def parse(kind: Any, words: list[str], **how: Any) -> None:
    """Parse words as the command line does; fail with what it prints if they are wrong."""
    printed = io.StringIO()
    with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed):
        try:
            tyro.cli(kind, args=words, **how)
        except SystemExit as end:
            if end.code:
                pytest.fail(f"{shlex.join(words)}\n{printed.getvalue()}")


def parse_learner(learner: str, words: list[str]) -> None:
    """Parse options of a learner, without the checks of files and models that only readers have."""
    given = [word for word in words if word != "--smoke"]
    if config_argument(given):
        at = given.index("--config")
        del given[at : at + 2]
    options = options_of(learner)
    parse(
        type(options.__name__, (options,), {"__post_init__": lambda _: None, "__module__": options.__module__}), given
    )


def parse_command(words: list[str]) -> None:
    """Parse what follows `toolorchestra`."""
    words = expand(words)
    if words[0] == "train" and words[1] != "recipes":
        parse_learner(words[1], [word for word in words[2:] if word != "--"])
    else:
        parse(Command, words, config=COMMAND_CONFIG)


@cache
def parameters(code: str) -> frozenset[str]:
    """Return the parameters of a script's `main`, and the fields of its dataclasses."""
    found: set[str] = set()
    for node in ast.parse(code).body:
        if isinstance(node, ast.FunctionDef) and node.name == "main":
            found |= {one.arg for one in node.args.args}
        elif isinstance(node, ast.ClassDef):
            found |= {ast.unparse(one.target) for one in node.body if isinstance(one, ast.AnnAssign)}
    return frozenset(found)


def check_script(script: str, words: list[str]) -> None:
    """A script is there, and it has the options."""
    if script.startswith("examples."):
        name = script if (ROOT / f"{script.replace('.', '/')}.py").exists() else f"{script}.__main__"
        parse(importlib.import_module(name).Command, words, config=COMMAND_CONFIG)
        return
    code = (ROOT / script).read_text(encoding="utf-8")
    learners = {module: learner for learner, (module, _) in LEARNERS.items()}
    if script.startswith("algos/"):
        parse_learner(learners[Path(script).stem], words)
        return
    for word in words:
        if word.startswith("--"):
            option = word[2:].partition("=")[0]
            field = option.removeprefix("no-").replace("-", "_")
            known = f'"--{option}"' in code or field in parameters(code)
            assert known, f"{script} {word}"


@cache
def helped(*command: str, of: Callable[[list[str]], int] = main) -> frozenset[str]:
    """Return the options in the help of a command."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        flag = "--help-all" if of is main and command[:1] == ("train",) and command[1:] else "--help"
        assert of([*command, flag]) == 0, command
    return frozenset(re.findall(r"(?<![\w-])--[a-z][\w-]*", printed.getvalue()))


def commands(union: Any = Command, *before: str) -> Iterator[tuple[str, ...]]:
    """Yield every command and the commands of groups, as words."""
    for name, command in command_names(union).items():
        yield (*before, name)
        yield from commands(command, *before, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_line_that_is_shown_parses(page: Path) -> None:
    for line in shown_commands(page):
        script, words = arguments(line)
        if script:
            check_script(script, words)
        elif words:
            parse_command(words)


def test_command_lines_are_found() -> None:
    assert sum(len(list(shown_commands(page))) for page in PAGES) > 130


@pytest.mark.parametrize("line", ["toolorchestra rollout ENV --polcy oracle", "python algos/grpo.py --stepz 1"])
def test_a_command_line_with_an_option_that_is_not_there_is_found(line: str) -> None:
    script, words = arguments(line)
    with pytest.raises(pytest.fail.Exception, match=r"--(polcy|stepz)"):
        check_script(script, words) if script else parse_command(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_in_prose_exists_and_has_its_options(page: Path) -> None:
    for span in inline(page, "(?:python |toolorchestra )"):
        script, words = arguments(span) if PROGRAM.match(span) else (None, [])
        if script:
            check_script(script, words)
            continue
        names = [word.split("|") for word in words if re.fullmatch(r"[a-z|-]+", word)][:2]
        for first in (name for name in (names[0] if names else []) if name != "COMMAND"):
            group = {command[1] for command in commands() if command[0] == first and len(command) > 1}
            group |= set(LEARNERS) if first == "train" else set()
            for second in names[1] if group and len(names) > 1 else [""]:
                path = (first, *([second] if second in group else []))
                known = helped(*path, *(word for word in words if (*path, word) in commands()))
                assert {word for word in words if re.match("--[a-z]", word)} <= known | {"--help"}, span


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_option_in_prose_is_one_of_a_command(page: Path) -> None:
    spans = inline(page, "--[a-z]")
    if not spans:
        return
    known = {option for command in commands() for option in helped(*command)}
    known |= {option for learner in LEARNERS for option in helped("train", learner)}
    for script in (ROOT / "benchmarks").glob("*.py"):
        known |= {f"--{name.replace('_', '-')}" for name in parameters(script.read_text(encoding="utf-8"))}
    for group, run in ((Study, study), (Design, designs), (Exchange, exchange)):
        known |= {option for command in commands(group) for option in helped(*command, of=run)}
    known |= {option for options in OTHERS.values() for option in options}
    for span in spans:
        option = re.match(r"--[\w-]+", span)
        assert option is not None
        assert option[0] in known or option[0].replace("--no-", "--") in known, span


def test_every_command_has_its_section() -> None:
    headings = re.findall(r"^## ([\w, -]+):", text_of(ROOT / "docs" / "cli.md"), re.MULTILINE)
    sections = {name for heading in headings for name in heading.split(", ")}
    assert sections == {command[0] for command in commands()}
    everything = "\n".join(map(text_of, PAGES))
    groups = [command for command in commands() if len(command) == 2] + [("train", learner) for learner in LEARNERS]
    for group, name in groups:
        assert re.search(rf"\b{group} (?:[\w-]+\|)*{name}\b", everything), f"{group} {name}"


def test_every_environment_that_is_named_exists() -> None:
    known = {*environment_ids(), *multiagent_ids(), *gym.registry}
    own = {"Frugal-Custom-v0", "Frugal-Restaurant-v0"}  # of docs/extend/protocol.md
    for page in PAGES:
        named = set(re.findall(r"\b[A-Z]\w+-[\w-]*-v\d\b", text_of(page)))
        assert named <= known | own, f"{page}: {named - known - own}"
