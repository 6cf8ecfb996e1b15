from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from toolorchestra import __version__, cli
from toolorchestra.cli.main import _MOVED, Command, main
from toolorchestra.cli.synth.commands import SUBCOMMANDS
from toolorchestra.cli.synth.domain import SynthDomainCommand
from toolorchestra.cli.validate import ValidateCommand

Run = Callable[..., Any]
DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"


def commands(union: Any = Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type | None]]:
    """The words of every command and its dataclass; those with subcommands have none."""
    for part in get_args(union):
        inner, subcommand = get_args(part)
        words = (*path, subcommand.name)
        yield words, inner if isinstance(inner, type) else None
        if not isinstance(inner, type):
            yield from commands(inner, words)


COMMANDS = dict(commands())


def test_every_command_is_there():
    names = "quickstart envs play rollout serve show view compare reverify validate build synth experts"
    assert [words[0] for words in COMMANDS if len(words) == 1] == [*names.split(), *("train", "init")]
    assert tuple(words[1] for words in COMMANDS if words[0] == "synth" and len(words) == 2) == SUBCOMMANDS


@pytest.mark.parametrize("arguments", [(), ("--help",)])
def test_help_names_every_command(run: Run, arguments: tuple[str, ...]):
    output = run(*arguments)
    assert output.code == 0
    assert all(f"• {words[0]} " in output.out for words in COMMANDS)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_of_every_command_has_its_help(run: Run, words: tuple[str, ...]):
    output = run(*words, "--help")
    assert output.code == 0
    assert output.out.startswith(f"usage: toolorchestra {' '.join(words)} ")
    if (command := COMMANDS[words]) is None:
        assert all(f"• {inner[-1]} " in output.out for inner in COMMANDS if inner[:-1] == words)
        return
    assert command.__name__.endswith("Command")
    fields = get_type_hints(command, include_extras=True)
    if sizes := fields.pop("sizes", None):  # options of its own
        fields |= get_type_hints(sizes)
    options = {name for name, hint in fields.items() if "Positional" not in str(hint)}
    assert all(f"--{name.replace('_', '-')}" in output.out for name in options)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_wrong_option_of_any_command_is_a_mistake(run: Run, words: tuple[str, ...]):
    output = run(*words, "--no-such-option")
    assert output.code == 2
    assert output.out == ""
    mistakes = ("Unrecognized options: --no-such-option", "Missing argument", "Required options")
    assert any(mistake in output.err for mistake in mistakes)


def test_the_version_is_printed(run: Run):
    assert run("--version").out == f"toolorchestra {__version__}\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("plai",), "play"),
        (("rolout", "x", "--episodes", "3"), "rollout"),
        (("experts", "lst"), "list"),
        (("experts", "tool-confg", "x"), "tool-config"),
        (("synth", "taskz"), "tasks"),
        (("synth", "select", "hrd"), "hard"),
        (("train", "grop", "--env", "x"), "grpo"),
        (("train", "multi_grpo"), "multi-grpo"),
    ],
)
def test_a_wrong_command_suggests_the_nearest(run: Run, words: tuple[str, ...], meant: str):
    output = run(*words)
    assert output.code == 2
    assert f"Did you mean '{meant}'?" in output.err
    assert output.err.count("\n") == 1


def test_a_command_of_former_times_names_what_does_the_same(run: Run):
    for word, same in _MOVED.items():
        output = run(word, "x", "--json")
        assert output.code == 2
        assert output.err == f"error: There is no command `{word}`; the same is done by `{same}`.\n"


def test_a_folder_called_almost_like_a_command_is_a_folder(
    run: Run, edited: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    edited().rename(tmp_path / "task")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SynthDomainCommand, "run", lambda self: 0)
    assert run("synth", "task").code == 0
    assert run("synth", "taskz", "--from-sqlite", "my.db").code == 0


@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("ro", "rollout"),
        ("synth ta", "tasks"),
        ("synth select h", "hard"),
        ("experts tool", "tool-config"),
        ("rollout --policy", "--policy --policy-options"),
        ("rollout ToolOrchestra-Rest", "ToolOrchestra-Restaurant-v0"),
        ("rollout ToolOrchestra-Restaurant-v0 --split te", "test test_intents"),
        ("init pro", "protocol"),
        ("train gr", "grpo"),
        ("train grpo --model x --learning", "--learning-rate"),
        ("train tmatr --env TMATR-Ma", "TMATR-Math-v0"),
        ("train sft --precision ", "fp32 bf16"),
        ("view my", "my.jsonl"),
    ],
)
def test_bash_completes_commands_options_and_values(run: Run, tmp_path: Path, line: str, completed: str):
    (tmp_path / "my.jsonl").touch()
    script = f"""{run("--print-completion", "bash").out}
COMP_WORDS=(toolorchestra {line}{" ''" if line.endswith(" ") else ""})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_toolorchestra
[[ ${{#COMPREPLY[@]}} == 0 ]] && COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
echo "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, check=True, text=True)
    assert (done.stdout.strip(), done.stderr) == (completed, "")


def test_the_help_and_the_page_say_how_shells_complete(run: Run):
    page = DOCUMENT.read_text(encoding="utf-8")
    assert "--print-completion bash" in " ".join(run("--help").out.split())
    assert all(f"source <(toolorchestra --print-completion {shell})" in page for shell in ("bash", "zsh"))
    assert run("--print-completion", "zsh").out.startswith("autoload -Uz bashcompinit && bashcompinit\n")
    assert run("--print-completion", "fish").err.endswith("Known: bash, zsh.\n")


def test_an_interruption_ends_without_a_traceback(run: Run, monkeypatch: pytest.MonkeyPatch):
    def interrupted(self: ValidateCommand) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ValidateCommand, "run", interrupted)
    output = run("validate", "ToolOrchestra-Math-v0")
    assert (output.code, output.err) == (130, "\nInterrupted.\n")


def test_a_reader_that_closes_the_output_is_no_error(folder: str):
    command = f"{sys.executable} -m toolorchestra envs {folder} --json | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert done.stdout == b"["
    assert done.stderr == b""


HEAVY = {"torch", "transformers", "openai", "faker", "rich", "pandas", "toolorchestra.envs.checks"}


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["--help"], set()),
        (["envs", "--json"], {"rich"}),
        (["synth", "--help"], set()),
        (["train", "grpo", "--help"], set()),
    ],
)
def test_help_and_the_list_of_environments_load_nothing_heavy(arguments: list[str], needed: set[str]):
    code = (
        "import contextlib, io, json, sys; from toolorchestra.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()): assert main({arguments!r}) == 0\n"
        "print(json.dumps(list(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert not set(json.loads(done.stdout)) & (HEAVY - needed)


def test_the_package_lists_its_modules():
    assert dir(cli) == sorted(cli.__all__)
    folder = Path(cli.__file__).parent
    modules = {file.stem for file in folder.glob("*.py") if not file.stem.startswith("__")}
    modules |= {file.parent.name for file in folder.glob("*/__init__.py")} - {"viewer"}  # of `view`
    assert set(cli.__all__) <= modules
    assert all(name.partition("_")[0] in cli.__all__ for name in modules)
    assert all(getattr(cli, name).__name__ == f"toolorchestra.cli.{name}" for name in cli.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        cli.nothing  # noqa: B018 - reading it is the test


# the documentation


def test_the_documentation_has_a_section_for_every_command():
    titles = re.findall(r"^## ([a-z, ]+):", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert {name for title in titles for name in title.split(", ")} == {words[0] for words in COMMANDS}


def test_the_documentation_names_every_subcommand_and_only_options_that_exist():
    text = DOCUMENT.read_text(encoding="utf-8")
    names = "|".join(words[1] for words in COMMANDS if words[0] == "experts" and len(words) == 2)
    assert f"`toolorchestra experts {names}`" in text
    options = {name for command in COMMANDS.values() if command for name in get_type_hints(command)}
    of_learners = {"share", "config", "smoke", "help_all"}
    named = {name.replace("-", "_") for name in re.findall(r"--([a-z][a-z0-9-]*)", text)}
    assert named <= options | of_learners | {"help", "print_completion"}


def test_the_examples_of_the_documentation_run(
    run: Run, edited: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    edited().rename(tmp_path / "my_domain")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(
        r"^```console\n\$ toolorchestra (.*)\n(.*)\n", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(examples) >= 8
    for command, first_line in examples:
        quick = ["--only", "coverage"] if command.startswith("validate") else []
        output = run(*shlex.split(command), *quick)
        assert output.code == 0, output.err
        assert digits_hidden(output.out.splitlines()[0]) == digits_hidden(first_line)


def digits_hidden(line: str) -> str:
    return " ".join(re.sub(r"[\d.,]+", "0", line).split())


def test_several_processes_are_refused_but_for_training(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["rollout", "ToolOrchestra-Restaurant-v0"]) == 2
    assert "`toolorchestra rollout` is one process, and 2 were started together" in capsys.readouterr().err
    assert main(["--version"]) == 0


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("train grpo --beta -1", "--beta must be at least 0, got -1.0."),
        ("train sft --learning-rate -1", "--learning-rate must be at least 0, got -1.0."),
        ("train tmatr --sft-weight -1", "--beta must be above 0, and --sft-weight at least 0."),
        ("train msarl --evaluate-only --eval-samples 0", "--evaluate-only needs --eval-samples above 0,"),
        ("train grpo --lora-alpha 3", "--lora-alpha, --lora-targets and --quantize are about adapters"),
        ("rollout ParaManager-Math-v0 --env-options max_rounds 0", "`--env-options max_rounds` must be at least 1,"),
        ("play ParaManager-Math-v0 --env-options max_calls 0", "`--env-options max_calls` must be at least 1, got 0."),
        ("rollout ToolOrchestra-Math-v0 --env-options max_turns 0", "`--env-options max_turns` must be positive"),
        (
            "rollout MSARL-Math-v0 --policy null --env-options old_outputs deleted",
            "`--env-options old_outputs` needs `--env-options helpers none`.",
        ),
        (
            "rollout ToolOrchestra-Math-v0 --policy majority-vote --policy-options n 0",
            "Expected at least one vote, got `--policy-options n 0`.",
        ),
        ("rollout ToolOrchestra-Math-v0 --policy noisy-oracle --error 3", "The probability --error must lie in [0, 1]"),
        ("rollout ToolOrchestra-Custom-v0", "Give either a --source (e.g. 'Restaurant'), or the folder of a"),
        ("validate ToolOrchestra-Math-v0 --hostile 0", "--hostile must be at least 1, got 0."),
        ("validate ToolOrchestra-Math-v0 --random-episodes 0", "--random-episodes must be at least 1, got 0."),
        ("synth masbench --depth 99", "Expected a value of the axis --depth from 1 to 32, got 99."),
    ],
)
def test_messages_name_the_flags_of_the_command(run: Run, tmp_path: Path, line: str, shown: str):
    written = ("--out", tmp_path / "x.jsonl") if line.split()[0] in ("rollout", "synth") else ()
    output = run(*line.split(), *written)
    assert output.code == 2
    assert shown in output.err
    assert output.err.count("\n") == 1
