"""What is installed: bounds in pyproject.toml, the versions of CI, and the Pythons that the classifiers name."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
PINNED = dict(
    line.split("==") for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
)

APART = frozenset({"vllm", "inspect", "openenv", "verifiers"})
"""Extras with an environment of their own: they need other versions of what the others need."""


def requirements(*, without: frozenset[str] = frozenset()) -> list[Requirement]:
    """Return what the build, the core and the extras need, but for our own extras."""
    extras = PROJECT["project"]["optional-dependencies"]
    listed = [*PROJECT["build-system"]["requires"], *PROJECT["project"]["dependencies"]]
    listed += [line for extra, lines in extras.items() if extra not in without for line in lines]
    found = [Requirement(line) for line in listed]
    return [requirement for requirement in found if requirement.name != "toolorchestra"]


@pytest.mark.parametrize("requirement", requirements(), ids=str)
def test_what_is_needed_has_a_lower_and_an_upper_bound(requirement: Requirement) -> None:
    bounds = {specifier.operator for specifier in requirement.specifier}
    assert bounds in ({">=", "<"}, {"=="}), requirement


@pytest.mark.parametrize("requirement", requirements(without=APART), ids=str)
def test_ci_installs_a_version_that_is_admitted(requirement: Requirement) -> None:
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)], prereleases=True)


def test_the_constraints_are_names_and_versions_alone() -> None:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    entries = [line for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==\d[\w.]*", line) for line in entries)
    assert entries == sorted(entries)
    assert f"torch=={PINNED['torch']}" in PROJECT["project"]["optional-dependencies"]["train"]
    assert not {"toolorchestra", "pip"} & set(PINNED)


@pytest.mark.parametrize(("newest", "expected"), [("", ["/copy/.ci/constraints.txt"] * 2), ("1", [])])
def test_ci_installs_the_constraints_unless_asked_for_the_newest(newest: str, expected: list[str]) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    start = script.index('if [ -z "${TOOLORCHESTRA_CI_NEWEST:-}" ]')
    end = script.index("\nfi\n", start) + 4
    assert end < script.index("pip install")
    program = f"work=/copy\n{script[start:end]}echo $PIP_CONSTRAINT $PIP_BUILD_CONSTRAINT"
    shown = subprocess.run(
        ["/bin/bash", "-c", program],
        env={"TOOLORCHESTRA_CI_NEWEST": newest},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == expected


def test_ci_runs_every_python_that_the_classifiers_name() -> None:
    named = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if " :: Python :: 3." in line]
    others = re.search(r"set -- (.*)$", (ROOT / ".ci" / "pythons").read_text(encoding="utf-8"), re.MULTILINE)
    assert others is not None
    assert named == [PROJECT["project"]["requires-python"].removeprefix(">="), *others[1].split()]
    files = re.findall(r"tests/[\w/*.]+", (ROOT / ".ci" / "pythons").read_text(encoding="utf-8"))
    assert len(files) >= 5
    assert all(any(ROOT.glob(file)) for file in files)


def test_the_page_on_security_names_tests_that_exist() -> None:
    named = set(re.findall(r"`(tests/[\w/.]+)`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")))
    assert len(named) >= 10
    assert not [path for path in named if not (ROOT / path).exists()]
