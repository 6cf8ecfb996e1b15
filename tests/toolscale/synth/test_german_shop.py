"""A SQLite file as a German shop may have it: prefixes, Unix times, rates, nullable unique columns, composite keys."""

from __future__ import annotations

import contextlib
import random
import re
import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from toolorchestra.cli.main import main
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.database.build import create_table_sql
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain, load_domain, read_spec
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.tables.schema_analysis import analyse_schema
from toolorchestra.toolscale.synth.tables.tables import Table
from toolorchestra.toolscale.synth.tables.values import spelled

FIRST = ["Anna", "Bernd", "Clara", "Dieter", "Eva", "Frank", "Greta", "Hans", "Ines", "Jan", "Karin", "Lars"]
FIRST += ["Maria", "Nils", "Olga", "Paul", "Rita", "Sven"]
LAST = ["Adler", "Bauer", "Conrad", "Engel", "Fischer", "Graf", "Huber", "Jung", "Kaiser", "Lang", "Maier"]
LAST += ["Neumann", "Otto", "Pohl", "Richter", "Schulz"]
TOWNS = [("Berlin", 10115), ("Hamburg", 20095), ("Dresden", 1067), ("Köln", 50667), ("München", 80331)]
START, END = 1640995200, 1719700000
"""Unix times: the records are from these years."""

SCHEMA = """
    CREATE TABLE tblKategorien (KatID INTEGER PRIMARY KEY, Bezeichnung TEXT NOT NULL UNIQUE, MwSt REAL NOT NULL);
    CREATE TABLE tblFilialen (Land TEXT NOT NULL, FilialNr INTEGER NOT NULL, Ort TEXT NOT NULL, PLZ INTEGER,
        Eroeffnung INTEGER, PRIMARY KEY (Land, FilialNr));
    CREATE TABLE tblMitarbeiter (MitarbeiterID INTEGER PRIMARY KEY, Vorname TEXT NOT NULL, Nachname TEXT NOT NULL,
        Land TEXT NOT NULL, FilialNr INTEGER NOT NULL, Eintritt INTEGER NOT NULL, Gehalt REAL NOT NULL,
        FOREIGN KEY (FilialNr, Land) REFERENCES tblFilialen (FilialNr, Land));
    CREATE TABLE tblKunden (KundeID INTEGER PRIMARY KEY, Vorname TEXT, Nachname TEXT NOT NULL, Email TEXT UNIQUE,
        Kundenkarte INTEGER UNIQUE, PLZ INTEGER, Ort TEXT, Angelegt INTEGER NOT NULL);
    CREATE TABLE tblArtikel (ArtikelNr TEXT PRIMARY KEY, Bezeichnung TEXT NOT NULL,
        KatID INTEGER NOT NULL REFERENCES tblKategorien, EAN INTEGER UNIQUE, Preis REAL NOT NULL, Gewicht REAL,
        Lagerbestand INTEGER NOT NULL, Aufgenommen INTEGER);
    CREATE TABLE tblBestellungen (BestellNr INTEGER PRIMARY KEY, KundeID INTEGER NOT NULL REFERENCES tblKunden,
        Land TEXT, FilialNr INTEGER, Datum INTEGER NOT NULL, Versand INTEGER, Rabatt REAL NOT NULL DEFAULT 0,
        Status TEXT NOT NULL CHECK (Status IN ('offen', 'versandt', 'storniert', 'bezahlt')),
        FOREIGN KEY (Land, FilialNr) REFERENCES tblFilialen);
    CREATE TABLE tblBestellPositionen (BestellNr INTEGER NOT NULL REFERENCES tblBestellungen, PosNr INTEGER NOT NULL,
        ArtikelNr TEXT NOT NULL REFERENCES tblArtikel, Menge INTEGER NOT NULL, Einzelpreis REAL NOT NULL,
        Rabatt REAL NOT NULL, PRIMARY KEY (BestellNr, PosNr));
    CREATE TABLE tblRückgaben (RückgabeID INTEGER PRIMARY KEY, BestellNr INTEGER NOT NULL, PosNr INTEGER NOT NULL,
        Datum INTEGER NOT NULL, Grund TEXT NOT NULL, Betrag REAL NOT NULL,
        FOREIGN KEY (BestellNr, PosNr) REFERENCES tblBestellPositionen (BestellNr, PosNr));
"""

NAMES = """
tables:
  tblKategorien: categories
  tblFilialen: branches
  tblMitarbeiter: employees
  tblKunden: customers
  tblArtikel: articles
  tblBestellungen: orders
  tblBestellPositionen: order_items
  tblRückgaben: returns
columns: {KatID: category_id, Bezeichnung: title, MwSt: tax_rate, Land: country, FilialNr: branch_number, Ort: city,
  PLZ: zip, Eroeffnung: opened_on, MitarbeiterID: employee_id, Vorname: first_name, Nachname: last_name,
  Eintritt: hired_on, Gehalt: salary, KundeID: customer_id, Kundenkarte: loyalty_number, Angelegt: created_at,
  ArtikelNr: article_id, Preis: price, Gewicht: weight, Lagerbestand: stock, Aufgenommen: listed_on,
  BestellNr: order_id, tblBestellungen.Datum: ordered_at, Versand: shipped_at, Rabatt: discount, PosNr: line,
  Menge: quantity, Einzelpreis: unit_price, RückgabeID: return_id, tblRückgaben.datum: returned_at, Grund: reason,
  Betrag: amount}
values: {offen: open, versandt: shipped, storniert: cancelled, bezahlt: paid}
"""


def german_shop(file: Path, scale: float = 1.0) -> int:
    """Write the shop; return its number of rows, 49,000 at full scale."""
    rng = random.Random(17)
    customers, articles, orders = (max(60, round(scale * size)) for size in (5_000, 1_500, 11_000))
    moment = lambda: rng.randint(START, END)  # noqa: E731
    day = lambda: rng.randint(2015, 2023) * 10_000 + rng.randint(1, 12) * 100 + rng.randint(1, 28)  # noqa: E731
    branches = [(country, number) for country in ("DE", "AT", "CH") for number in range(1, 9)]
    kinds = ["Hammer", "Pinsel", "Roman", "Schaufel", "Puzzle", "Honig"]
    rows: dict[str, list[tuple[Any, ...]]] = {}
    rows["tblKategorien"] = [
        (i, name, 0.07 if name in ("Bücher", "Lebensmittel") else 0.19)
        for i, name in enumerate(["Werkzeug", "Farben", "Bücher", "Garten", "Spielzeug", "Lebensmittel"], 1)
    ]
    rows["tblFilialen"] = [(*branch, *rng.choice(TOWNS), day()) for branch in branches]
    rows["tblMitarbeiter"] = [
        (i, rng.choice(FIRST), rng.choice(LAST), *rng.choice(branches), moment(), round(rng.uniform(2100, 6800), 2))
        for i in range(1, 151)
    ]
    rows["tblKunden"] = [
        (i, rng.choice(FIRST) if rng.random() < 0.95 else None, rng.choice(LAST),
         f"kunde{i}@post.example" if rng.random() < 0.7 else None, 700_000 + 7 * i if rng.random() < 0.5 else None,
         *reversed(rng.choice(TOWNS)), moment())
        for i in range(1, customers + 1)
    ]  # fmt: skip
    ids = [f"A{i:05d}" for i in range(1, articles + 1)]
    rows["tblArtikel"] = [
        (key, f"{rng.choice(kinds)} {rng.choice(LAST)} {i}", rng.randint(1, 6),
         4006380000000 + i * 9137 if rng.random() < 0.8 else None, round(rng.uniform(1, 200), 2),
         rng.uniform(0.05, 25) if rng.random() < 0.9 else None, rng.randint(0, 400),
         day() if rng.random() < 0.9 else None)
        for i, key in enumerate(ids, 1)
    ]  # fmt: skip
    rows["tblBestellungen"], rows["tblBestellPositionen"] = [], []
    for key in range(100_001, 100_001 + orders):
        ordered, status = moment(), rng.choices(["offen", "versandt", "storniert", "bezahlt"], [1, 4, 1, 5])[0]
        shipped = ordered + rng.randint(86_400, 900_000) if status in ("versandt", "bezahlt") else None
        branch = rng.choice(branches) if rng.random() < 0.8 else (None, None)
        rebate = rng.choice([0, 0, 0, 0.05, 0.1, 0.15, 0.2, 0.25])
        rows["tblBestellungen"].append((key, rng.randint(1, customers), *branch, ordered, shipped, rebate, status))
        rows["tblBestellPositionen"] += [
            (key, line, rng.choice(ids), rng.randint(1, 12), rng.randint(1, 2000) * 0.1, rng.choice([0, 0, 0.05, 0.1]))
            for line in range(1, rng.choice([2, 3, 3, 3]) + 1)
        ]
    items = rng.sample(rows["tblBestellPositionen"], 400 if scale >= 0.1 else 100)
    reasons = ["defekt", "falsch", "zu spät", "gefällt nicht"]
    rows["tblRückgaben"] = [
        (i, item[0], item[1], moment(), rng.choice(reasons), round(item[3] * item[4], 2))
        for i, item in enumerate(items, 1)
    ]
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(SCHEMA)
        for table, found in rows.items():
            connection.executemany(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(found[0]))})', found)
        connection.commit()
    return sum(map(len, rows.values()))


SMALL = 0.03


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("shop") / "shop.db"
    german_shop(file, SMALL)
    return file


@pytest.fixture(scope="module")
def tables(file: Path) -> dict[str, Table]:
    return analyse_schema(file).tables


@pytest.fixture(scope="module")
def domain(file: Path) -> Domain:
    """The domain with the German names."""
    domain_from_sqlite(file, file.parent / "german")
    return build_domain(file.parent / "german")


@pytest.fixture(scope="module")
def english(file: Path) -> Domain:
    (file.parent / "names.yaml").write_text(NAMES, encoding="utf-8")
    domain_from_sqlite(file, file.parent / "english", names=file.parent / "names.yaml")
    return build_domain(file.parent / "english")


# ------------------------------------------------------------------------------------------------ what columns are


def test_integers_that_are_days_or_unix_times_are_dates_under_any_name(tables: dict[str, Table]) -> None:
    dates = {f"{table.name}.{name}" for table in tables.values() for name, c in table.columns.items() if c.is_date}
    assert dates == {
        "filialen.eroeffnung", "mitarbeiter.eintritt", "kunden.angelegt", "artikel.aufgenommen", "bestellungen.datum",
        "bestellungen.versand", "ruckgaben.datum",
    }  # fmt: skip
    assert tables["bestellungen"].columns["datum"].words == "datum"  # not "date datum"
    assert all(re.fullmatch(r"202[2-4]-\d\d-\d\d \d\d:\d\d:\d\d", v) for v in tables["ruckgaben"].present("datum"))
    assert all(re.fullmatch(r"20[12]\d-\d\d-\d\d", value) for value in tables["artikel"].present("aufgenommen"))


@pytest.mark.parametrize(
    ("name", "values", "dates"),
    [
        ("erfasst", [1700000000, 1700090001, 1710000002], True),
        ("erfasst", [1700000000000, 1700090001000, 1710000002000], True),
        ("stichtag", [20230115, 20230228, 20240301], True),
        ("x", [1700000000 + i for i in range(300)], False),  # they count on
        ("x", [1700000000, 1700090001, 17], False),
        ("x", [20230115, 20230228, 20241301], False),  # no thirteenth month
        ("artikel_nr", [1700000000, 1700090001, 1710000002], False),
        ("telefon", [1700000000, 1700090001, 1710000002], False),
    ],
)
def test_other_integers_stay_numbers(name: str, values: list[int], dates: bool) -> None:
    found = spelled(name, "INTEGER", values)
    assert found is not None
    assert (found.type == "TEXT") is dates


def test_numbers_that_name_rows_stay_numbers() -> None:
    moments = [1700000000, 1700090001, 1710000002]
    found = spelled("karte", "INTEGER", moments, names_rows=True)
    assert found is not None
    assert found.values == moments


def test_floats_have_no_noise_and_as_many_decimals_as_people_write(tables: dict[str, Table]) -> None:
    for table, column, decimals in (("artikel", "gewicht", 2), ("bestell_positionen", "einzelpreis", 1)):
        for value in tables[table].present(column):
            assert value == round(value, decimals)
    assert spelled("x", "REAL", [0.1 + 0.2, 7.0]).values == [0.3, 7.0]  # type: ignore[union-attr]
    assert spelled("x", "REAL", [0.00012345678, 0.00023456789]).values == [0.0001235, 0.0002346]  # type: ignore[union-attr]


def test_prefixes_are_stripped_and_words_that_begin_like_them_stay(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.executescript("""
            CREATE TABLE tblOrders (id INTEGER PRIMARY KEY, strName TEXT, intAnzahl INTEGER, dating TEXT);
            CREATE TABLE tbl_notes (id INTEGER PRIMARY KEY, t TEXT);
            CREATE TABLE tables_of_pubs (id INTEGER PRIMARY KEY, t TEXT);
            CREATE TABLE Tabelle (id INTEGER PRIMARY KEY, t TEXT);
            INSERT INTO tblOrders VALUES (1, 'a', 2, 'b');
        """)
    found = analyse_schema(tmp_path / "x.db").tables
    assert set(found) == {"orders", "notes", "tables_of_pubs", "tabelle"}
    assert list(found["orders"].columns) == ["order_id", "name", "anzahl", "dating"]


def test_a_word_that_all_tables_begin_with_is_stripped(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        for name in ("app_users", "app_orders", "app_items"):
            connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, t TEXT)")
        connection.execute("INSERT INTO app_users VALUES (1, 'a')")
        connection.commit()
    assert set(analyse_schema(tmp_path / "x.db").tables) == {"users", "orders", "items"}


# ------------------------------------------------------------------------------------------------------- the domain


def test_foreign_keys_of_several_columns_are_kept_looked_up_and_guarded(domain: Domain) -> None:
    keys = {name: [(key.columns, key.references) for key in t.foreign_keys] for name, t in domain.spec.tables.items()}
    assert keys["mitarbeiter"] == [(["land", "filial_nr"], "filialen")]  # in the order of the key
    assert keys["bestellungen"] == [(["land", "filial_nr"], "filialen")]
    assert keys["ruckgaben"] == [(["bestell_nr", "pos_nr"], "bestell_positionen")]
    schema = create_table_sql("ruckgaben", domain.spec.tables["ruckgaben"])
    assert 'FOREIGN KEY ("bestell_nr", "pos_nr") REFERENCES "bestell_positionen"' in schema
    intents = {"follow_mitarbeiter_to_filialen", "find_highest_gehalt_of_filialen"}
    intents |= {"follow_ruckgaben_to_bestell_positionen", "ask_ruckgaben_of_bestell_positionen"}
    assert intents <= set(domain.spec.intents)
    guards = [guard.require for guard in domain.spec.tools["create_ruckgaben"].guards]
    assert any("FROM bestell_positionen WHERE bestell_nr = :bestell_nr AND pos_nr = :pos_nr" in g for g in guards)


def test_a_foreign_key_needs_a_column_for_each_of_the_other_key(domain: Domain) -> None:
    from msgspec.structs import replace

    table = domain.spec.tables["mitarbeiter"]
    key = replace(table.foreign_keys[0], columns=["land", "filial_nr", "vorname"])
    spec = replace(domain.spec, tables={**domain.spec.tables, "mitarbeiter": replace(table, foreign_keys=[key])})
    with pytest.raises(DomainError, match=r"for each of the primary key of filialen: land, filial_nr"):
        Domain(spec)


def test_nullable_unique_columns_and_names_give_look_ups(domain: Domain) -> None:
    tools = set(domain.spec.tools)
    assert {
        "find_kunden_by_email", "find_kunden_by_kundenkarte", "find_artikel_by_bezeichnung", "find_artikel_by_ean",
    } <= tools  # fmt: skip
    assert domain.spec.tools["find_artikel_by_ean"].parameters["ean"].type == "integer"
    assert not [task for task in domain.tasks() if "None" in task.instruction + task.answer]


def test_values_that_are_set_are_among_those_observed(domain: Domain) -> None:
    base, tried = domain.database.base, Counter[str]()
    for task in domain.tasks():
        for call in task.reference_calls:
            table = next((n for n in domain.spec.tables if call.name.startswith(f"update_{n}_")), None)
            table = table or next((n for n in domain.spec.tables if call.name == f"create_{n}"), None)
            for name, value in call.arguments.items() if table else ():
                column = domain.spec.tables[str(table)].columns.get(name)
                if isinstance(value, (int, float)) and column and not column.references and name != "pos_nr":
                    count = base.execute(f"SELECT count(*) FROM {table} WHERE {name} = ?", (value,)).fetchone()[0]
                    assert count or name == "filial_nr", f"{task.id} sets {name} to {value}"
                    tried[name] += 1
    assert {"preis", "gehalt", "rabatt", "einzelpreis", "menge", "betrag"} <= set(tried)
    lines = [task.bindings["pos_nr"] for task in domain.tasks() if task.intent == "create_bestell_positionen"]
    assert lines
    assert max(lines) <= 4  # the next line of an order, not the next of all


def test_dates_of_new_rows_are_in_the_range_of_the_records(english: Domain, domain: Domain) -> None:
    days = [task.bindings["datum"][:10] for task in domain.tasks() if task.intent == "create_ruckgaben"]
    assert days
    assert "2022-01-01" <= min(days) <= max(days) <= domain.spec.today
    assert english.spec.today == domain.spec.today


def test_only_amounts_of_something_are_added_up(domain: Domain) -> None:
    totals = {
        column
        for tool in domain.spec.tools.values()
        for column in re.findall(r"AS total_(\w+)", tool.returns.sql if tool.returns else "")
    }
    assert totals <= {"gehalt", "betrag", "menge", "lagerbestand", "gewicht"}
    assert {"gehalt", "betrag"} <= totals
    assert not [task for task in domain.tasks() if re.search(r"\de\+\d", task.answer)]


def test_a_file_of_names_gives_english_tasks_with_states_and_verbs(english: Domain) -> None:
    assert set(english.spec.tables) == {
        "categories", "branches", "employees", "customers", "articles", "orders", "order_items", "returns",
    }  # fmt: skip
    assert {"cancel_order", "pay_order", "ship_order", "find_customer_by_email"} <= set(english.spec.tools)
    states = {state for (state,) in english.database.base.execute("SELECT DISTINCT status FROM orders")}
    assert states == {"open", "shipped", "cancelled", "paid"}
    assert "open" in english.spec.tables["orders"].checks[0]
    german = re.compile(r"tbl|kunde\b|artikel|bestell|datum|rabatt|offen|storniert", re.IGNORECASE)
    assert not [task.instruction for task in english.tasks() if german.search(task.instruction)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tables: {tblKunde: customers}", r"tables: Unknown table 'tblKunde'. Did you mean 'tblKunden'\?"),
        ("columns: {tblKunden.Orte: city}", r"columns: Unknown column 'tblKunden.Orte'. Did you mean 'tblKunden.Ort'"),
        ("colums: {Ort: city}", r"names.yaml: .*colums.* Write it as docs/from_sqlite.md shows"),
        ("tables: [a", r"(?s)names.yaml: Not valid YAML.* Write it as docs/from_sqlite.md shows"),
    ],
)
def test_a_file_of_names_that_cannot_be_used_says_why(file: Path, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "names.yaml").write_text(text)
    with pytest.raises(DomainError, match=message):
        domain_from_sqlite(file, tmp_path / "domain", names=tmp_path / "names.yaml")


CHECKED = ["oracle", "null", "verifier", "attacks", "wording"]


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("domain", ["oracle", "wording"]),
        pytest.param("domain", CHECKED, marks=pytest.mark.long),
        pytest.param("english", CHECKED, marks=pytest.mark.long),
    ],
    ids=["german", "german in all", "english in all"],
)
def test_the_shop_passes_its_checks_and_says_each_reason_once(
    name: str, checks: list[str], request: pytest.FixtureRequest
) -> None:
    found: Domain = request.getfixturevalue(name)
    report = check_environment("ToolOrchestra-Custom-v0", checks=checks, domain=found)
    assert report.passed, str(report)
    details = next(result.details for result in report.results if result.name == "wording")
    reasons = [detail.partition(": ")[2].partition(": ")[2] for detail in details]
    assert len(set(reasons)) == len(reasons)
    assert " and " in details[0]
    assert len(set(found.rules.splitlines())) == len(found.rules.splitlines())


def test_sampled_records_keep_the_keys_of_several_columns(file: Path, tmp_path: Path) -> None:
    domain_from_sqlite(file, tmp_path / "domain", records="sample")
    found = Domain(read_spec(tmp_path / "domain"), tasks=[])
    assert found.spec.tables["mitarbeiter"].rows == []
    assert found.database.base.execute("SELECT count(DISTINCT land || filial_nr) FROM mitarbeiter").fetchone()[0] > 9


@pytest.mark.slow
@pytest.mark.long
def test_the_whole_shop_becomes_a_domain_of_a_size_to_train_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("toolorchestra.cli.synth.domain.SynthDomainCommand._validate", lambda self: 0)
    assert 48_000 <= german_shop(tmp_path / "shop.db") <= 50_000
    (tmp_path / "names.yaml").write_text(NAMES, encoding="utf-8")
    options = ["--from-sqlite", str(tmp_path / "shop.db"), "--names", str(tmp_path / "names.yaml")]
    assert main(["synth", str(tmp_path / "domain"), *options]) == 0
    capsys.readouterr()
    found = load_domain(tmp_path / "domain")
    assert found.database.entries() <= 5_000
    assert len(found.tasks()) > 300
    assert {task.difficulty for task in found.tasks()} >= {1, 2, 3, 4}
    assert main(["synth", str(tmp_path / "few"), *options, "--rows", "1000"]) == 0
    assert load_domain(tmp_path / "few").database.entries() <= 1_500


def test_names_and_rows_are_for_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["synth", str(tmp_path), "--names", "names.yaml"]) == 2
    assert "--names is for --from-sqlite FILE: give that as well." in capsys.readouterr().err
