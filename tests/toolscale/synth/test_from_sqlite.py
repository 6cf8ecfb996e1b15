"""Domains from external SQLite files: a library, a shop, one with every difficulty, and those that hypothesis makes."""

from __future__ import annotations

import contextlib
import datetime
import functools
import random
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from toolorchestra.agents.policies.base import play_episode
from toolorchestra.agents.policies.registry import make_policy
from toolorchestra.envs.checks.environment import check_environment
from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.domain import Domain
from toolorchestra.toolscale.domain_folder import build_domain, load_domain, read_spec
from toolorchestra.toolscale.requests.sense_checks import reading_checks
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.tables.sampling import MAX_ROWS
from toolorchestra.toolscale.synth.tables.schema_analysis import analyse_schema
from toolorchestra.toolscale.synth.tables.sqlite_file import read_sqlite
from toolorchestra.toolscale.tools.tool import Status

FIRST = ["Ada", "Bo", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ivo", "June", "Kai", "Lena", "Max", "Nora", "Otto"]
FIRST += ["Pia", "Quin", "Rosa", "Sam", "Tess", "Uma", "Vera", "Will", "Xena", "Yara", "Zoe"]
LAST = ["Adler", "Berg", "Costa", "Diaz", "Egan", "Fox", "Gray", "Hart", "Ito", "Jones", "Khan", "Lund", "Moss", "Nagy"]
LAST += ["Owen", "Park", "Quist", "Reed", "Sato", "Thorn", "Ueda", "Voss", "West", "Xu", "Young", "Zahn"]
TODAY = datetime.date(2024, 5, 31)


def insert(connection: sqlite3.Connection, table: str, rows: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(rows[0]))
    connection.executemany(f'INSERT INTO "{table}" VALUES ({marks})', rows)


class Dates:
    """Random ISO dates before the end of the records."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def ago(self, least: int, most: int) -> str:
        return (TODAY - datetime.timedelta(self.rng.randint(least, most))).isoformat()


def people(rng: random.Random, count: int) -> list[str]:
    names: dict[str, None] = {}
    while len(names) < count:
        names[f"{rng.choice(FIRST)} {rng.choice(LAST)}"] = None
    return list(names)


def library(file: Path) -> None:
    """A lending library of twelve tables; one reference is not declared, the rules of lending stand nowhere."""
    rng = random.Random(5)
    ago = Dates(rng).ago
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("""
            CREATE TABLE Branches (branch_id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, address TEXT NOT NULL,
                phone TEXT, opened DATE);
            CREATE TABLE Staff (staff_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
                email TEXT NOT NULL UNIQUE, role TEXT NOT NULL CHECK (role IN ('librarian', 'assistant', 'manager')),
                branch_id INTEGER NOT NULL REFERENCES Branches, hired DATE NOT NULL,
                supervisor_id INTEGER REFERENCES Staff(staff_id));
            CREATE TABLE Members (member_id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL UNIQUE,
                phone TEXT, joined DATE NOT NULL, status TEXT NOT NULL DEFAULT 'active',
                home_branch_id INTEGER NOT NULL REFERENCES Branches(branch_id));
            CREATE TABLE Authors (author_id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT, born INTEGER);
            CREATE TABLE Books (book_id INTEGER PRIMARY KEY, isbn TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
                genre TEXT NOT NULL, published INTEGER, pages INTEGER CHECK (pages > 0),
                replacement_price NUMERIC NOT NULL);
            CREATE TABLE BookAuthors (book_id INTEGER NOT NULL REFERENCES Books,
                author_id INTEGER NOT NULL REFERENCES Authors, PRIMARY KEY (book_id, author_id));
            CREATE TABLE Copies (copy_id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES Books,
                branch_id INTEGER NOT NULL REFERENCES Branches, barcode TEXT NOT NULL UNIQUE, condition TEXT NOT NULL,
                acquired DATE);
            CREATE TABLE Loans (loan_id INTEGER PRIMARY KEY AUTOINCREMENT, copy_id INTEGER NOT NULL REFERENCES Copies,
                member_id INTEGER NOT NULL REFERENCES Members, loaned_on DATE NOT NULL, due_on DATE NOT NULL,
                returned_on DATE, renewals INTEGER NOT NULL DEFAULT 0, CHECK (due_on >= loaned_on));
            CREATE TABLE Reservations (reservation_id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES Books,
                member_id INTEGER NOT NULL REFERENCES Members, reserved_on DATE NOT NULL,
                status TEXT NOT NULL CHECK (status IN ('waiting', 'ready', 'collected', 'cancelled')));
            CREATE TABLE Fines (fine_id INTEGER PRIMARY KEY, loan_id INTEGER NOT NULL REFERENCES Loans,
                member_id INTEGER NOT NULL, amount REAL NOT NULL CHECK (amount > 0), reason TEXT NOT NULL,
                issued_on DATE NOT NULL, status TEXT NOT NULL);
            CREATE TABLE Payments (payment_id INTEGER PRIMARY KEY, fine_id INTEGER NOT NULL REFERENCES Fines,
                amount REAL NOT NULL, paid_on DATE NOT NULL, method TEXT NOT NULL);
            CREATE TABLE Events (event_id INTEGER PRIMARY KEY, title TEXT NOT NULL,
                branch_id INTEGER NOT NULL REFERENCES Branches, held_on DATE NOT NULL, capacity INTEGER NOT NULL,
                host_id INTEGER REFERENCES Staff(staff_id), description TEXT);
        """)
        towns = ["Central", "North", "Harbour", "Hill", "Riverside"]
        insert(connection, "Branches", [
            (i, f"{town} Library", f"{rng.randint(1, 99)} {rng.choice(LAST)} Street", f"555-01{i:02d}", ago(4000, 9000))
            for i, town in enumerate(towns, 1)
        ])  # fmt: skip
        staff = [name.split() for name in people(rng, 30)]
        insert(connection, "Staff", [
            (i, first, last, f"{first}.{last}@library.example".lower(),
             rng.choices(["librarian", "assistant", "manager"], [5, 4, 1])[0], rng.randint(1, 5), ago(100, 4000),
             None if i < 4 else rng.randint(1, min(i - 1, 6)))
            for i, (first, last) in enumerate(staff, 1)
        ])  # fmt: skip
        members = [
            (i, name, name.lower().replace(" ", ".") + "@mail.example",
             f"555-{rng.randint(1000, 9999)}" if rng.random() < 0.9 else None, ago(800, 3000),
             rng.choices(["active", "suspended", "expired"], [8, 1, 1])[0], rng.randint(1, 5))
            for i, name in enumerate(people(rng, 300), 1)
        ]  # fmt: skip
        insert(connection, "Members", members)
        active = [member[0] for member in members if member[5] == "active"]
        countries = ["Norway", "Peru", "Japan", "Kenya", "France", None]
        insert(connection, "Authors", [
            (i, f"{name[:-1]}{rng.choice('abcdefgh')}son", rng.choice(countries), rng.randint(1900, 1990))
            for i, name in enumerate(people(rng, 120), 1)
        ])  # fmt: skip
        adjectives = ["Silent", "Reference", "Last", "Hidden", "Broken", "Winter", "Distant", "Paper", "Iron", "Glass"]
        nouns = [
            "River",
            "Garden",
            "House",
            "Letter",
            "Island",
            "Mirror",
            "Road",
            "Clock",
            "Orchard",
            "Harbour",
            "Forest",
        ]
        titles: dict[str, None] = {}
        while len(titles) < 250:
            tail = f" {rng.choice(['of', 'and'])} {rng.choice(nouns)}" if rng.random() < 0.6 else ""
            titles[f"The {rng.choice(adjectives)} {rng.choice(nouns)}{tail}"] = None
        genres = ["novel", "crime", "poetry", "history", "children", "science"]
        insert(connection, "Books", [
            (i, f"978-{rng.randint(10**8, 10**9 - 1)}-{i % 10}", title, rng.choice(genres), rng.randint(1950, 2024),
             rng.randint(80, 900), round(rng.uniform(6, 60), 2))
            for i, title in enumerate(titles, 1)
        ])  # fmt: skip
        insert(connection, "BookAuthors", [
            (book, author) for book in range(1, 251)
            for author in rng.sample(range(1, 121), rng.choice([1, 1, 1, 2, 3]))
        ])  # fmt: skip
        owned = [book for book in range(1, 251) for _ in range(rng.randint(1, 4))]
        conditions = ["new", "good", "worn", "damaged"]
        insert(connection, "Copies", [
            (i, book, rng.randint(1, 5), f"LB{i:05d}", rng.choices(conditions, [2, 5, 2, 1])[0], ago(10, 3000))
            for i, book in enumerate(owned, 1)
        ])  # fmt: skip
        lent: list[tuple[Any, ...]] = []
        out: set[int] = set()
        for start in sorted(ago(1, 700) for _ in range(1500)):
            begun = datetime.date.fromisoformat(start)
            copy, back = rng.randint(1, len(owned)), None
            if (TODAY - begun).days > 20 and rng.random() < 0.93:
                back = min(TODAY, begun + datetime.timedelta(rng.randint(3, 45)))
            elif copy in out:
                continue
            else:
                out.add(copy)
            due = begun + datetime.timedelta(28)
            lent.append(
                (copy, rng.choice(active), start, due.isoformat(), back and back.isoformat(), rng.choice([0, 0, 1]))
            )
        loans = [(i, *loan) for i, loan in enumerate(lent, 1)]
        insert(connection, "Loans", loans)
        late = [loan for loan in loans if (loan[5] and loan[5] > loan[4]) or rng.random() < 0.03]
        fines = [
            (i, loan[0], loan[2], round(rng.randint(1, 40) * 0.25, 2), rng.choice(["late return", "damage", "loss"]),
             loan[5] or TODAY.isoformat(), rng.choices(["unpaid", "paid", "waived"], [4, 5, 1])[0])
            for i, loan in enumerate(late, 1)
        ]  # fmt: skip
        insert(connection, "Fines", fines)
        paid = [fine for fine in fines if fine[6] == "paid"]
        insert(connection, "Payments", [
            (i, fine[0], fine[3], fine[5], rng.choice(["card", "cash", "online"])) for i, fine in enumerate(paid, 1)
        ])  # fmt: skip
        states = ["waiting", "ready", "collected", "cancelled"]
        insert(connection, "Reservations", [
            (i, rng.randint(1, 250), rng.choice(active), ago(0, 200), rng.choices(states, [3, 2, 4, 1])[0])
            for i in range(1, 201)
        ])  # fmt: skip
        kinds = ["Story hour", "Book club", "Author evening", "Chess night"]
        insert(connection, "Events", [
            (i, f"{rng.choice(kinds)} {i}", rng.randint(1, 5), ago(-60, 200), rng.randint(10, 80), rng.randint(1, 30),
             None)
            for i in range(1, 61)
        ])  # fmt: skip
        connection.commit()


def shop(file: Path) -> None:
    """A shop as the well-known sample databases have it: CamelCase, a table called Order, one with a space."""
    rng = random.Random(7)
    ago = Dates(rng).ago
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("""
            CREATE TABLE [Employee] ([EmployeeId] INTEGER NOT NULL, [LastName] NVARCHAR(20) NOT NULL,
                [FirstName] NVARCHAR(20) NOT NULL, [Title] NVARCHAR(30), [ReportsTo] INTEGER, [HireDate] DATETIME,
                [Email] NVARCHAR(60), CONSTRAINT [PK_Employee] PRIMARY KEY ([EmployeeId]),
                FOREIGN KEY ([ReportsTo]) REFERENCES [Employee] ([EmployeeId]));
            CREATE TABLE [Customer] ([CustomerID] NCHAR(5) PRIMARY KEY NOT NULL, [CompanyName] NVARCHAR(40) NOT NULL,
                [ContactName] NVARCHAR(30), [City] NVARCHAR(15), [Country] NVARCHAR(15), [Phone] NVARCHAR(24),
                [SupportRepId] INTEGER REFERENCES [Employee] ([EmployeeId]));
            CREATE TABLE [Category] ([CategoryId] INTEGER PRIMARY KEY, [CategoryName] NVARCHAR(15) NOT NULL UNIQUE,
                [Picture] BLOB);
            CREATE TABLE [Product] ([ProductId] INTEGER PRIMARY KEY, [ProductName] NVARCHAR(40) NOT NULL UNIQUE,
                [CategoryId] INTEGER NOT NULL REFERENCES [Category], [UnitPrice] NUMERIC(10, 2) NOT NULL,
                [UnitsInStock] SMALLINT NOT NULL CHECK ([UnitsInStock] >= 0),
                [Discontinued] BOOLEAN NOT NULL DEFAULT 0);
            CREATE TABLE [Order] ([OrderId] INTEGER PRIMARY KEY, [CustomerID] NCHAR(5) NOT NULL REFERENCES [Customer],
                [EmployeeId] INTEGER REFERENCES [Employee], [OrderDate] DATETIME NOT NULL, [RequiredDate] DATETIME,
                [ShippedDate] DATETIME, [Freight] NUMERIC(10, 2) NOT NULL DEFAULT 0);
            CREATE TABLE [Order Details] ([OrderId] INTEGER NOT NULL REFERENCES [Order],
                [ProductId] INTEGER NOT NULL REFERENCES [Product], [Quantity] SMALLINT NOT NULL DEFAULT 1,
                [UnitPrice] NUMERIC(10, 2) NOT NULL, PRIMARY KEY ([OrderId], [ProductId]), CHECK ([Quantity] > 0));
            CREATE VIEW [Sales] AS SELECT [OrderId], sum([UnitPrice] * [Quantity]) FROM [Order Details] GROUP BY 1;
        """)
        staff = [name.split() for name in people(rng, 9)]
        insert(connection, "Employee", [
            (i, last, first, rng.choice(["Sales Rep", "Manager", "Clerk"]), None if i == 1 else rng.randint(1, i - 1),
             f"{ago(500, 4000)} 00:00:00", f"{first}@shop.example".lower())
            for i, (first, last) in enumerate(staff, 1)
        ])  # fmt: skip
        names = people(rng, 90)
        keys = [f"{name.split()[0][:2]}{name.split()[1][:2]}{chr(65 + i % 26)}".upper() for i, name in enumerate(names)]
        customers = [
            (key, f"{name.split()[1]} Trading {i}", name, rng.choice(["Oslo", "Lima", "Kyoto", "Nairobi"]),
             rng.choice(["Norway", "Peru", "Japan", "Kenya"]), f"555-{rng.randint(1000, 9999)}", rng.randint(3, 9))
            for i, (key, name) in enumerate(dict(zip(keys, names, strict=True)).items())
        ]  # fmt: skip
        insert(connection, "Customer", customers)
        groups = ["Tea", "Coffee", "Cheese", "Bread", "Fruit", "Spices"]
        insert(connection, "Category", [(i, name, b"\x89PNG") for i, name in enumerate(groups, 1)])
        insert(connection, "Product", [
            (i, f"{rng.choice(LAST)}'s {groups[i % 6]} No. {i}", i % 6 + 1, round(rng.uniform(2, 60), 2),
             rng.randint(0, 120), int(rng.random() < 0.1))
            for i in range(1, 78)
        ])  # fmt: skip
        orders, lines = [], []
        for i in range(1, 501):
            ordered = datetime.date.fromisoformat(ago(0, 600))
            shipped = ordered + datetime.timedelta(rng.randint(1, 20))
            orders.append((
                i, rng.choice(customers)[0], rng.randint(3, 9), f"{ordered} 00:00:00",
                f"{ordered + datetime.timedelta(28)} 00:00:00", f"{shipped} 00:00:00" if shipped <= TODAY else None,
                round(rng.uniform(1, 90), 2),
            ))  # fmt: skip
            lines += [
                (i, p, rng.randint(1, 40), round(rng.uniform(2, 60), 2))
                for p in rng.sample(range(1, 78), rng.randint(1, 4))
            ]
        insert(connection, "Order", orders)
        insert(connection, "Order Details", lines)
        connection.commit()


def nasty(file: Path) -> None:
    """All that a schema may do to its reader, in one file."""
    rng = random.Random(11)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("""
            CREATE TABLE "select" ("from" INTEGER PRIMARY KEY, "group by" TEXT, "Größe (cm)" REAL, "class",
                "today" DATE, payload BLOB, big INTEGER, doubled REAL GENERATED ALWAYS AS ("Größe (cm)" * 2) VIRTUAL);
            CREATE TABLE [it's a "table"] (x TEXT, "X " TEXT, "select id" INTEGER, meta TEXT, Active INTEGER);
            CREATE TABLE "select ID log" (at INTEGER, "select_id" INTEGER, what TEXT);
            CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT, b_id INTEGER REFERENCES b(id));
            CREATE TABLE b (id INTEGER PRIMARY KEY, name TEXT NOT NULL, a_id INTEGER NOT NULL REFERENCES a(id));
            CREATE TABLE node (id TEXT PRIMARY KEY, parent_id TEXT REFERENCES node(id), label TEXT) WITHOUT ROWID;
            CREATE TABLE pairs (left_node TEXT, right_node TEXT, weight, PRIMARY KEY (left_node, right_node));
            CREATE TABLE empty_one (id INTEGER PRIMARY KEY, node_id TEXT REFERENCES node(id), "when" DATETIME NOT NULL);
            CREATE TABLE spellings (code TEXT, us TEXT, german TEXT, words TEXT, epoch_at INTEGER, mixed);
            CREATE TABLE readings (node_id TEXT, taken_at TEXT, value REAL);
            CREATE TABLE only_blobs (data BLOB);
            CREATE TABLE orphans (id INTEGER PRIMARY KEY, node_id TEXT REFERENCES node(id),
                gone_id INTEGER REFERENCES gone(id));
            CREATE VIEW leaky AS SELECT load_extension('x') FROM a;
            CREATE TRIGGER angry BEFORE INSERT ON pairs BEGIN SELECT 1; END;
            CREATE VIRTUAL TABLE notes USING fts5(body);
            CREATE INDEX late ON readings (lower(node_id));
        """)
        insert(connection, "notes", [("a note",), ("another",)])
        connection.executemany(
            'INSERT INTO "select" ("from", "group by", "Größe (cm)", "class", "today", payload, big) '
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(i, f"grp {i % 3}", i / 7 if i % 5 else None, f"c{i}\x07", f"2024-01-{i:02d}", b"\0\1", 2**60 + i)
             for i in range(1, 29)],
        )  # fmt: skip
        connection.executemany("INSERT INTO [it's a \"table\"] VALUES (?, ?, ?, ?, ?)", [
            (f"x{i}", "" if i % 4 == 0 else f"Y {{{i}}} \N{SNOWMAN}", rng.randint(1, 28), '{"k": [1, null]}', i % 2)
            for i in range(40)
        ])  # fmt: skip
        insert(connection, "select ID log", [(1704067200 + i * 5000, rng.randint(1, 28), "seen") for i in range(30)])
        insert(connection, "a", [(i, f"a {i}", i) for i in range(1, 21)])
        insert(connection, "b", [(i, f"b {i}", 21 - i) for i in range(1, 21)])
        insert(
            connection, "node", [(f"N{i:03d}", f"N{(i - 1) // 2:03d}" if i else None, f"node {i}") for i in range(60)]
        )
        insert(connection, "pairs", [(f"N{i:03d}", f"N{i + 1:03d}", rng.choice([i, i / 2, None])) for i in range(50)])
        insert(connection, "spellings", [
            (f"S{i}", f"{i % 12 + 1}/{i % 28 + 1}/2023", f"{i % 28 + 1}.{i % 12 + 1}.2023", f"{i % 28 + 1} March 2023",
             1680000000 + i * 86400, rng.choice([1, "one", 1.5]))
            for i in range(30)
        ])  # fmt: skip
        insert(connection, "readings", [
            (f"N{rng.randint(0, 59):03d}", f"2024-02-{rng.randint(1, 28):02d}T10:{i % 60:02d}:00Z", rng.uniform(-9, 9))
            for i in range(5 * MAX_ROWS)
        ])  # fmt: skip
        insert(connection, "only_blobs", [(b"x",)])
        insert(connection, "orphans", [(i, f"N{i:03d}" if i % 9 else "nowhere", i) for i in range(1, 41)])
        connection.commit()


DATABASES: dict[str, Callable[[Path], None]] = {"library": library, "shop": shop, "nasty": nasty}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The built domain of a database, made once."""
    return functools.cache(lambda name: made(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module")
def library_folder(folder_of: Callable[[str], Path]) -> Path:
    return folder_of("library")


@pytest.fixture(scope="module")
def library_domain(library_folder: Path) -> Domain:
    return load_domain(library_folder)


def made(name: str, place: Path, **options: Any) -> Path:
    """Make a database, a domain of it and what the domain needs."""
    DATABASES[name](place / f"{name}.db")
    domain_from_sqlite(place / f"{name}.db", place / "domain", **options)
    build_domain(place / "domain")
    return place / "domain"


# ------------------------------------------------------------------------------------------------- the three files


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("library", ["oracle", "verifier", "coverage"]),
        *(pytest.param(name, None, marks=pytest.mark.long, id=f"{name} in all") for name in DATABASES),
    ],
)
def test_an_external_file_becomes_a_domain_that_passes_the_checks(
    name: str, checks: list[str] | None, folder_of: Callable[[str], Path]
) -> None:
    folder = str(folder_of(name))
    report = check_environment(
        "ToolOrchestra-Custom-v0", domain=folder, checks=checks, random_episodes=300, hostile=200
    )
    found = {result.name: result for result in report.results}
    assert report.passed, report
    assert found["coverage"].verdict == "pass" or found["coverage"].counts["idle tools"] == 0
    verifier = found["verifier"].counts
    assert verifier["killed"] >= 0.995 * verifier["mutants"]
    assert verifier["accepted"] >= 0.995 * verifier["variants"]


@pytest.mark.long
def test_an_external_library_is_played(library_folder: Path) -> None:
    env = gym.make("ToolOrchestra-Custom-v0", domain=str(library_folder))
    for seed in range(20):
        info = play_episode(env, make_policy("oracle"), seed=seed, options={"split": "all"})
        assert info["outcome"] == "solved"
    env.close()


def test_the_library_has_the_tools_that_a_librarian_would_name(library_domain: Domain) -> None:
    tools = set(library_domain.spec.tools)
    assert {
        "get_loan", "find_loans_by_member", "find_book_by_title", "find_copy_by_barcode", "create_reservation",
        "cancel_reservation", "return_loan", "pay_fine", "waive_fine", "suspend_member", "update_loan_due_on",
        "add_book_author", "remove_book_author", "summarize_fines", "search_reservations", "find_staff_by_supervisor",
    } <= tools  # fmt: skip
    assert not {name for name in tools if name.startswith(("delete_", "remove_"))} - {"remove_book_author"}


def test_the_library_has_many_intents_at_all_levels(library_domain: Domain) -> None:
    tasks, intents = library_domain.tasks(), library_domain.spec.intents
    assert len(intents) >= 20
    assert {task.difficulty for task in tasks} == {1, 2, 3, 4, 5}
    assert sum(task.refuses for task in tasks) >= 20
    assert sum(task.branches for task in tasks) >= 40
    assert sum(len({call.name for call in task.reference_calls}) > 1 for task in tasks) >= len(tasks) / 2
    assert {task.split for task in tasks} == {"train", "test", "test_intents"}
    assert min(len(intent.instructions) for intent in intents.values()) >= 3
    assert not [task for task in tasks if "{" in task.instruction or "None" in task.instruction]


@pytest.fixture
def call_library(library_domain: Domain) -> Iterator[Callable[..., Any]]:
    session = library_domain.session()

    def call(name: str, **arguments: Any) -> Any:
        import msgspec

        tool = library_domain.tools[name]
        result = session.call(tool, tool.decode(msgspec.json.encode(arguments)))
        return result.value if result.status is Status.OK else result.error

    yield call
    session.close()


def test_a_rule_that_only_the_records_show_is_described_and_enforced(
    library_domain: Domain, call_library: Callable[..., Any]
) -> None:
    one = lambda sql: library_domain.database.base.execute(sql).fetchone()[0]  # noqa: E731 - a value of the records
    lent = one("SELECT copy_id FROM loans WHERE returned_on IS NULL")
    free = one("SELECT copy_id FROM copies WHERE copy_id NOT IN (SELECT copy_id FROM loans WHERE returned_on IS NULL)")
    good = one("SELECT member_id FROM members WHERE status = 'active'")
    bad = one("SELECT member_id FROM members WHERE status = 'suspended'")
    assert call_library("create_loan", copy_id=lent, member_id=good, due_on="2024-06-28") == (
        f"The copy {lent} has an open loan already."
    )
    assert (
        call_library("create_loan", copy_id=free, member_id=bad, due_on="2024-06-28")
        == f"The member {bad} is not active."
    )
    assert "this must hold" in call_library("create_loan", copy_id=free, member_id=good, due_on="2024-05-01")
    assert call_library("create_loan", copy_id=free, member_id=999, due_on="2024-06-28") == "There is no member 999."
    made = call_library("create_loan", copy_id=free, member_id=good, due_on="2024-06-28")
    assert (made["loaned_on"], made["returned_on"]) == ("2024-05-31", None)
    assert call_library("return_loan", loan_id=made["loan_id"])["returned_on"] == "2024-05-31"
    assert call_library("return_loan", loan_id=made["loan_id"]).endswith("is not open any more.")
    for rule in (
        "A copy has at most one open loan at a time.",
        "Only a member whose status is active can have a new loan.",
    ):
        assert rule in library_domain.rules


@pytest.mark.long
def test_sampled_records_are_new_and_like_the_old_ones(tmp_path: Path) -> None:
    folder = made("library", tmp_path, records="sample")
    domain = Domain(read_spec(folder), tasks=[])
    found = analyse_schema(tmp_path / "library.db").tables
    value = lambda sql: domain.database.base.execute(sql).fetchone()[0]  # noqa: E731
    assert domain.spec.tables["loans"].rows == []
    assert value("SELECT count(*) FROM loans") == found["loans"].size
    assert not {row[0] for row in domain.database.base.execute("SELECT email FROM members")} & set(
        found["members"].data["email"]
    )
    assert value("SELECT count(*) FROM loans WHERE due_on < loaned_on") == 0
    assert value("SELECT count(*) FROM fines JOIN loans USING (loan_id) WHERE fines.member_id <> loans.member_id") == 0
    share = found["members"].data["status"].count("active") / found["members"].size
    assert abs(value("SELECT avg(status = 'active') FROM members") - share) < 0.1
    assert value("SELECT max(loaned_on) FROM loans") <= max(found["loans"].data["loaned_on"])
    assert check_environment("ToolOrchestra-Custom-v0", checks=["oracle", "verifier"], domain=str(folder)).passed


def test_whatever_the_nasty_file_loses_is_noted(tmp_path: Path) -> None:
    nasty(tmp_path / "nasty.db")
    found = analyse_schema(tmp_path / "nasty.db")
    tables = found.tables
    assert set(tables["spellings"].data["us"]) == set(tables["spellings"].data["german"])
    assert all(value.startswith("2023-03-") for value in tables["spellings"].data["words"])
    assert tables["readings"].columns["node_id"].references == ("node", "node_id")
    assert tables["readings"].size == MAX_ROWS
    assert set(tables["readings"].data["node_id"]) <= set(tables["node"].data["node_id"])
    assert tables["node"].columns["parent_id"].references == ("node", "node_id")
    assert tables["pairs"].key == ("left_node", "right_node")
    assert tables["it_s_a_table"].columns["active"].kind == "flag"
    assert not {"notes", "notes_data", "leaky", "only_blobs"} & set(tables)
    notes = "\n".join(found.notes)
    for note in (
        f"Of the {5 * MAX_ROWS} rows of readings, {MAX_ROWS} were kept.",
        "The table 'only_blobs' holds nothing but BLOBs",
        "Computed columns of select were left out: doubled.",
        "refers in a circle",
        "4 rows of orphans refer to nothing",
        "has no primary key; its rows were numbered.",
    ):
        assert note in notes


@pytest.mark.parametrize("records", ["sample", pytest.param("keep", marks=pytest.mark.long)])
def test_the_same_file_gives_the_same_domain(records: Any, tmp_path: Path) -> None:
    shop(tmp_path / "shop.db")
    with contextlib.closing(
        sqlite3.connect(tmp_path / "shop.db")
    ) as connection:  # half is enough, and takes half as long
        connection.executescript('DROP VIEW Sales; DROP TABLE "Order Details"; DROP TABLE "Order"')
    before = (tmp_path / "shop.db").read_bytes()
    for name in ("one", "two"):
        domain_from_sqlite(tmp_path / "shop.db", tmp_path / name, records=records)
    for file in ("domain.yaml", "tools.yaml", "intents.yaml"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    assert (tmp_path / "shop.db").read_bytes() == before


# ------------------------------------------------------------------------------------------ keys of several columns


def clinic(file: Path) -> None:
    """A clinic whose two central tables have keys of several columns, and in which most appointments are done."""
    rng = random.Random(3)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript("""
            CREATE TABLE patient (id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, weight_kg REAL, ward TEXT);
            CREATE TABLE room (room_no INTEGER PRIMARY KEY, beds INTEGER);
            CREATE TABLE appointment (room_no INTEGER NOT NULL REFERENCES room, day DATE NOT NULL, time TEXT NOT NULL,
                patient_id INTEGER NOT NULL REFERENCES patient(id), status TEXT NOT NULL, doctor TEXT, fee REAL,
                PRIMARY KEY (room_no, day, time));
            CREATE TABLE prescription (patient_id INTEGER NOT NULL REFERENCES patient(id), number INTEGER NOT NULL,
                medicine TEXT NOT NULL, dose_mg INTEGER, PRIMARY KEY (patient_id, number));
            CREATE TABLE allergy (id INTEGER PRIMARY KEY, substance TEXT UNIQUE);
            CREATE TABLE patient_allergy (patient_id INTEGER REFERENCES patient(id),
                allergy_id INTEGER REFERENCES allergy(id), PRIMARY KEY (patient_id, allergy_id));
        """)
        insert(connection, "patient", [
            (i, name, round(rng.uniform(45, 110), 1), "A") for i, name in enumerate(people(rng, 60), 1)
        ])  # fmt: skip
        insert(connection, "room", [(i, rng.choice([1, 2, 4])) for i in range(1, 9)])
        slots = [(room, f"2025-03-{day:02d}", f"{hour:02d}:20") for room in range(1, 9) for day in range(1, 29)
                 for hour in rng.sample(range(8, 17), 1)]  # fmt: skip
        doctors = ["Adler", "Berg", "Costa", "Diaz"]
        insert(connection, "appointment", [
            (*slot, rng.randint(1, 60), rng.choices(["done", "planned", "cancelled"], [7, 2, 1])[0],
             rng.choice(doctors), rng.choice([40.0, 60.0, 85.5, 120.0])) for slot in slots
        ])  # fmt: skip
        medicines = ["Ibuprofen", "Metformin", "Lisinopril", "Omeprazole"]
        insert(connection, "prescription", [
            (patient, number, rng.choice(medicines), rng.choice([5, 10, 20, 50]))
            for patient in range(1, 61) for number in range(1, rng.randint(2, 5))
        ])  # fmt: skip
        insert(connection, "allergy", [(i, name) for i, name in enumerate(["latex", "nuts", "pollen", "eggs"], 1)])
        pairs = [(patient, allergy) for patient in range(1, 61) for allergy in rng.sample(range(1, 5), 2)]
        insert(connection, "patient_allergy", pairs)
        connection.commit()


@pytest.fixture(scope="module")
def clinic_domain(tmp_path_factory: pytest.TempPathFactory) -> Domain:
    place = tmp_path_factory.mktemp("clinic")
    clinic(place / "clinic.db")
    domain_from_sqlite(place / "clinic.db", place / "domain")
    return build_domain(place / "domain")


def test_rows_with_keys_of_several_columns_are_looked_up_changed_and_named_by_all_parts(clinic_domain: Domain) -> None:
    tools = clinic_domain.spec.tools
    expected = {"get_appointment", "cancel_appointment", "get_prescription", "find_patient_allergies_by_patient"}
    assert expected <= set(tools)
    assert list(tools["get_appointment"].parameters) == ["room_no", "day", "time"]
    asked = {task.intent: task for task in clinic_domain.tasks()}
    for intent, named in (
        ("ask_appointment_fee", r"the appointment of room \d on March \d+, 2025 at \d\d:20"),
        ("ask_prescription_dose_mg", r"the dose in mg of the prescription of patient \d+ with number \d"),
        ("cancel_appointment", r"the appointment of room \d on March \d+, 2025 at \d\d:20"),
    ):
        assert re.search(named, asked[intent].instruction + asked[intent].answer), asked[intent]


def test_each_rule_in_the_description_belongs_to_a_tool(clinic_domain: Domain, library_domain: Domain) -> None:
    assert "- Cancel an appointment only while its status is planned." in clinic_domain.rules
    for domain in (clinic_domain, library_domain):
        actions = {name.split("_")[0] for name in domain.spec.tools}
        told = re.findall(r"^- ([A-Z]\w+) an? .* only while", domain.spec.description, re.MULTILINE)
        assert told
        assert {action.lower() for action in told} <= actions


def test_no_task_states_its_answer_or_has_the_usual_one(clinic_domain: Domain) -> None:
    checks = reading_checks(clinic_domain)
    for check in checks.values():
        assert not any(check(clinic_domain.tasks()))
    assert not {name for name in clinic_domain.spec.intents if name.endswith(("_ward", "appointment_status"))}


# ------------------------------------------------------------------------------------------------------- mistakes


def test_a_folder_with_a_domain_is_not_overwritten(tmp_path: Path) -> None:
    shop(tmp_path / "shop.db")
    (tmp_path / "domain.yaml").write_text("name: mine\n")
    with pytest.raises(DomainError, match=r"there is a domain\.yaml in it"):
        domain_from_sqlite(tmp_path / "shop.db", tmp_path)
    assert (tmp_path / "domain.yaml").read_text() == "name: mine\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is none"),
        (b"", "it has none that can be read"),
        (b"not a database at all" * 99, "Expected a SQLite file that can be read"),
        (b"SQLite format 3\0" + b"\xff" * 4000, "Expected a SQLite file that can be read"),
    ],
)
def test_what_is_no_database_is_an_error(tmp_path: Path, content: bytes | None, message: str) -> None:
    file = tmp_path / "my.db"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DomainError, match=message):
        domain_from_sqlite(file, tmp_path / "domain")
    assert not (tmp_path / "domain").exists()


def test_a_database_without_records_is_an_error(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "my.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    with pytest.raises(DomainError, match="all of its tables are empty"):
        domain_from_sqlite(tmp_path / "my.db", tmp_path / "domain")


@pytest.mark.parametrize("before", [True, False], ids=["listed before it", "listed after it"])
def test_a_tables_checks_are_not_those_of_a_trigger_of_its_name(tmp_path: Path, before: bool) -> None:
    statements = [
        "CREATE TABLE t (a CHECK (a > 1))",
        "CREATE TRIGGER t AFTER INSERT ON {} BEGIN SELECT 'CHECK (b)'; END",
    ]
    with contextlib.closing(sqlite3.connect(tmp_path / "my.db")) as connection:
        connection.execute("CREATE TABLE other (a)")
        for statement in reversed(statements) if before else statements:
            connection.execute(statement.format("other" if before else "t"))
    assert [table.checks for table in read_sqlite(tmp_path / "my.db")] == [[], [["a", ">", "1"]]]


# ---------------------------------------------------------------------------------------------- any database

NAMES = st.sampled_from(
    ["id", "name", "Name", "order", "group", "a b", "parent_id", "item_id", "items", "status", "returned_at", "price",
     "e-mail", "Ünï", "x" * 70, "1st", "today", "is_open", "json", "note", "born", '"', "rowid", "class", "_", "-"]
)  # fmt: skip
DECLARED = st.sampled_from(
    ["", "INTEGER", "TEXT", "REAL", "DATE", "BOOLEAN", "DATETIME", "NUMERIC(10,2)", "BLOB", "odd type"]
)
CELLS = st.one_of(
    st.none(),
    st.integers(-(2**62), 2**62),
    st.integers(0, 5),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["open", "closed", "2024-02-30", "2024-01-05", "3/4/2024", "{}", "[1]", "'", "{x}", "done", ""]),
    st.binary(max_size=3),
)
ALIKE = [
    st.from_regex(pattern, fullmatch=True)
    for pattern in (
        r"[a-z]{1,3}[._]?[a-z0-9]{1,3}@[xy]\.example",
        r"https://x\.example(?:/[a-z0-9-]{1,3}){0,2}",
        r"[A-Z]{2}-?\d{1,4}",
        r"(?:0\d|1\d|2[0-3]):[0-5]\d",
        r"20\d\d-0[1-9]-[12]\d(?:T0\d:00:00(?:Z|\+02:00)?)?",
        r"[A-Z][a-z]{1,4}(?: [A-Z]?[a-z]{1,4}){0,2}",
        r"\+?[0-9]{3} [0-9]{2,5}",
    )
]


@st.composite
def databases(draw: st.DrawFn) -> list[tuple[str, list[str], list[tuple[Any, ...]]]]:
    """Tables: name, column definitions, rows."""
    tables = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique_by=str.lower)):
        columns = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
        quoted = [column.replace('"', '""') for column in columns]
        definitions = [f'"{column}" {draw(DECLARED)}' for column in quoted]
        keyed = draw(st.sampled_from(["none", "first", "all"]))
        if keyed == "first":
            definitions[0] += " PRIMARY KEY"
        elif keyed == "all":
            definitions.append("PRIMARY KEY (" + ", ".join(f'"{column}"' for column in quoted) + ")")
        column_cells = [
            draw(st.sampled_from([CELLS, st.integers(1, 9), st.sampled_from(["open", "returned", None]), *ALIKE]))
            for _ in columns
        ]
        rows = draw(st.lists(st.tuples(*column_cells), max_size=12))
        tables.append((name, definitions, rows))
    return tables


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(databases(), st.sampled_from(["keep", "sample"]))
def test_any_database_becomes_a_domain_that_builds_or_an_error_with_a_reason(
    tmp_path: Path, tables: list[tuple[str, list[str], list[tuple[Any, ...]]]], records: Any
) -> None:
    file, folder = tmp_path / "any.db", tmp_path / "any"
    file.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        for name, definitions, rows in tables:
            quoted = name.replace('"', '""')
            connection.execute(f'CREATE TABLE "{quoted}" ({", ".join(definitions)})')
            for row in rows:
                with contextlib.suppress(sqlite3.IntegrityError):  # a key that takes no text
                    connection.execute(f'INSERT OR IGNORE INTO "{quoted}" VALUES ({", ".join("?" * len(row))})', row)
        connection.commit()
    message = None
    try:
        domain_from_sqlite(file, folder, records=records)
    except DomainError as error:
        message = str(error)
    if message is None:
        assert build_domain(folder).tasks()
    else:
        assert re.search("Expected|expected", message), message
        assert not folder.exists()
