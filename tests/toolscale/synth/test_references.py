"""References of an external database: what is inferred and what is not, what a file says, and circles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.toolscale.synth.databases import written
from toolorchestra.toolscale.common.errors import DomainError
from toolorchestra.toolscale.domain_folder import build_domain
from toolorchestra.toolscale.synth.from_sqlite import domain_from_sqlite
from toolorchestra.toolscale.synth.tables.schema_analysis import SchemaAnalysis, analyse_schema

Rows = dict[str, list[tuple[Any, ...]]]


def references(found: SchemaAnalysis) -> dict[str, str]:
    """The references by column, such as ``{"orders.customer_id": "customers.customer_id"}``."""
    return {f"{t.name}.{c.name}": ".".join(c.target) for t in found.tables.values() for c in t.references}


SHOP = """
    CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE labels (id INTEGER PRIMARY KEY, label TEXT);
    CREATE TABLE branches (id INTEGER PRIMARY KEY, town TEXT);
    CREATE TABLE customer_ratings (id INTEGER PRIMARY KEY, stars INTEGER);
    CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, branch_id INTEGER, rating_id INTEGER,
        ordered_at_branch INTEGER, sort_label INTEGER, house_number INTEGER, late_customer_id INTEGER);
    CREATE TABLE houses (id INTEGER PRIMARY KEY, street TEXT);
"""
ROWS: Rows = {
    "customers": [(i, f"Ada {i}") for i in range(1, 91)],
    "labels": [(i, f"by {i}") for i in range(1, 91)],
    "branches": [(i, f"Town {i}") for i in range(1, 6)],
    "customer_ratings": [(i, i % 5 + 1) for i in range(1, 91)],
    "orders": [
        (i, i % 89 + 1, i % 5 + 1, i % 4 + 1, i % 5 + 1, i % 40 + 1, i % 60 + 1, i % 90 + 1 if i > 1 else 99)
        for i in range(1, 101)
    ],
    "houses": [(i, f"Street {i}") for i in range(1, 91)],
}


def test_a_reference_is_inferred_where_the_name_and_the_values_say_so(tmp_path: Path) -> None:
    found = analyse_schema(written(tmp_path / "my.db", SHOP, ROWS))
    assert references(found) == {
        "orders.customer_id": "customers.customer_id",
        "orders.branch_id": "branches.branch_id",  # few values, but the exact name, and all branches have orders
        "orders.late_customer_id": "customers.customer_id",  # 99 of 100
    }
    assert found.notes.of("inferred")[0] == (
        "orders.customer_id → customers.id: 100 of 100 values, 89 different; the name says so."
    )
    assert found.tables["orders"].size == 100  # no row goes for a reference that is only inferred
    assert found.tables["orders"].data["late_customer_id"].count(None) == 1


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("thing_id INTEGER PRIMARY KEY, town TEXT", "thing_id INTEGER PRIMARY KEY, name TEXT"),  # whole keys
        ("id INTEGER PRIMARY KEY, things INTEGER", "id TEXT PRIMARY KEY, name TEXT"),  # another type
        ("id INTEGER PRIMARY KEY, z_pk INTEGER", "id INTEGER PRIMARY KEY, z_pk INTEGER"),  # no key of theirs
        ("id INTEGER PRIMARY KEY, grade INTEGER", "id INTEGER PRIMARY KEY, name TEXT"),  # only numbers that fit
        ("id INTEGER PRIMARY KEY, main_thing INTEGER", "id INTEGER PRIMARY KEY, name TEXT"),  # might count things
        (
            "id INTEGER PRIMARY KEY, thing_number INTEGER",
            "id INTEGER PRIMARY KEY, name TEXT",
        ),  # numbers of another kind
    ],
)
def test_values_alone_and_whole_keys_are_no_references(tmp_path: Path, ours: str, theirs: str) -> None:
    schema = f"CREATE TABLE places ({ours}); CREATE TABLE things ({theirs});"
    rows: Rows = {"places": [(i, i) for i in range(1, 61)], "things": [(i, i) for i in range(1, 61)]}
    assert references(analyse_schema(written(tmp_path / "my.db", schema, rows))) == {}


def test_what_is_inferred_does_not_read_as_declared(tmp_path: Path) -> None:
    file = written(tmp_path / "my.db", SHOP, ROWS)
    domain_from_sqlite(file, tmp_path / "shop")
    text = (tmp_path / "shop" / "domain.yaml").read_text()
    assert "# Inferred from names and values, not declared in the file:\n# - orders.customer_id → customers.id" in text
    description = build_domain(tmp_path / "shop").spec.tables["orders"].columns["customer_id"].description
    assert "inferred" in description


# --------------------------------------------------------------------------------------------- a file of references


def corrected(tmp_path: Path, text: str, file: Path | None = None) -> SchemaAnalysis:
    (tmp_path / "references.yaml").write_text(text)
    file = file or written(tmp_path / "my.db", SHOP, ROWS)
    return analyse_schema(file, references_file=tmp_path / "references.yaml")


def test_a_file_adds_corrects_and_takes_away_references(tmp_path: Path) -> None:
    text = "ORDERS.rating_id: customer_ratings.id\norders.branch_id: null\norders.late_customer_id: null\n"
    assert references(corrected(tmp_path, text)) == {
        "orders.rating_id": "customer_ratings.customer_rating_id",
        "orders.customer_id": "customers.customer_id",
    }


LINES = """
    CREATE TABLE lines (order_no INTEGER, line INTEGER, what TEXT, PRIMARY KEY (order_no, line));
    CREATE TABLE returns (id INTEGER PRIMARY KEY, order_no INTEGER, line INTEGER, region TEXT REFERENCES regions(id));
    CREATE TABLE regions (id TEXT PRIMARY KEY, code TEXT UNIQUE);
"""
LINE_ROWS: Rows = {
    "lines": [(i, j, f"thing {i}") for i in range(1, 31) for j in range(1, 4)],
    "returns": [(i, i, i % 3 + 1, f"R{i % 4}") for i in range(1, 31)],
    "regions": [(f"R{i}", f"R{3 - i}") for i in range(4)],
}


def test_a_file_corrects_what_is_declared_and_gives_references_of_several_columns(tmp_path: Path) -> None:
    file = written(tmp_path / "my.db", LINES, LINE_ROWS)
    assert references(analyse_schema(file)) == {"returns.region": "regions.region_id"}
    found = corrected(tmp_path, '"returns.line, order_no": "lines.line, order_no"\nreturns.region: regions.code', file)
    assert references(found) == {"returns.region": "regions.code"}
    assert [(one.columns, one.target) for one in found.tables["returns"].composites] == [
        (("order_no", "line"), "lines")
    ]
    assert references(corrected(tmp_path, "returns.region: null", file)) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("orders.custmer_id: customers.id", r"Unknown column 'orders.custmer_id'. Did you mean 'orders.customer_id'"),
        ("orders.customer_id: customer.id", r"Unknown column 'customer.id'. Did you mean 'customers.id'"),
        ("orders.customer_id: customers.ids", r"Unknown column 'customers.ids'. Did you mean 'customers.id'"),
        ("orders.rating_id: orders.sort_label", "rows share what stands in orders.sort_label"),
        ("orders.house_number: branches.id", r"orders.house_number .* 91 of 100 values are not found there, such as 6"),
        ("orders.customer_id: [customers]", "Write it as docs/from_sqlite.md shows"),
        ('"orders.id, branch_id": "customers.id, name"', "no columns for each of its key, customer_id"),
    ],
)
def test_a_file_that_does_not_hold_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        corrected(tmp_path, text)


# ----------------------------------------------------------------------------------------------------------- circles


def cut(found: SchemaAnalysis) -> list[str]:
    return [note.partition(" refers in a circle")[0] for note in found.notes if "refers in a circle" in note]


STAFF = """
    CREATE TABLE store (store_id INTEGER PRIMARY KEY, manager_id INTEGER {manager} REFERENCES staff(staff_id));
    CREATE TABLE staff (staff_id INTEGER PRIMARY KEY, store_id INTEGER {store} REFERENCES store(store_id));
    CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, store_id INTEGER REFERENCES store(store_id));
    CREATE TABLE invoice (invoice_id INTEGER PRIMARY KEY, staff_id INTEGER REFERENCES staff(staff_id),
        customer_id INTEGER REFERENCES customer(customer_id));
"""


@pytest.mark.parametrize(
    ("staff", "manager", "store", "lost"),
    [
        (15, "", "", "store.manager_id"),  # 5 rows refer, not 15
        (5, "NOT NULL", "", "staff.store_id"),  # it may be missing
        (5, "", "NOT NULL", "store.manager_id"),
        (3, "", "", "staff.store_id"),
    ],
)
def test_of_references_in_a_circle_the_one_of_the_fewest_rows_is_cut(
    tmp_path: Path, staff: int, manager: str, store: str, lost: str
) -> None:
    rows: Rows = {
        "store": [(i, i % staff + 1) for i in range(1, 6)],
        "staff": [(i, i % 5 + 1) for i in range(1, staff + 1)],
        "customer": [(i, i % 5 + 1) for i in range(1, 31)],
        "invoice": [(i, i % staff + 1, i % 30 + 1) for i in range(1, 61)],
    }
    found = analyse_schema(written(tmp_path / "my.db", STAFF.format(manager=manager, store=store), rows))
    assert cut(found) == [lost]
    kept = {"customer.store_id", "invoice.staff_id", "invoice.customer_id", "store.manager_id", "staff.store_id"}
    assert set(references(found)) == kept - {lost}
    order = list(found.tables)
    assert all(order.index(to.split(".")[0]) < order.index(c.split(".")[0]) for c, to in references(found).items())


def test_circles_that_share_a_reference_lose_no_more_than_they_must(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE a (a_id INTEGER PRIMARY KEY, b_id INTEGER REFERENCES b(b_id));
        CREATE TABLE b (b_id INTEGER PRIMARY KEY, a_id INTEGER REFERENCES a(a_id), c_id INTEGER REFERENCES c(c_id));
        CREATE TABLE c (c_id INTEGER PRIMARY KEY, a_id INTEGER REFERENCES a(a_id), other_id INTEGER REFERENCES a(a_id));
    """
    sparse = lambda i: i if i < 3 else None  # noqa: E731
    rows: Rows = {
        "a": [(i, i if i < 5 else None) for i in range(1, 11)],
        "b": [(i, i, sparse(i)) for i in range(1, 11)],
        "c": [(i, i, i) for i in range(1, 11)],
    }
    assert cut(analyse_schema(written(tmp_path / "my.db", schema, rows))) == [
        "a.b_id"
    ]  # and not b.c_id, which has fewer rows


def test_a_reference_of_several_columns_is_cut_like_any_other(tmp_path: Path) -> None:
    schema = """
        CREATE TABLE lines (order_no INTEGER, line INTEGER, label_id TEXT REFERENCES labels,
            PRIMARY KEY (order_no, line));
        CREATE TABLE labels (label_id TEXT PRIMARY KEY, order_no INTEGER, line INTEGER,
            FOREIGN KEY (order_no, line) REFERENCES lines);
    """
    rows: Rows = {
        "lines": [(i, j, f"L{i}") for i in range(1, 21) for j in (1, 2)],
        "labels": [(f"L{i}", i, 1) for i in range(1, 21)],
    }
    found = analyse_schema(written(tmp_path / "my.db", schema, rows))
    assert cut(found) == ["labels(order_no, line)"]
    assert references(found) == {"lines.label_id": "labels.label_id"}
    assert not found.tables["labels"].composites
    assert found.tables["labels"].columns["line"].kind == "number"


TREE = """
    CREATE TABLE node (node_id INTEGER PRIMARY KEY, parent_id INTEGER {null} REFERENCES node(node_id),
        spare_id INTEGER REFERENCES node(node_id));
"""


@pytest.mark.parametrize(
    ("null", "circles", "kept"),
    [("", 1, True), ("", 20, False), ("NOT NULL", 1, False)],
    ids=["one value", "too many values", "one that must be there"],
)
def test_a_circle_of_rows_costs_a_value_or_its_column(tmp_path: Path, null: str, circles: int, kept: bool) -> None:
    parents = {i: max(1, i // 2) for i in range(1, 101)}
    for i in range(circles):
        parents[2 * i + 40], parents[2 * i + 41] = 2 * i + 41, 2 * i + 40
    rows: Rows = {"node": [(i, parent, i - 1 if i > 1 else None) for i, parent in parents.items()]}
    found = analyse_schema(written(tmp_path / "my.db", TREE.format(null=null), rows))
    wanted = {"node.parent_id", "node.spare_id"} if kept else {"node.spare_id"}
    assert set(references(found)) == wanted
    node = found.tables["node"]
    assert node.data["parent_id"].count(None) == (1 if kept else 0)
    place = {key: i for i, key in enumerate(node.data["node_id"])}
    for column in node.references:  # every row after those that it refers to
        assert all(v is None or place[v] <= i for i, v in enumerate(node.data[column.name]))
