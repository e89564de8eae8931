"""A PostgreSQL server that plays sources, for tests, benches and campaigns.

Must not import conftest, which takes the settings of a run away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql


@dataclass(frozen=True)
class SourceServer:
    """A PostgreSQL server that plays sources. `dsn` is its superuser's."""

    host: str
    port: int
    username: str
    password: str

    def dsn(self, database: str = "postgres") -> str:
        secret = quote(self.password, safe="")
        return (
            f"postgresql://{self.username}:{secret}@{self.host}:{self.port}/{database}"
        )

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn(database), autocommit=True)

    def create_database(
        self, name: str, *, like: str = "template1", encoding: str = ""
    ) -> str:
        """A new database, empty or a copy of `like`; its DSN. encoding: another one
        than the server's, of `template0`."""
        with self.connect() as link:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            link.execute(drop.format(sql.Identifier(name)))
            # its files as they are: by default each page goes through the log, which
            # costs the server twice as much and whoever follows that log, too
            create = "CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY"
            if encoding:
                create += f" ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
            made = sql.SQL(create).format(sql.Identifier(name), sql.Identifier(like))
            link.execute(made)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        with self.connect() as link:
            drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            link.execute(drop.format(sql.Identifier(name)))

    def create_user(self, name: str, password: str, options: str = "") -> None:
        with self.connect() as link:
            exists = link.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = %s", [name]
            ).fetchone()
            verb = "ALTER" if exists else "CREATE"
            link.execute(
                sql.SQL(f"{verb} ROLE {{}} LOGIN {options} PASSWORD {{}}").format(
                    sql.Identifier(name), sql.Literal(password)
                )
            )
