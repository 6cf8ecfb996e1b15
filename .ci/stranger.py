r"""Follow pages word by word, as a stranger would: run what they say in a copy of the tree, and print a log of it.

    python .ci/stranger.py                      the README and the guides that mkdocs.yml lists
    python .ci/stranger.py docs/training.md     these pages

Each page begins with a copy of the files that git knows, and with the commands of this Python's environment, into which
the package is installed. Its blocks follow one another: ``sh`` is run command by command, ``python`` is run after the
Python before it and has to print the ``text`` block that follows, and a file that is shown under its name is compared
with the one that is there, or written if there is none. A command that fails or takes too long ends its page.

What no page can say to all its readers stands in a comment above a block, as YAML, by the beginning of a command::

    <!-- ci:
    toolorchestra play: {input: "quit\n"}                        # typed
    toolorchestra view: {serves: true}                            # runs until it is interrupted
    toolorchestra train: {add: --smoke, why: a quarter of an hour}
    vllm serve: {skip: needs a GPU}
    toolorchestra synth: {before: cp examples/shop.db my.db}      # what readers have
    -->
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?:^`(?P<file>[\w./-]+)`:\n\n)?(?:^<!-- ci:\n(?P<rules>.*?)^-->\n)?^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
KEYS = {"skip", "add", "why", "input", "serves", "before"}
SECONDS = 120
"""What a command may take."""
LINES = 12
"""Lines of a command's output that the log shows."""
MARK = "@@ what follows is printed by this block @@"


class FailureError(Exception):
    """What a page says does not happen."""


def pages() -> list[Path]:
    """Return the README and the guides, in the order of the site."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = yaml.safe_load(text[text.index("\nnav:") :])["nav"]
    (guides,) = (part["Guides"] for part in nav if "Guides" in part)
    return [
        ROOT / "README.md",
        *(ROOT / "docs" / (one if isinstance(one, str) else next(iter(one.values()))) for one in guides),
    ]


def rules(text: str | None, commands: list[str]) -> dict[str, dict[str, Any]]:
    """Return what is different for which command; each has to be one of the block's, and to say why."""
    found: dict[str, dict[str, Any]] = yaml.safe_load(text or "{}")
    for start, rule in found.items():
        if not any(command.startswith(start) for command in commands):
            raise FailureError(f"No command of the block begins with {start!r}.")
        if unknown := set(rule) - KEYS:
            raise FailureError(f"{start!r}: expected some of {sorted(KEYS)}, got {sorted(unknown)}.")
        if ("add" in rule) != ("why" in rule):
            raise FailureError(f"{start!r}: `add` and `why` belong together.")
    return found


def commands_of(code: str) -> list[str]:
    """Return the commands of a block, without their comments; one may take several lines."""
    found, lines = [], []
    for line in code.splitlines():
        lines.append(re.sub(r"(^|\s+)# .*$", "", line))
        text = "\n".join(lines).strip()
        if not text:
            lines = []
        elif (
            not text.endswith("\\")
            and not subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True).returncode
        ):
            found.append(text)
            lines = []
    return found


@dataclass
class Stranger:
    """Who follows a page in a folder, and what happened."""

    page: Path
    folder: Path
    log: list[str] = field(default_factory=list)
    python: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: {"run": 0, "skipped": 0, "shortened": 0})

    def follow(self) -> None:
        """Do what the page says, from its first block to its last."""
        found = list(BLOCK.finditer(self.page.read_text(encoding="utf-8")))
        for block, following in zip(found, [*found[1:], None], strict=False):
            language, code = block["language"], block["code"]
            if block["file"]:
                self.read(self.folder / block["file"], code)
            elif language == "sh":
                commands = commands_of(code)
                rule_of = rules(block["rules"], commands)
                for command in commands:
                    starts = [start for start in rule_of if command.startswith(start)]
                    self.obey(command, rule_of[max(starts, key=len)] if starts else {})
            elif language == "python":
                self.run_python(code, following["code"] if following and following["language"] == "text" else None)

    def read(self, file: Path, text: str) -> None:
        """Compare a file with what the page shows, or write it."""
        name = file.relative_to(self.folder)
        if not file.exists():
            file.write_text(text, encoding="utf-8")
            self.log.append(f"(writes {name}, which the page shows)")
        elif file.read_text(encoding="utf-8") == text:
            self.log.append(f"(reads {name}, which is as the page shows it)")
        else:
            raise FailureError(f"{name} is not what the page shows.")

    def obey(self, command: str, rule: dict[str, Any]) -> None:
        """Run a command as its rule says."""
        self.log.append(f"$ {command}")
        if reason := rule.get("skip"):
            self.counts["skipped"] += 1
            self.log.append(f"  skipped: {reason}")
            return
        if before := rule.get("before"):
            self.log.append(f"  before: {before}")
            self.run(["bash", "-euc", before])
        if more := rule.get("add"):
            self.counts["shortened"] += 1
            self.log.append(f"  with {more}, since it takes longer without: {rule['why']}")
            command = f"{command} {more}"
        start = time.monotonic()
        words = ["bash", "-euo", "pipefail", "-c", command]
        if rule.get("serves"):
            self.visit(words)
        else:
            self.show(self.run(words, rule.get("input", "")))
        self.counts["run"] += 1
        self.log.append(f"  ok, {time.monotonic() - start:.1f} s")

    def run_python(self, code: str, expected: str | None) -> None:
        """Run a block after those before it, and compare what it prints with what the page says."""
        self.log.append("(python) " + code.strip().splitlines()[-1])
        self.python.append(code)
        *earlier, last = self.python
        printed = self.run([sys.executable, "-c", "\n".join([*earlier, f"print({MARK!r})", last])]).partition(
            f"{MARK}\n"
        )[2]
        if expected is not None and printed != expected:
            raise FailureError(f"The page says that this is printed:\n{expected}\nIt is:\n{printed}")
        self.counts["run"] += 1
        self.log.append("  ok" + (", and prints what the page says" if expected is not None else ""))

    def run(self, words: list[str], typed: str = "") -> str:
        """Run a process to its end and return what it wrote."""
        with self.started(words, subprocess.PIPE) as process:
            try:
                output: str = process.communicate(typed, timeout=SECONDS)[0]
            except subprocess.TimeoutExpired as late:
                raise FailureError(f"Not done after {SECONDS} s. Output:\n{late.output or ''}") from None
        if process.returncode:
            self.show(output)
            raise FailureError(f"Exit status {process.returncode}.")
        return output

    def visit(self, words: list[str]) -> None:
        """Start a server, open the address that it prints, and interrupt it."""
        with self.started(words, subprocess.DEVNULL) as process:
            limit = threading.Timer(SECONDS, os.killpg, (process.pid, signal.SIGKILL))
            limit.start()
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    self.log.append(f"  | {line.rstrip()}")
                    if address := re.search(r"http://[\w.:/-]+", line):
                        with urllib.request.urlopen(address[0], timeout=SECONDS) as answer:
                            self.log.append(f"  opens {address[0]}: {answer.status}, {len(answer.read()):,} bytes")
                        os.killpg(process.pid, signal.SIGINT)
                        break
                process.wait(SECONDS)
            finally:
                limit.cancel()
        if process.returncode not in (0, 130, -signal.SIGINT):
            raise FailureError(f"Exit status {process.returncode} after it was interrupted.")

    @contextlib.contextmanager
    def started(self, words: list[str], stdin: int) -> Iterator[subprocess.Popen[str]]:
        """Start a process in the folder, and end it and its children at the latest when this is left."""
        environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        with subprocess.Popen(
            words, cwd=self.folder, env=environ, text=True, start_new_session=True,
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as process:  # fmt: skip
            try:
                yield process
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def show(self, output: str) -> None:
        """Put the end of an output into the log."""
        lines = output.rstrip().splitlines()
        if len(lines) > LINES:
            self.log.append(f"  | … {len(lines) - LINES} lines")
        self.log += [f"  | {line}" for line in lines[-LINES:]]


def follow(page: Path) -> tuple[bool, str]:
    """Follow a page in a copy of the tree; return whether all went as it says, and the log."""
    with tempfile.TemporaryDirectory() as place:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
        for name in filter(None, listed.split("\0")):
            (Path(place) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, Path(place) / name)
        stranger = Stranger(page, Path(place))
        start, good = time.monotonic(), True
        try:
            stranger.follow()
        except FailureError as failure:
            good = False
            stranger.log.append(f"  FAILED: {failure}")
        counts = ", ".join(f"{count} {what}" for what, count in stranger.counts.items())
        title = f"{page.relative_to(ROOT)}: {'ok' if good else 'FAILED'}, {counts}, {time.monotonic() - start:.0f} s"
    return good, "\n".join([f"=== {title}", *stranger.log, ""])


def main() -> int:
    """Follow the pages, two at a time, and return 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", type=Path, nargs="*", help="pages; by default the README and the guides")
    parser.add_argument("--jobs", type=int, default=2, help="pages that are followed at the same time")
    options = parser.parse_args()
    chosen = [page.resolve() for page in options.pages] or pages()
    results = []
    with ThreadPoolExecutor(options.jobs) as pool:
        followed = {page: pool.submit(follow, page) for page in reversed(chosen)}  # the last ones take longest
        for page in chosen:
            good, log = followed[page].result()
            print(log, flush=True)
            results.append(good)
    return int(not all(results))


if __name__ == "__main__":
    sys.exit(main())
