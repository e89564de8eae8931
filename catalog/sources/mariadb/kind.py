"""What MariaDB and MySQL declare as kinds of source. Pure."""

from __future__ import annotations

from dataclasses import replace

from catalog.sources.kinds import Family, SourceKind
from catalog.sources.mariadb import privileges, types

MARIADB = SourceKind(
    name="mariadb",
    title="MariaDB",
    default_port=3306,
    folder="catalog.sources.mariadb",
    family=Family("mariadb", "MariaDB, MySQL"),
    types=types,
    privileges=privileges,
    database_means="database that the login lands in; empty = none. All databases are"
    " read",
    needs_database=False,
    shares_snapshots=False,
    hides_role=True,
)
MYSQL = replace(MARIADB, name="mysql", title="MySQL")
