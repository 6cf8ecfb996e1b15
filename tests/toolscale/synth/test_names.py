"""Names of an external database: words of YAML, other letters, prefixes of apps, frameworks' tables, and names.yaml."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.common.yaml_reader import dump_yaml, read_yaml
from toolorchestra.toolscale.domain_folder import build_domain
from toolorchestra.toolscale.synth.answer_store import AnswerStore, RecordedModel
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.model_queries import ModelQueries, QuerySettings
from toolorchestra.toolscale.synth.tables.names_file import look_foreign
from toolorchestra.toolscale.synth.tables.schema_analysis import SchemaAnalysis, analyse_schema

YAML_WORDS = ["true", "False", "null", "order", "select", "yes", "no", "on", "off", "~", "1e3", "y"]


def database(folder: Path, **tables: list[str]) -> Path:
    """Write a database of tables with a key, the given columns and 30 rows."""
    file = folder / "my.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for name, columns in tables.items():
            columns = ["id INTEGER PRIMARY KEY", *(f'"{column}" TEXT' for column in columns)]
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(columns)})')
            rows: list[tuple[Any, ...]] = [(i, *(f"v{i}" for _ in columns[1:])) for i in range(1, 31)]
            connection.executemany(f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(columns))})', rows)
        connection.commit()
    return file


def called(file: Path, names: Path | None = None) -> dict[str, str]:
    return {table.source: table.name for table in analyse_schema(file, names).tables.values()}


def test_columns_may_be_called_what_yaml_and_sql_read_otherwise(tmp_path: Path) -> None:
    domain_from_sqlite(database(tmp_path, quiz=["question", *YAML_WORDS], true=["null"]), tmp_path / "domain")
    domain = build_domain(tmp_path / "domain")
    assert set(read_yaml(tmp_path / "domain" / "domain.yaml")["tables"]["quiz"]["rows"][0]) == {
        *("quiz_id", "question", "true", "false", "null", "order", "select", "yes", "no", "on", "off", "y"),
        *("column_1", "column_1e3"),
    }
    asked = " ".join(task.instruction for task in domain.tasks())
    assert "the true of quiz" in asked or "its true" in asked


def test_names_in_other_letters_get_numbers_and_a_note(tmp_path: Path) -> None:
    found = analyse_schema(database(tmp_path, 顧客=["名前", "都市", "e名"], 注文=["合計"], Ærø=["Größe"]))
    tables = {table.source: table for table in found.tables.values()}
    assert {source: table.name for source, table in tables.items()} == {
        "顧客": "table_2", "注文": "table_1", "Ærø": "aero",
    }  # fmt: skip
    assert list(tables["顧客"].columns) == ["table_2_id", "column_1", "column_2", "column_3_e"]
    assert list(tables["Ærø"].columns) == ["aero_id", "grosse"]
    assert any(note.startswith("顧客 is called table_2, 名前 is called column_1, 都市") for note in found.notes)
    assert look_foreign(found.names)


@pytest.mark.parametrize(
    ("tables", "names"),
    [
        ("auth_user auth_group auth_user_groups polls_question polls_choice",
         "user group user_groups question choice"),
        ("auth_user blog_tag shop_tag blog_post shop_item", "auth_user blog_tag shop_tag post item"),  # not unique
        ("auth_user order order_line order_note blog_post", "auth_user order order_line order_note blog_post"),
        ("dept_emp dept_manager employees", "dept_emp dept_manager employees"),  # no apps
        ("wp_posts wp_users wp_terms", "posts users terms"),
        ("app_posts app_users", "app_posts app_users"),  # too few to say
    ],
)  # fmt: skip
def test_prefixes_of_apps_are_stripped_where_the_rest_says_enough(tmp_path: Path, tables: str, names: str) -> None:
    file = database(tmp_path, **{table: ["name"] for table in tables.split()})
    assert called(file) == dict(zip(tables.split(), names.split(), strict=True))


# ------------------------------------------------------------------------------------------------ frameworks' tables


@pytest.mark.parametrize(
    "table",
    ["django_migrations", "auth_permission", "django_session", "wp_options", "wp_usermeta", "alembic_version",
     "schema_migrations", "ar_internal_metadata", "flyway_schema_history", "Z_METADATA", "Z_PRIMARYKEY", "moz_meta"],
)  # fmt: skip
def test_tables_of_frameworks_are_left_out_unless_they_are_named(tmp_path: Path, table: str) -> None:
    file = database(tmp_path, people=["name"], **{table: ["name"]})
    found = analyse_schema(file)
    assert list(found.tables) == ["people"]
    assert re.search(rf"Tables of .*'s own: {table}\. To keep one, name it", found.notes.of("left_out")[0])
    (tmp_path / "names.yaml").write_text(f"tables: {{{table}: entries}}")
    assert called(file, tmp_path / "names.yaml") == {"people": "people", table: "entries"}


def test_a_reference_to_a_table_left_out_becomes_a_plain_column(tmp_path: Path) -> None:
    file = database(tmp_path, django_content_type=["model"])
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE tag (id INTEGER PRIMARY KEY, type_id INTEGER REFERENCES django_content_type)")
        connection.executemany("INSERT INTO tag VALUES (?, ?)", [(i, i) for i in range(1, 31)])
        connection.commit()
    found = analyse_schema(file)
    assert not found.tables["tag"].references
    assert (
        "tag.type_id does not refer to django_content_type as it says (django_content_type is not in the domain)"
        in (found.notes.of("changed")[0])
    )


def test_a_file_with_nothing_but_a_frameworks_tables_keeps_them(tmp_path: Path) -> None:
    assert called(database(tmp_path, django_session=["data"])) == {"django_session": "django_session"}


# -------------------------------------------------------------------------------------------------------- names.yaml


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A file with names that change when they are read: prefixes, letters, words of Python, of YAML, and repeated."""
    columns = ["strName", "名前", "class", "true", "Key ", "a b", "a-b", "today", "x" * 70, "x" * 71]
    return database(tmp_path, tblKunden=columns, tblBestellungen=["Datum", "Preis"], 顧客=["都市"])


def test_names_yaml_changes_nothing_until_it_is_edited(foreign: Path, tmp_path: Path) -> None:
    found = domain_from_sqlite(foreign, tmp_path / "one")
    assert look_foreign(found.names)
    names = tmp_path / "one" / "names.yaml"
    assert set(read_yaml(names)["tables"]) == {"tblKunden", "tblBestellungen", "顧客"}
    domain_from_sqlite(foreign, tmp_path / "two", name="my", names=names)
    for file in ("domain.yaml", "tools.yaml", "intents.yaml", "names.yaml"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    build_domain(tmp_path / "two")  # it is no part of the domain


def test_texts_of_categories_are_listed_as_the_file_has_them(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "my.db")) as connection:
        connection.execute("CREATE TABLE bestellungen (id INTEGER PRIMARY KEY, status TEXT, name TEXT)")
        rows = [(i, ["offen", "bezahlt", "no"][i % 3], f"n{i}") for i in range(1, 31)]
        connection.executemany("INSERT INTO bestellungen VALUES (?, ?, ?)", rows)
        connection.commit()
    (tmp_path / "names.yaml").write_text("tables: {bestellungen: orders}\nvalues: {offen: open}")
    found = analyse_schema(tmp_path / "my.db", tmp_path / "names.yaml")
    assert found.names.values == {"offen": "open", "bezahlt": "bezahlt", "no": "no"}
    assert found.names.tables == {"bestellungen": "orders"}


def test_a_domain_is_made_anew_with_edited_names_but_not_over_edited_files(foreign: Path, tmp_path: Path) -> None:
    domain_from_sqlite(foreign, tmp_path / "domain")
    names = tmp_path / "domain" / "names.yaml"
    edited = names.read_text().replace("tblKunden: kunden", "tblKunden: customers")
    names.write_text(edited)
    domain_from_sqlite(foreign, tmp_path / "domain", names=names)
    assert "customers" in build_domain(tmp_path / "domain").spec.tables
    assert names.read_text() == edited
    tools = tmp_path / "domain" / "tools.yaml"
    tools.write_text(tools.read_text() + "# mine\n")
    with pytest.raises(DomainError, match=r"there is a tools.yaml in it, written or changed by hand"):
        domain_from_sqlite(foreign, tmp_path / "domain")


# ------------------------------------------------------------------------------------------------- names by a model

GOOD = '{"tblKunden": "customers", "tblKunden.Ort": "city", "tblKunden.Straße": "street"}'


def asked(tmp_path: Path, *answers: str, names: Path | None = None) -> SchemaAnalysis:
    """Make a domain with a model that gives these answers in turn."""
    file = database(tmp_path, tblKunden=["Ort", "Straße"], tblWaren=["Ort"])
    recording = [{"question": ["tblKunden.Ort"], "answers": [f"```json\n{answer}\n```" for answer in answers]}]
    (tmp_path / "recorded.yaml").write_text(dump_yaml(recording))
    (tmp_path / "domain").mkdir()
    model, store = RecordedModel(tmp_path / "recorded.yaml"), AnswerStore(tmp_path / "domain" / "answers.jsonl")
    with store, ModelQueries(model, store, QuerySettings()) as queries:
        return domain_from_sqlite(file, tmp_path / "domain", names=names, queries=queries)


def test_a_model_gives_the_names_that_a_file_does_not(tmp_path: Path) -> None:
    (tmp_path / "names.yaml").write_text("columns: {Straße: road}")
    found = asked(tmp_path, GOOD, GOOD.replace(', "tblKunden.Straße": "street"', ""), names=tmp_path / "names.yaml")
    assert list(found.tables["customers"].columns) == ["customer_id", "city", "road"]
    assert list(found.tables["waren"].columns) == ["waren_id", "ort"]
    assert len((tmp_path / "domain" / "answers.jsonl").read_text().splitlines()) == 2  # the first names what is given
    assert read_yaml(tmp_path / "domain" / "names.yaml")["columns"]["tblKunden.Ort"] == "city"
    assert "customers" in build_domain(tmp_path / "domain").spec.tables


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ('{"tblKunde": "customers"}', "Unknown name 'tblKunde'. Did you mean 'tblKunden'"),
        ('{"tblKunden.Ort": "the city in which they have lived since they came"}', "at most 40 letters"),
        ('{"tblKunden.Ort": "city; DROP"}', "tblKunden.Ort: expected at most 40 letters"),
        ('{"tblKunden.Ort": "place", "tblKunden.Straße": "Place"}', "expected different names, found 'Place' for both"),
        ('{"tblKunden": "goods", "tblWaren": "goods"}', "tblKunden and tblWaren: expected different names"),
        ('{"tblKunden": ["customers"]}', "Expected"),
    ],
)
def test_names_that_cannot_be_used_are_asked_for_again_and_left_with_a_note(
    tmp_path: Path, answer: str, problem: str
) -> None:
    assert list(asked(tmp_path, answer, GOOD).tables) == ["customers", "waren"]
    (tmp_path / "other").mkdir()
    found = asked(tmp_path / "other", answer)
    assert list(found.tables) == ["kunden", "waren"]
    assert problem in found.notes.of("changed")[-1]
    assert "all names are as they were" in (tmp_path / "other" / "domain" / "domain.yaml").read_text()
