"""What kinds of things columns hold, and that whatever a derived request creates or changes is of its column's kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.toolscale.synth.databases import written
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.tables.kinds import is_secret, kind_of
from toolorchestra.toolscale.synth.tables.schema_analysis import SchemaAnalysis, analyse_schema
from toolorchestra.toolscale.synth.tables.values import spelled

Row = tuple[Any, ...]

FIRST = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "June", "Kai", "Lena"]
LAST = ["Adler", "Berg", "Costa", "Diaz", "Egan", "Fox", "Gray", "Hart", "Ito", "Jones", "Khan", "Lund"]
GENRES = ["Jazz", "Rock", "Blues", "Opera", "Folk", "Punk", "Soul", "Funk", "Disco", "House", "Techno", "Ska"]

DATE = r"(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
TIME = r"(?:[01]\d|2[0-3]):[0-5]\d"


def analysed(place: Path, script: str, rows: dict[str, list[Row]]) -> SchemaAnalysis:
    return analyse_schema(written(place / "x.db", script, rows))


def rows_of(count: int, row: Callable[[int], Row]) -> list[Row]:
    return [row(i) for i in range(count)]


WORKERS = "CREATE TABLE worker (worker_no INTEGER PRIMARY KEY, name TEXT NOT NULL);"
STAFF = rows_of(24, lambda i: (i + 1, f"{FIRST[i % 12]} {LAST[(i * 5 + i // 12) % 12]}"))
CASES: dict[str, tuple[str, dict[str, list[Row]], dict[str, str]]] = {
    "a date in a key": (
        WORKERS + "CREATE TABLE wage (worker_no INTEGER REFERENCES worker, amount INTEGER NOT NULL, from_date DATE,"
        " PRIMARY KEY (worker_no, from_date));",
        {"worker": STAFF, "wage": rows_of(48, lambda i: (i % 24 + 1, 40_000 + 500 * i, f"202{i // 24}-06-26"))},
        {"wage.from_date": DATE, "worker.name": r"[A-Z][a-z]+ [A-Z][a-z]+"},
    ),
    "a day and a time in a key": (
        WORKERS + "CREATE TABLE visit (worker_no INTEGER REFERENCES worker, day DATE, start TEXT, topic TEXT NOT NULL,"
        " PRIMARY KEY (worker_no, day, start));",
        {
            "worker": STAFF,
            "visit": rows_of(60, lambda i: (
                i % 24 + 1, f"2025-05-{i % 28 + 1:02d}", f"{8 + i % 9:02d}:{i % 3 * 20:02d}", f"check {i % 4}"
            )),
        },
        {"visit.day": DATE, "visit.start": r"(?:0[89]|1[0-6]):[024]0"},  # on the grid and in the range of the others
    ),
    "a time that only one row has": (
        "CREATE TABLE bell (id INTEGER PRIMARY KEY, rings TEXT NOT NULL UNIQUE, kind TEXT NOT NULL);",
        {"bell": rows_of(20, lambda i: (i + 1, f"{8 + i // 4:02d}:{i % 4 * 15:02d}", ["short", "long"][i % 2]))},
        {"bell.rings": r"(?:[01]\d|2[0-3]):(?:00|15|30|45)"},
    ),
    "a day that only one row has": (
        "CREATE TABLE menu (id INTEGER PRIMARY KEY, served DATE NOT NULL UNIQUE, dish TEXT NOT NULL, price REAL);",
        {"menu": rows_of(28, lambda i: (i + 1, f"2025-02-{i + 1:02d}", f"soup {i % 5}", 4.5 + i % 7))},
        {"menu.served": DATE},
    ),
    "a date that others refer to": (
        "CREATE TABLE calendar (day DATE PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE booking (id INTEGER PRIMARY KEY, date DATE NOT NULL REFERENCES calendar, room TEXT NOT NULL);",
        {
            "calendar": rows_of(28, lambda i: (f"2025-03-{i + 1:02d}", f"day {i}")),
            "booking": rows_of(60, lambda i: (i, f"2025-03-{i % 28 + 1:02d}", "ABC"[i % 3])),
        },
        {"calendar.day": DATE, "booking.date": r"2025-03-\d\d"},
    ),
    "moments in a key": (
        "CREATE TABLE sensor (id INTEGER PRIMARY KEY, name TEXT NOT NULL);"
        "CREATE TABLE reading (sensor_id INTEGER REFERENCES sensor, taken_at TIMESTAMP, heat REAL NOT NULL,"
        " PRIMARY KEY (sensor_id, taken_at));",
        {
            "sensor": rows_of(6, lambda i: (i + 1, f"Sensor {i}")),
            "reading": rows_of(60, lambda i: (i % 6 + 1, f"2025-01-{i // 3 + 1:02d} 06:{i % 60:02d}:00", 1.5 * i)),
        },
        {"reading.taken_at": rf"{DATE} {TIME}:\d\d"},
    ),
    "addresses and codes of people": (
        "CREATE TABLE account (id INTEGER PRIMARY KEY, username TEXT NOT NULL UNIQUE, email TEXT NOT NULL UNIQUE,"
        " phone TEXT NOT NULL UNIQUE, homepage TEXT NOT NULL UNIQUE);",
        {
            "account": [
                (i, f"user{i:03d}", f"{name.lower().replace(' ', '.')}@{'abc'[i % 3]}.example", f"+49 (0)30 55{i:04d}",
                 f"https://www.example.org/~{name.lower().replace(' ', '-')}")
                for i, name in STAFF
            ]
        },
        {
            "account.username": r"user\d{3}", "account.email": r"[a-z]+\.[a-z]+@[abc]\.example",
            "account.phone": r"\+49 \(0\)30 \d{6}", "account.homepage": r"https://www\.example\.org/~[a-z]+-[a-z-]+",
        },
    ),
    "first and last names": (
        "CREATE TABLE guest (id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,"
        " email TEXT NOT NULL UNIQUE, born INTEGER);",
        {"guest": [(i, *name.split(), f"{name.split()[0].lower()}{i}@mail.example", 1950 + i) for i, name in STAFF]},
        {"guest.first_name": "[A-Z][a-z]+", "guest.last_name": "|".join(LAST), "guest.email": r"[a-z]+\d+@mail.\w+"},
    ),
    "codes in one shape": (
        "CREATE TABLE item (sku TEXT PRIMARY KEY, bin TEXT NOT NULL UNIQUE, iban TEXT UNIQUE NOT NULL, zip TEXT);",
        {
            "item": rows_of(24, lambda i: (
                f"{'QWERTY'[i % 6]}X-{i * 37 % 997:03d}/b", "".join(chr(65 + i * k % 26) for k in (1, 3, 5, 7)),
                f"DE{10 + i} 5001 {1000 + i * 7}", f"N{i % 9} {i % 8}AA",
            ))
        },
        {
            "item.sku": r"[QWERTY]X-\d{3}/b", "item.bin": "[A-Z]{4}", "item.iban": r"DE\d\d \d{4} \d{4}",
            "item.zip": r"N\d \dAA",
        },
    ),
    "titles": (
        "CREATE TABLE book (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, pages INTEGER NOT NULL);",
        {"book": rows_of(24, lambda i: (i + 1, f"The {GENRES[i % 12]} {LAST[(i * 5 + i // 12) % 12]}", 90 + 7 * i))},
        {"book.title": rf"The (?:{'|'.join(GENRES)}) (?:{'|'.join(LAST)})"},
    ),
    "titles with a number": (
        "CREATE TABLE event (id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE, seats INTEGER NOT NULL);",
        {"event": rows_of(24, lambda i: (i + 1, f"{GENRES[i % 12]} night {i + 1}", 20 + i))},
        {"event.title": r"[A-Z][a-z]+ night \d+"},
    ),
    "a code that is a part of a key": (
        "CREATE TABLE show (id INTEGER PRIMARY KEY, title TEXT NOT NULL);"
        "CREATE TABLE ticket (show_id INTEGER REFERENCES show, seat TEXT, price REAL, PRIMARY KEY (show_id, seat));",
        {
            "show": rows_of(8, lambda i: (i + 1, f"Act {i}")),
            "ticket": rows_of(64, lambda i: (i % 8 + 1, f"{'ABC'[i % 3]}{i // 8 + 10}", 9.5 + i % 4)),
        },
        {"ticket.seat": r"[ABC]\d\d"},
    ),
    "numbers that only one row has": (
        "CREATE TABLE plate (id INTEGER PRIMARY KEY, ean INTEGER NOT NULL UNIQUE, depth REAL NOT NULL UNIQUE);",
        {"plate": rows_of(24, lambda i: (i + 1, 4_006_381_000_000 + 9_137 * i, 0.5 + i * 1.25))},
        {"plate.ean": r"40063\d{8}", "plate.depth": r"\d{1,2}\.\d{1,2}"},
    ),
    "places": (
        "CREATE TABLE stop (id INTEGER PRIMARY KEY, name TEXT, lat REAL NOT NULL, lon REAL NOT NULL, zip INT);",
        {"stop": rows_of(30, lambda i: (i + 1, f"{LAST[i % 12]} {GENRES[i * 5 % 12]}", 50 + i / 7, 9 + i / 9, 10_115))},
        {"stop.lat": r"5\d\.\d+", "stop.lon": r"(?:9|1\d)\.\d+"},
    ),
    "yes and no, categories, notes": (
        "CREATE TABLE job (id INTEGER PRIMARY KEY, code TEXT NOT NULL UNIQUE, is_paid BOOLEAN NOT NULL,"
        " size TEXT NOT NULL, note TEXT, due_on DATE NOT NULL);",
        {
            "job": rows_of(30, lambda i: (
                i + 1, f"J-{i:04d}", i % 2, ["small", "large", "huge"][i % 3], f"call {i}", f"2025-03-{i % 28 + 1:02d}"
            ))
        },
        {"job.code": r"J-\d{4}", "job.is_paid": "True|False", "job.size": "small|large|huge", "job.due_on": DATE},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_created_or_changed_is_of_its_columns_kind_and_no_other_row_has_it(name: str, tmp_path: Path) -> None:
    script, rows, patterns = CASES[name]
    domain_from_sqlite(written(tmp_path / "x.db", script, rows), tmp_path / "x")
    domain = build_domain(tmp_path / "x")
    created = set()
    for task in domain.tasks():
        for call in task.reference_calls:
            verb, _, rest = call.name.partition("_")
            table = next((t for t in domain.spec.tables if verb in ("create", "update") and rest.startswith(t)), None)
            for column, value in call.arguments.items() if table else ():
                if pattern := patterns.get(f"{table}.{column}"):
                    assert re.fullmatch(pattern, str(value)), f"{task.id}: {column} becomes {value!r}"
                    created |= {f"{table}.{column}"} if verb == "create" else set()
                spec = domain.spec.tables[str(table)].columns[column]
                if spec.unique and (verb == "create" or call.name.endswith(column)):
                    found = domain.database.base.execute(
                        f"SELECT 1 FROM {table} WHERE {column} = ?", (value,)
                    ).fetchall()
                    assert not found, f"{task.id}: another row has the {column} {value!r}"
    assert created >= set(patterns)


def test_what_has_no_other_value_that_makes_sense_gets_no_request_for_a_new_one(tmp_path: Path) -> None:
    genres = rows_of(12, lambda i: (i + 1, GENRES[i], i % 3))
    script = "CREATE TABLE genre (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, age INTEGER NOT NULL);"
    domain_from_sqlite(written(tmp_path / "x.db", script, {"genre": genres}), tmp_path / "x")
    domain = build_domain(tmp_path / "x")
    assert "find_genre_by_name" in domain.spec.tools
    assert "create_genre" not in domain.spec.tools


def test_a_part_of_a_key_that_is_a_date_is_guarded_as_one(tmp_path: Path) -> None:
    script, rows, _ = CASES["a date in a key"]
    domain_from_sqlite(written(tmp_path / "x.db", script, rows), tmp_path / "x")
    domain: Domain = build_domain(tmp_path / "x")
    parameter = domain.spec.tools["create_wage"].parameters["from_date"]
    assert (parameter.type, parameter.format) == ("string", "date")
    session = domain.session()
    tool = domain.tools["create_wage"]
    for day, error in (("2025-02-30", "2025-02-30 is no date."), ("2025-02-28", None)):
        call = json.dumps({"worker_no": 1, "amount": 5, "from_date": day}).encode()
        assert session.call(tool, tool.decode(call)).error == error
    session.close()


# ------------------------------------------------------------------------------------------------ what columns are


@pytest.mark.parametrize(
    ("name", "shape", "values", "kind"),
    [
        ("contact", "text", ["ada@x.example", "bo@y.example"], "email"),
        ("homepage", "text", ["https://x.example/a", "https://x.example/b"], "url"),
        ("phone", "text", ["+49 30 1234", "030/555-12"], "phone"),
        ("opens", "text", ["08:30", "23:00"], "time"),
        ("runtime", "text", ["3:45", "12:08"], "duration"),
        ("gps", "text", ["52.5, 13.4", "48.1, 11.5"], "coordinates"),
        ("sku", "text", ["AB-12", "XY-99"], "code"),
        ("plate", "text", ["N1 7AA", "SW1A 2AA"], "code"),
        ("title", "text", ["The River", "Emma"], "text"),
        ("title", "text", ["The River"] * 20 + ["long " * 20], "text"),
        ("remark", "text", ["came late", "paid"], "note"),
        ("colour", "text", ["red", "blue"] * 9, "category"),
        ("latitude", "number", [52.5, 48.1], "coordinate"),
        ("store_lng", "number", [13.4, 11.5], "coordinate"),
        ("zip", "number", [10115, 1067], "identifier"),
        ("model_year", "number", [1999, 2004], "identifier"),
        ("version", "number", [1, 2], "identifier"),
        ("month", "number", [1, 12], "identifier"),
        ("number_of_rooms", "number", [3, 2], "quantity"),
        ("discount", "number", [0.05, 0.1], "rate"),
        ("tax_rate", "number", [7, 19], "rate"),
        ("unit_price", "number", [7.5, 19], "price"),
        ("salary", "number", [2100, 3500], "money"),
        ("stock", "number", [7, 0], "quantity"),
        ("height", "number", [170, 182], "number"),
        ("born", "date", ["1990-07-03"], "date"),
    ],
)
def test_a_kind_is_recognised_by_name_and_values(name: str, shape: Any, values: list[Any], kind: str) -> None:
    assert kind_of(name, shape, values, plain=True, unique=False) == kind


def test_coordinates_and_numbers_that_name_something_are_neither_added_up_nor_compared_nor_changed(
    tmp_path: Path,
) -> None:
    script, rows, _ = CASES["places"]
    stop = analysed(tmp_path, script, rows).tables["stop"]
    for name in ("lat", "lon", "zip"):
        assert not stop.columns[name].can_be_summed
        assert not stop.columns[name].can_be_compared
        assert not stop.columns[name].traits.change
    domain_from_sqlite(tmp_path / "x.db", tmp_path / "x")
    domain = build_domain(tmp_path / "x")
    assert not [n for n in domain.spec.tools if n.startswith("update_stop_l")]
    assert not [
        task for task in domain.tasks() if re.search("(?:highest|lowest|total|average) l(?:at|on)", task.instruction)
    ]


@pytest.mark.parametrize(
    ("name", "declared", "values", "spelling", "note"),
    [
        (
            "visit_date",
            "INTEGER",
            [1_700_000_000_000_000, 1_710_000_000_000_000],
            "2023-11-14 22:13:20",
            "times in UTC",
        ),
        ("last_visit_time", "INTEGER", [13_350_000_000_000_000], "2024-01-17 21:20:00", "times in UTC"),
        ("zcreationdate", "TIMESTAMP", [700_000_000.5, -100_000.0], "2023-03-08 20:26:40", "times in UTC"),
        ("seen_on", "INTEGER", [20_230_115], "2023-01-15", "as days"),
        ("seen_on", "DATE", ["15.01.2023"], "2023-01-15", "rewritten as YYYY-MM-DD"),
        ("seen_on", "DATE", ["2023-01-15T00:00:00"], "2023-01-15", ""),
        ("seen_at", "TIMESTAMP", ["2023-01-15T09:00:00+01:00"], "2023-01-15 09:00:00", "local ones, +01:00 from UTC"),
        ("is_open", "BOOLEAN", [0, 1], 0, "no and yes"),
        ("size", "", ["12", "7"], 12, "texts were read as numbers"),
    ],
)
def test_what_is_read_as_something_else_is_noted(
    name: str, declared: str, values: list[Any], spelling: Any, note: str
) -> None:
    found = spelled(name, declared, values)
    assert found is not None
    assert found.values[0] == spelling
    assert note in found.note
    assert bool(note) == bool(found.note)


def test_times_of_a_table_with_several_offsets_become_times_in_utc(tmp_path: Path) -> None:
    script = "CREATE TABLE flight (id INTEGER PRIMARY KEY, departs TIMESTAMP, arrives TIMESTAMP);"
    times = ("2025-03-01T22:00:00-08:00", "2025-03-02T16:30:00+01:00")
    found = analysed(tmp_path, script, {"flight": rows_of(5, lambda i: (i, *times))})
    assert (found.tables["flight"].data["departs"][0], found.tables["flight"].data["arrives"][0]) == (
        "2025-03-02 06:00:00", "2025-03-02 15:30:00",
    )  # fmt: skip
    assert "flight.departs: times with offsets (-08:00) were converted to UTC." in map(str, found.notes)


ENTRIES = rows_of(60, lambda i: (i + 1, i % 4 + 1, 5.5 + i, ["EUR", "USD", "JPY"][i % 3]))


@pytest.mark.parametrize(
    ("script", "rows", "mixed"),
    [
        ("CREATE TABLE entry (id INTEGER PRIMARY KEY, part INT, amount REAL, currency TEXT)", {"entry": ENTRIES}, True),
        ("CREATE TABLE entry (id INTEGER PRIMARY KEY, part INT, amount REAL, paid_in TEXT);", {"entry": ENTRIES}, True),
        (
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, part INT, amount REAL, currency TEXT);",
            {"entry": [(*row[:3], "EUR") for row in ENTRIES]},
            False,
        ),
        (
            "CREATE TABLE account (id INTEGER PRIMARY KEY, currency TEXT);"
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, account_id INTEGER REFERENCES account, amount REAL);",
            {"account": [(i, "EUR" if i % 2 else "USD") for i in range(1, 5)], "entry": [row[:3] for row in ENTRIES]},
            True,
        ),
        (
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, part INTEGER, quantity REAL, unit TEXT);",
            {"entry": [(*row[:3], ["kg", "piece"][row[0] % 2]) for row in ENTRIES]},
            True,
        ),
        (
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, part INT, amount REAL, currency_rate REAL);",
            {"entry": [(*row[:3], 1 + row[0] / 8) for row in ENTRIES]},
            False,
        ),
        (
            "CREATE TABLE entry (id INTEGER PRIMARY KEY, part INT, amount REAL, unit TEXT);",
            {"entry": [(*row[:3], f"{row[0] % 4}B") for row in ENTRIES]},
            False,
        ),
    ],
    ids=["its own", "codes", "one currency", "that of what it refers to", "units", "a rate", "apartments"],
)  # fmt: skip
def test_amounts_of_several_currencies_or_units_are_neither_added_up_nor_compared(
    script: str, rows: dict[str, list[Row]], mixed: bool, tmp_path: Path
) -> None:
    found = analysed(tmp_path, script, rows)
    amount = found.tables["entry"].columns["amount" if "amount" in script else "quantity"]
    assert amount.can_be_summed is amount.can_be_compared is not mixed
    assert any("neither added up nor compared" in str(note) for note in found.notes) is mixed


# --------------------------------------------------------------------------------------------------------- secrets

HASHES = [f"$2b$12${i:022x}" for i in range(9)]
DIGESTS = [f"{i * 7919:040x}" for i in range(9)]
TOKENS = [f"tok{i * 7919:012x}" for i in range(9)]


@pytest.mark.parametrize(
    ("name", "values", "secret"),
    [
        ("password_hash", HASHES, True),
        ("passwd", ["hunter2", "letmein"], True),
        ("user_pwd", ["hunter2"], True),
        ("login_data", HASHES, True),
        ("fingerprint", DIGESTS, True),
        ("api_key", TOKENS, True),
        ("client_secret", TOKENS, True),
        ("refresh_token", TOKENS, True),
        ("token", TOKENS, True),
        ("salt", TOKENS, True),
        ("cookie", TOKENS, True),
        ("cvv", [123, 456], True),
        ("pin", ["1234", "0815"], True),
        ("otp", ["123456"], True),
        ("value", ["sk-abcdef0123456789"], True),
        ("value", ["eyJhbGciOi.eyJzdWIi.c2ln"], True),
        ("token_count", [12, 40], False),
        ("session_id", [1, 2], False),
        ("session", ["Matinee", "Late night"], False),
        ("salt", [2.5, 3.0], False),
        ("cookie", ["Oatmeal", "Ginger"], False),
        ("pin_code", ["560001", "110001"], False),
        ("hash_tag", ["#summer", "#sale"], False),
        ("commit_sha", DIGESTS, False),
        ("txid", DIGESTS, False),
        ("password_changed_at", ["2024-01-05"], False),
        ("has_password", [0, 1], False),
        ("secret_ingredient", ["thyme", "dill"], False),
        ("digest", ["News of the week", "News of the month"], False),
    ],
)
def test_secrets_are_known_by_name_and_values_together(name: str, values: list[Any], secret: bool) -> None:
    cells = spelled(name, "BOOLEAN" if values == [0, 1] else "TEXT", values)
    assert cells is not None
    assert is_secret(name, cells, identifies=False) is secret


def test_a_column_of_secrets_is_left_out_and_noted_and_keys_stay(tmp_path: Path) -> None:
    script = """CREATE TABLE session (session_id TEXT PRIMARY KEY, hall TEXT NOT NULL);
        CREATE TABLE app_user (id INTEGER PRIMARY KEY, session_id TEXT REFERENCES session,
            password_hash TEXT NOT NULL UNIQUE, CHECK (length(password_hash) > 5));"""
    sessions = [(f"{i * 7919:040x}", f"hall {i}") for i in range(9)]
    users = [(i, sessions[i][0], HASHES[i]) for i in range(9)]
    found = analysed(tmp_path, script, {"session": sessions, "app_user": users})
    assert list(found.tables["app_user"].columns) == ["app_user_id", "session_id"]
    assert found.tables["session"].key == ("session_id",)
    assert "app_user.password_hash looks like a secret: left out." in map(str, found.notes)
