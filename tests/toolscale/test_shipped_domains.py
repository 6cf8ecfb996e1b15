"""The domains that come with the library: built from the YAML beside them, and sound."""

from __future__ import annotations

import functools
import os
import zlib
from pathlib import Path

import faker
import msgspec
import pytest

from toolorchestra.toolscale.domain import SPLITS, Domain
from toolorchestra.toolscale.domain_folder import (
    BUILTIN,
    BuildInfo,
    builtin_domains,
    load_domain,
    make_domain,
    read_spec,
)
from toolorchestra.toolscale.evolution.adversarial import PAPER_SIZE, make_attacked
from toolorchestra.toolscale.evolution.operators import OPERATORS
from toolorchestra.toolscale.export.domain_card import card, statistics_page
from toolorchestra.toolscale.export.domain_statistics import PAPER_SIZES, Statistics, request_statistics, statistics
from toolorchestra.toolscale.export.text_statistics import TextStatistics

COMMON = {"least_level": 40, "long": 0.12, "branches": 0.18, "refuses": 0.07, "sequences": 75, "unseen_levels": 4}
LEAST: dict[str, dict[str, float]] = {
    "ecommerce": {"tools": 22, "entries": 900, "tasks": 500, "tables": 10, "rules": 8, "written_intents": 24},
    "education": {"tools": 24, "entries": 1000, "tasks": 550, "tables": 10, "rules": 8, "written_intents": 24},
    "entertainment": {"tools": 30, "entries": 1000, "tasks": 650, "rules": 15, "written_intents": 30},
    "finance": {"tools": 40, "entries": 1700, "tasks": 1000, "tables": 20, "rules": 15, "written_intents": 50}
    | {"least_level": 120, "sequences": 100, "branches": 0.5, "refuses": 0.15, "unseen_intents": 5},
    "medicine": {"tools": 30, "entries": 1100, "tasks": 750, "rules": 15, "written_intents": 30},
    "railway": {"tools": 27, "entries": 1000, "tasks": 550, "tables": 10, "rules": 8, "written_intents": 24}
    | {"unseen_levels": 3},
    "restaurant": {"tools": 26, "entries": 700, "tasks": 1800, "tables": 8, "rules": 6, "written_intents": 30}
    | {"least_level": 180, "sequences": 200, "unseen_intents": 5, "unseen_levels": 5},
    "sport": {"tools": 22, "entries": 900, "tasks": 450, "tables": 10, "rules": 8, "written_intents": 24}
    | {"unseen_levels": 5},
    "travel": {"tools": 24, "entries": 1000, "tasks": 500, "tables": 16, "rules": 12}
    | {"unseen_intents": 5, "unseen_levels": 5},
    "weather": {"tools": 40, "entries": 1200, "tasks": 950, "tables": 20, "rules": 14, "written_intents": 40}
    | {"least_level": 130, "long": 0.15, "sequences": 100, "branches": 0.5, "refuses": 0.12, "unseen_intents": 4},
}
"""The least that each domain must have; see `Statistics` for most of the names."""


loaded = functools.lru_cache(maxsize=2)(load_domain)


@functools.cache
def figures_of(name: str) -> tuple[Statistics, TextStatistics]:
    requests = request_statistics(loaded(name))
    return statistics(loaded(name), requests=requests), requests


@pytest.fixture(scope="module", params=builtin_domains())
def shipped(request: pytest.FixtureRequest) -> Domain:
    return loaded(request.param)


@pytest.fixture(scope="module")
def facts(shipped: Domain) -> Statistics:
    return figures_of(shipped.name)[0]


def build_again(shipped: Domain) -> Domain:
    info = msgspec.json.decode((BUILTIN / shipped.name / "build.json").read_bytes(), type=BuildInfo)
    assert info.faker == faker.VERSION, f"`pip install faker=={info.faker}` (the dev extra pins it), or build again"
    made = make_domain(read_spec(BUILTIN / shipped.name))
    kept = [task for task in made.tasks() if task.id not in info.filtered]
    return made.with_tasks(kept, info.dropped)


@pytest.fixture(scope="module")
def rebuilt(shipped: Domain) -> Domain:
    return build_again(shipped)


def test_a_domain_that_differs_from_commit_to_commit_is_built_again_exactly() -> None:
    names = builtin_domains()
    commit = os.environ.get("TOOLORCHESTRA_CI_COMMIT", "")  # set by .ci/run
    shipped = loaded(names[zlib.crc32(commit.encode()) % len(names)])
    made = build_again(shipped)
    assert made.database.image == shipped.database.image, shipped.name
    assert made.tasks() == shipped.tasks(), shipped.name


@pytest.mark.long
def test_the_database_is_built_again_byte_for_byte(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.database.image == shipped.database.image


@pytest.mark.long
def test_the_tasks_are_made_again_exactly(shipped: Domain, rebuilt: Domain) -> None:
    assert rebuilt.tasks() == shipped.tasks()


@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.long)])
def test_reference_trajectories_solve_their_tasks_and_silence_solves_none(shipped: Domain, step: int) -> None:
    session = shipped.session()
    for task in shipped.tasks()[::step]:
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


def test_it_has_the_size_and_variety_that_its_table_asks_for(shipped: Domain, facts: Statistics):
    unseen = shipped.tasks("test_intents")
    found = msgspec.structs.asdict(facts) | {
        "written_intents": len(shipped.spec.intents),
        "least_level": min(facts.levels.values()),
        "unseen_intents": len({task.intent for task in unseen}),
        "unseen_levels": len({task.difficulty for task in unseen}),
    }
    assert sum(facts.levels.values()) == facts.tasks
    assert not {name: found[name] for name, least in (COMMON | LEAST[facts.domain]).items() if found[name] < least}


def test_every_tool_serves_some_task(shipped: Domain) -> None:
    assert {call.name for task in shipped.tasks() for call in task.reference_calls} == set(shipped.tools)


@pytest.mark.parametrize("name", ["entertainment", "medicine"])
def test_the_same_request_is_right_to_obey_for_some_and_to_refuse_for_others(name: str) -> None:
    outcomes: dict[str, set[bool]] = {}
    for task in loaded(name).tasks():
        outcomes.setdefault(task.intent, set()).add(task.refuses)

    assert sum(found == {True, False} for found in outcomes.values()) >= 8


@pytest.mark.parametrize("name", ["entertainment", "medicine"])
def test_a_refusal_must_give_its_reason(name: str) -> None:
    domain = loaded(name)
    session = domain.session()
    answer = "I am afraid that is against our rules."

    for task in domain.tasks():
        assert not (task.refuses and domain.replay(task, task.reference_calls, answer, session).solved), task.id
    session.close()


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


def test_its_card_is_up_to_date(shipped: Domain, facts: Statistics):
    file = BUILTIN / shipped.name / "CARD.md"
    assert file.read_text() == card(shipped, facts), f"Run: toolorchestra envs {file.parent} --card > {file}"


def test_the_page_of_statistics_is_up_to_date():
    file = Path(__file__).parents[2] / "docs" / "statistics.md"
    page = statistics_page(*zip(*map(figures_of, builtin_domains()), strict=True))
    assert file.read_text() == page, f"Run: toolorchestra envs --stats --markdown > {file}"


def test_a_domain_that_asks_for_a_share_of_evolved_tasks_ships_them_by_all_operators_and_filtered(
    shipped: Domain,
) -> None:
    if "share" not in shipped.spec.evolution:
        pytest.skip("it asks for none")
    evolved = [task.operator for task in shipped.tasks() if task.operator is not None]
    assert len(evolved) >= 0.2 * len(shipped.tasks())
    assert set(evolved) == set(OPERATORS)
    info = msgspec.json.decode((BUILTIN / shipped.name / "build.json").read_bytes(), type=BuildInfo)
    (tried,) = (one for one in info.filters if one.name == "unsolved in pass@8")
    assert isinstance(tried.solved, dict)
    assert set(tried.solved) == {"noisy-oracle", "strong-expert", "weak-expert"}
    assert tried.solved["strong-expert"] > tried.solved["weak-expert"]
