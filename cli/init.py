"""The command `toolorchestra init`, which writes a small working extension of the library, with its test.

The files are those of ``templates/``, with the name that is asked for in place of ``my_thing``, ``MyThing`` and "My
thing"; docs/extend explains them.
"""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from toolorchestra.cli.options import UsageError
from toolorchestra.toolscale.common.writing import write_whole

Kind = Literal["domain", "protocol", "source", "learner", "expert"]
_TEMPLATES = Path(__file__).with_name("templates")


@dataclass
class InitCommand:
    """Write a small working domain, protocol, task source, learner or expert of your own, with its test."""

    kind: Positional[Kind]
    """What to write: a domain (YAML), a protocol, a task source or a learner (Python), or an expert (YAML)."""
    name: Annotated[Positional[str], arg(metavar="NAME")]
    """Its name, in snake_case."""
    folder: Annotated[Path | None, arg(metavar="FOLDER")] = None
    """Where to write it; by default a new folder of its name."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", self.name) or not _importable(self.name):
            words = "_".join(re.findall(r"[a-z0-9]+", self.name.lower()))[:40]
            hint = f" Try {words!r}." if re.match("[a-z]", words) and _importable(words) else ""
            raise UsageError(
                "Expected a name in snake_case that Python can import and nothing else has: letters, digits and "
                f"underscores, at most 40; got {self.name!r}.{hint}"
            )

    def run(self) -> int:
        """Write the files and say how their test is run."""
        folder = self.folder or Path(self.name)
        files = extension_files(self.kind, self.name)
        if there := [name for name in files if (folder / name).exists()]:
            raise UsageError(f"{folder / there[0]} exists, and would be overwritten. Give another name or --folder.")
        for name, content in files.items():
            write_whole(folder / name, content)
            print(folder / name)
        print(f"\nTest it:    pytest {folder}\nChange it:  docs/extend/{self.kind}.md says how.")
        return 0


def extension_files(kind: Kind, name: str) -> dict[str, str]:
    """Return the text of each file of a small extension of this kind, by the file's name."""

    def named(text: str) -> str:
        words = name.replace("_", " ")
        text = text.replace("my_thing", name).replace("MyThing", "".join(map(str.capitalize, name.split("_"))))
        return text.replace("My thing", words[0].upper() + words[1:]).replace("my-thing", name.replace("_", "-"))

    files = sorted((_TEMPLATES / kind).glob("*.txt"))
    return {named(file.stem): named(file.read_text(encoding="utf-8")) for file in files}


def _importable(name: str) -> bool:
    """Whether a module of this name can be imported and hides none that is needed."""
    return not keyword.iskeyword(name) and name not in sys.stdlib_module_names and name not in _TAKEN


_TAKEN = ("toolorchestra", "gymnasium", "pytest", "torch", "tyro", "numpy", "test")
