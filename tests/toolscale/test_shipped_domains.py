"""The domains that come with the library: built from the YAML beside them, and sound."""

from __future__ import annotations

from pathlib import Path

import faker
import msgspec
import pytest

from toolorchestra.toolscale.adversarial import PAPER_SIZE, make_attacked
from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.domain_card import card, statistics_page
from toolorchestra.toolscale.domain_folder import (
    BUILTIN,
    BuildInfo,
    builtin_domains,
    load_domain,
    make_domain,
    read_spec,
)
from toolorchestra.toolscale.domain_statistics import PAPER_SIZES, Statistics, statistics


@pytest.fixture(scope="module", params=builtin_domains())
def shipped(request: pytest.FixtureRequest) -> Domain:
    return load_domain(request.param)


@pytest.fixture(scope="module")
def facts(shipped: Domain) -> Statistics:
    return statistics(shipped)


@pytest.fixture(scope="module")
def rebuilt(shipped: Domain) -> Domain:
    info = msgspec.json.decode((BUILTIN / shipped.name / "build.json").read_bytes(), type=BuildInfo)
    assert info.faker == faker.VERSION, f"`pip install faker=={info.faker}` (the dev extra pins it), or build again"
    return make_domain(read_spec(BUILTIN / shipped.name))


def test_the_database_is_built_again_byte_for_byte(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.database.image == shipped.database.image


def test_the_tasks_are_made_again_exactly(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.tasks() == shipped.tasks()


def test_every_reference_trajectory_solves_its_task_and_silence_solves_none(shipped: Domain) -> None:
    session = shipped.session()
    for task in shipped.tasks():
        assert str(shipped.replay(task, task.reference_calls, task.answer, session)) == "solved", task.id
        assert not shipped.replay(task, (), "", session).solved, task.id
    session.close()


def test_every_split_has_tasks_and_no_instruction_is_in_two(shipped: Domain) -> None:
    instructions = [task.instruction for split in SPLITS for task in shipped.tasks(split)]
    assert all(shipped.tasks(split) for split in SPLITS)
    assert len(set(instructions)) == len(instructions) == len(shipped.tasks())


def test_all_domains_of_the_paper_are_there():
    assert set(builtin_domains()) == set(PAPER_SIZES)


def test_it_is_at_least_as_large_as_the_papers(facts: Statistics):
    tools, entries, tasks = PAPER_SIZES[facts.domain]
    assert facts.tools >= tools
    assert facts.entries >= entries
    assert facts.tasks >= tasks
    assert facts.intents >= 20
    assert facts.tables >= 6
    assert facts.references >= 5
    assert facts.rules >= 8


def test_every_level_has_tasks_and_enough_are_long_branch_or_refuse(facts: Statistics):
    assert all(facts.levels.values())
    assert facts.long >= 0.10
    assert facts.branches >= 0.15
    assert facts.refuses >= 0.05


def test_its_tasks_are_varied(facts: Statistics):
    assert facts.sequences >= 60
    assert facts.two_tables >= 0.5
    assert facts.repeated == 0
    assert facts.nearest < 0.9


def test_its_attacks_fit_its_tasks_and_do_the_harm_they_name(shipped: Domain):
    assert len(shipped.spec.attacks) >= 3
    tasks, _ = make_attacked(shipped, 40)
    assert {task.attack.kind for task in tasks if task.attack} == set(shipped.spec.attacks)
    assert len(tasks) == 40 >= PAPER_SIZE / (len(PAPER_SIZES) - 1)  # so nine domains make the paper's set


def test_its_card_is_up_to_date(shipped: Domain):
    file = BUILTIN / shipped.name / "CARD.md"
    assert file.read_text() == card(shipped), f"Run: toolorchestra card {file.parent} > {file}"


def test_the_page_of_statistics_is_up_to_date():
    file = Path(__file__).parents[2] / "docs" / "statistics.md"
    page = statistics_page([statistics(load_domain(name)) for name in builtin_domains()])
    assert file.read_text() == page, f"Run: toolorchestra stats --markdown > {file}"
