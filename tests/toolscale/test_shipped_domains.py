"""The domains that come with the library: built from the YAML beside them, and sound."""

from __future__ import annotations

import faker
import msgspec
import pytest

from toolorchestra.toolscale.domain import BUILTIN, SPLITS, BuildInfo, Domain, builtin_domains, load_domain, read_spec
from toolorchestra.toolscale.mutants import replay


@pytest.fixture(scope="module", params=builtin_domains())
def shipped(request: pytest.FixtureRequest) -> Domain:
    return load_domain(request.param)


@pytest.fixture(scope="module")
def rebuilt(shipped: Domain) -> Domain:
    info = msgspec.json.decode((BUILTIN / shipped.name / "build.json").read_bytes(), type=BuildInfo)
    assert info.faker == faker.VERSION, f"`pip install faker=={info.faker}` (the dev extra pins it), or build again"
    return Domain(read_spec(BUILTIN / shipped.name))


def test_the_database_is_built_again_byte_for_byte(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.image == shipped.image


def test_the_tasks_are_made_again_exactly(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.tasks() == shipped.tasks()


def test_every_golden_path_solves_its_task_and_silence_solves_none(shipped: Domain) -> None:
    session = shipped.session()
    for task in shipped.tasks():
        assert str(replay(shipped, task, task.golden, task.answer, session)) == "solved", task.id
        assert not replay(shipped, task, (), "", session).solved, task.id
    session.close()


def test_every_split_has_tasks_and_no_instruction_is_in_two(shipped: Domain) -> None:
    instructions = [task.instruction for split in SPLITS for task in shipped.tasks(split)]
    assert all(shipped.tasks(split) for split in SPLITS)
    assert len(set(instructions)) == len(instructions) == len(shipped.tasks())
