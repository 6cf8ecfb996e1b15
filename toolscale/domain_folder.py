"""Domains in folders: reading, building and saving them.

A domain's folder holds what a person writes (``domain.yaml`` and further ``*.yaml``) and what `build_domain`
makes of it: ``domain.db``, ``tasks.jsonl`` and ``build.json`` with their checksums. `load_domain` builds a folder
that has not been built in memory.
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from toolorchestra.toolscale.common.errors import DomainError, UnknownNameError, unknown_name
from toolorchestra.toolscale.common.writing import write_whole
from toolorchestra.toolscale.common.yaml_reader import convert, read_yaml
from toolorchestra.toolscale.database.format import DomainSpec
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.requests.filters import FilterResult, NotRun, Report
from toolorchestra.toolscale.requests.intents import make_tasks
from toolorchestra.toolscale.tasks.task import Task

BUILTIN = Path(__file__).parent / "domains"
"""Folder of the domains that come with the library."""
TAU2_DOMAINS = ("tau2_airline", "tau2_retail")
"""Names of the domains that packages of τ²-bench hold (extra ``tau2``)."""

_MERGED: dict[str, type] = dict.fromkeys(("tables", "tools", "intents", "attacks", "names"), dict)
_MERGED["consistency"] = list


class BuildInfo(msgspec.Struct, frozen=True):
    """What ``build.json`` holds: SHA-256 checksums, Faker's version, and what was dropped.

    `dropped` counts task candidates by reason. Where filters ran, `filters` says what each kept and dropped, `not_run`
    which did not run, and `filtered` are the ids of the tasks that were made and dropped.
    """

    spec: str
    database: str
    tasks: str
    faker: str
    dropped: dict[str, int] = {}
    filters: list[FilterResult] = []
    not_run: list[NotRun] = []
    filtered: list[str] = []


def make_domain(spec: DomainSpec, *, image: bytes | None = None, file: Path | None = None) -> Domain:
    """Return a domain with the tasks of its intents, and those evolved from them; for the arguments see `Domain`.

    Raises:
        DomainError: A table, tool, record or intent is wrong.
    """
    domain = Domain(spec, image=image, file=file)
    tasks, dropped = make_tasks(domain)
    if spec.evolution:
        from toolorchestra.toolscale.evolution.evolution import evolve  # heavy, and needed only when tasks are made

        evolved, unfit = evolve(domain, tasks, spec.evolution, spec.seed)
        tasks, dropped = tasks + evolved, dropped + unfit
    return domain.with_tasks(tasks, dropped)


def builtin_domains() -> list[str]:
    """Return the names of the domains that come with the library."""
    return list(_builtin_domains())


@functools.cache
def _builtin_domains() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in BUILTIN.glob("*/domain.yaml")))


_loaded: dict[Path, Domain] = {}


def _reduced(domain: Domain) -> tuple[Any, ...]:
    """Pickle a shipped domain by its name, and any other one whole."""
    if _loaded.get(BUILTIN / domain.name) is domain:
        return load_domain, (domain.name,)
    whole = domain.__reduce_ex__(2)
    assert isinstance(whole, tuple)
    return whole


copyreg.pickle(Domain, _reduced)


def _load(folder: Path) -> Domain:
    """Return the domain of a folder, read once per process."""
    if folder not in _loaded:
        _loaded[folder] = _opened(folder)
    return _loaded[folder]


def _opened(folder: Path) -> Domain:
    if not (folder / "build.json").exists():
        return _made(folder)
    spec, origin = _read(folder)
    try:
        info = msgspec.json.decode((folder / "build.json").read_bytes(), type=BuildInfo)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DomainError(f"build.json: {error}.", file=folder, remedy=f"Run: toolorchestra build {folder}") from None
    image = (folder / "domain.db").read_bytes()
    lines = (folder / "tasks.jsonl").read_bytes()
    for name, content, digest in (
        ("*.yaml", msgspec.json.encode(spec), info.spec),
        ("domain.db", image, info.database),
        ("tasks.jsonl", lines, info.tasks),
    ):
        if _sha(content) != digest:
            message = f"{name} is not the one that build.json was made with."
            raise DomainError(message, file=folder, remedy=f"Run: toolorchestra build {folder}")
    try:
        tasks = list(map(msgspec.json.Decoder(Task).decode, lines.splitlines()))
    except (msgspec.DecodeError, RecursionError) as error:
        raise DomainError(f"tasks.jsonl: expected a task in each line: {error}.", file=folder) from None
    with _locating(origin, folder):
        return Domain(spec, image=image, tasks=tasks, dropped=info.dropped, file=folder / "domain.yaml")


def _made(folder: Path) -> Domain:
    spec, origin = _read(folder)
    with _locating(origin, folder):
        return make_domain(spec, file=folder / "domain.yaml")


@contextmanager
def _locating(origin: Mapping[str, Path], folder: Path) -> Iterator[None]:
    """Let errors name the file at fault of a domain's folder."""
    try:
        yield
    except DomainError as error:
        path = error.path
        of_entry = (
            file for entry, file in origin.items() if path == entry or path.startswith((f"{entry}.", f"{entry}["))
        )
        file = next(of_entry, folder / "domain.yaml")
        raise DomainError(error.message, file=file, path=error.path, remedy=error.remedy) from None


def load_domain(domain: str | Path) -> Domain:
    """Return a domain by name (of `builtin_domains`, `TAU2_DOMAINS`) or from a folder; each is loaded once per process.

    >>> load_domain("restaurant").name
    'restaurant'

    Raises:
        UnknownNameError: There is no such domain.
        DomainError: The folder does not hold a valid domain.
        OptionError: The domain's package is not installed.
    """
    if (
        isinstance(domain, str) and domain in builtin_domains()
    ):  # even if the working directory has a folder of that name
        return _load(BUILTIN / domain)
    if isinstance(domain, str) and domain in TAU2_DOMAINS:
        from toolorchestra.toolscale.tau2.world import load_tau2  # needed by those who play it alone

        return load_tau2(domain)
    if isinstance(domain, str) and re.fullmatch(r"[a-z][a-z0-9_]*", domain) and not Path(domain).is_dir():
        raise UnknownNameError("domain", domain, [*builtin_domains(), *TAU2_DOMAINS])
    return _load(Path(domain).resolve())


def build_domain(folder: Path) -> Domain:
    """Build the domain in `folder`: write ``domain.db``, ``tasks.jsonl`` and ``build.json``, and return it.

    Raises:
        DomainError: The folder does not hold a valid domain.
    """
    domain = _made(folder)
    save_tasks(folder, domain, domain.tasks(), domain.dropped)
    return domain


def save_tasks(
    folder: Path, domain: Domain, tasks: Sequence[Task], dropped: Mapping[str, int], report: Report | None = None
) -> None:
    """Write a built domain with these tasks into the folder of its YAML.

    Args:
        folder: Where to.
        domain: The domain with all tasks that were made.
        tasks: Those to keep.
        dropped: Dropped tasks and candidates, by reason.
        report: That of the filters, if they ran.
    """
    import faker

    kept = {task.id for task in tasks}
    lines = b"".join(msgspec.json.encode(task) + b"\n" for task in tasks)
    info = BuildInfo(
        spec=_sha(msgspec.json.encode(domain.spec)),
        database=_sha(domain.database.image),
        tasks=_sha(lines),
        faker=faker.VERSION,
        dropped=dict(dropped),
        filters=report.stages[-1].filters if report else [],
        not_run=report.not_run if report else [],
        filtered=[task.id for task in domain.tasks() if task.id not in kept] if report else [],
    )
    write_whole(folder / "domain.db", domain.database.image)
    write_whole(folder / "tasks.jsonl", lines)
    write_whole(folder / "build.json", msgspec.json.format(msgspec.json.encode(info), indent=1) + b"\n")
    _loaded.pop(folder.resolve(), None)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read_spec(folder: Path) -> DomainSpec:
    """Read and validate the YAML files of a domain's folder.

    Raises:
        DomainError: Names the file, the key path, what was expected and what was found.
    """
    return _read(folder)[0]


def _read(folder: Path) -> tuple[DomainSpec, dict[str, Path]]:
    """Return the merged YAML files of a domain, and the file of each entry by its path."""
    first = folder / "domain.yaml"
    if not first.is_file():
        raise DomainError(
            "Expected a folder with a domain.yaml; there is none.",
            file=folder,
            remedy="Give the folder of a domain, or the name of one: " + ", ".join(builtin_domains()) + ".",
        )
    merged: dict[str, Any] = {}
    origin: dict[str, Path] = {}
    for file in [first, *sorted(path for path in folder.glob("*.yaml") if path != first)]:
        content = _read_yaml(file)
        if file.name == "names.yaml" and "columns" in content:
            continue  # what the tables of a SQLite file are called (`toolscale.synth.tables.names_file`)
        for section, value in content.items():
            kind: Any = _MERGED.get(section)
            if kind is None:
                if file != first:
                    message = unknown_name("section beside domain.yaml", str(section), _MERGED)
                    raise DomainError(message, file=file, path=str(section))
                merged[section] = value
                continue
            if not isinstance(value, kind):
                expected = "an object" if kind is dict else "a list"
                raise DomainError(f"Expected {expected}, found {type(value).__name__}.", file=file, path=section)
            before = merged.get(section, kind())
            numbers = range(len(before), len(before) + len(value))
            entries = [f"{section}[{i}]" for i in numbers] if kind is list else [f"{section}.{name}" for name in value]
            for entry in entries:
                if entry in origin:
                    message = f"Defined in {origin[entry].name} already."
                    raise DomainError(message, file=file, path=entry, remedy="Remove one.")
                origin[entry] = file
            merged[section] = before + value if kind is list else before | value
    with _locating(origin, folder):
        return convert(merged, DomainSpec), origin


def _read_yaml(file: Path) -> dict[Any, Any]:
    try:
        content = read_yaml(file)
    except UnicodeDecodeError as error:
        raise DomainError(f"Not valid YAML: {error}", file=file) from None
    except DomainError as error:
        raise DomainError(error.message, file=file) from None
    if not isinstance(content, dict):
        raise DomainError(f"Expected an object, found {type(content).__name__}.", file=file)
    return content
