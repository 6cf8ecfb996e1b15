"""The script of CI that does what pages say finds what is not so."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def stranger() -> Any:
    """The module."""
    spec = importlib.util.spec_from_file_location("stranger", ROOT / ".ci" / "stranger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stranger"] = module
    spec.loader.exec_module(module)
    return module


def follow(stranger: Any, folder: Path, text: str) -> str:
    """Follow a page and return the log."""
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    one = stranger.Stranger(page, folder)
    one.follow()
    return "\n".join(one.log)


def test_the_readme_and_every_guide_are_followed(stranger: Any) -> None:
    names = {page.relative_to(ROOT).as_posix() for page in stranger.pages()}
    assert {"README.md", "docs/from_sqlite.md", "docs/scaling.md"} <= names
    assert {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("[eg][xu]*/*.md")} <= names


def test_what_is_said_beside_blocks_is_of_their_commands_and_has_reasons(stranger: Any) -> None:
    for page in stranger.pages():
        for block in stranger.BLOCK.finditer(page.read_text(encoding="utf-8")):
            stranger.rules(block["rules"], stranger.commands_of(block["code"]) if block["language"] == "sh" else [])


def test_a_page_is_followed_block_by_block(stranger: Any, tmp_path: Path) -> None:
    log = follow(
        stranger,
        tmp_path,
        """
<!-- ci:
head: {input: "typed\\n"}
curl: {skip: needs a network}
cat given: {before: echo given > given}
echo: {add: -n short, why: it is long}
-->
```sh
echo a \\
  b > file      # a comment
head -n 1       # reads
curl http://example.org
cat given
```

`file`:

```text
a b -n short
```

`new.py`:

```python
NAME = "new"
```

```python
import new
name = new.NAME
```

```python
print(name)
```

```text
new
```
""",
    )
    assert "  | typed" in log
    assert "skipped: needs a network" in log
    assert "with -n short, since it takes longer without: it is long" in log
    assert "(reads file, which is as the page shows it)" in log
    assert "(writes new.py, which the page shows)" in log
    assert "ok, and prints what the page says" in log


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\nfalse | true\n```", "Exit status 1"),
        ("```sh\nno-such-command-here\n```", "Exit status 127"),
        ("```python\nprint(1)\n```\n\n```text\n2\n```", "The page says that this is printed:\n2"),
        ("```sh\necho a > file\n```\n\n`file`:\n\n```text\nb\n```", "file is not what the page shows"),
        ("<!-- ci:\nls: {skip: why}\n-->\n```sh\ntrue\n```", "No command of the block begins with 'ls'"),
        ("<!-- ci:\nls: {add: --quick}\n-->\n```sh\nls\n```", "`add` and `why` belong together"),
        ("<!-- ci:\nls: {ship: x}\n-->\n```sh\nls\n```", "expected some of"),
        ("```sh\nsleep 100\n```", "Not done after 1 s"),
    ],
)
def test_what_is_not_so_is_found(
    stranger: Any, text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stranger, "SECONDS", 1)
    with pytest.raises(stranger.FailureError, match=message):
        follow(stranger, tmp_path, text)
