"""The connection test's steps at MariaDB and MySQL, over one connection.

One, because servers count connections that end before the login and block a machine
that makes many of them.
"""

from __future__ import annotations

import contextlib
import re

import pymysql

from catalog.sources.access import SourceAccess
from catalog.sources.mariadb import privileges as mariadb_needs
from catalog.sources.mariadb import statements as mariadb_sql
from catalog.sources.mariadb.clusters import membership_of
from catalog.sources.mariadb.connect import Link, log_in, new_link, statements
from catalog.sources.mariadb.discover import (
    described,
    filter_of,
    is_standby,
    log_doubts,
    log_lacks,
    sees_all_transactions,
)
from catalog.sources.mariadb.errors import source_error
from catalog.sources.mariadb.replicas import RIGHT_TO_ASK
from catalog.sources.steps import WITHOUT_TLS, Outcome, Steps, followable
from core.errors import SluiceError, TerminalError

OLDEST = {"MariaDB": (10, 5), "MySQL": (8, 0)}
VERSION = "SELECT VERSION(), @@GLOBAL.read_only"
# A sample is read from the first table among so many.
FIRST_NAMES = 100


class MariadbSteps(Steps):
    """See `Steps`."""

    errors = (SluiceError, pymysql.MySQLError, OSError)

    def __init__(self, access: SourceAccess, stack: contextlib.ExitStack) -> None:
        super().__init__(access, stack)
        self._link: Link | None = None
        self._refused: SluiceError | None = None

    def explained(self, error: Exception) -> SluiceError:
        return source_error(error, self.access)

    def tls(self) -> Outcome:
        """Logs in as well; whether that went is for the next step to say."""
        if self.access.tls == "off":
            return WITHOUT_TLS
        link = self._connected()
        if self._refused is not None and link.tls_version is None:
            raise self._refused
        checked = "checked" if self.access.tls == "verify" else "not checked"
        return Outcome(f"{link.tls_version}, certificate {checked}")

    def login(self) -> Outcome:
        self._connected()
        if self._refused is not None:
            raise self._refused
        database = self.access.database
        where = f", in database '{database}'" if database else ""
        return Outcome(f"user '{self.access.username}' is logged in{where}")

    def version(self) -> Outcome:
        with statements(self._connected(), self.access) as link:
            ((text, is_read_only),) = link.rows(VERSION)
            replicates = is_standby(link)
            is_member = membership_of(link.rows) is not None
        server = "MariaDB" if "mariadb" in text.lower() else "MySQL"
        self.facts |= {
            "server": server,
            "server_version": text,
            "is_standby": is_member or replicates or bool(is_read_only),
        }
        oldest = OLDEST[server]
        if _numbers(text) < oldest:
            raise TerminalError(
                f"{server} {text} is too old",
                code="version_too_old",
                hint=f"Sluice reads {server} {oldest[0]}.{oldest[1]} and later",
            )
        is_other = server.lower() != self.access.kind
        hint = (
            f"the server is {server}, the datasource's kind is {self.access.kind}; "
            "it is read all the same"
        )
        state = ", a replica" if replicates else ""
        state += ", one of several members of a cluster" if is_member else ""
        state += ", read-only" if is_read_only else ""
        hints = [hint] if is_other else []
        if replicates is None and not is_member:
            hints.append(
                f"whether the server is a replica cannot be seen ({RIGHT_TO_ASK}):"
                " timestamp capture takes it for a primary unless it is read-only"
            )
        return Outcome(f"{server} {text}{state}", "; ".join(hints))

    def privileges(self) -> Outcome:
        wanted = filter_of(self.access)
        with statements(self._connected(), self.access) as link:
            databases = [
                str(name) for (name,) in link.rows(mariadb_sql.DATABASES, wanted)
            ]
            ((total, readable),) = link.rows(mariadb_sql.READABLE, wanted)
            sees_all = sees_all_transactions(link)
            ((current,),) = link.rows("SELECT CURRENT_USER()")
        total, readable = int(total), int(readable or 0)
        self.facts |= {
            "tables": total,
            "readable_tables": readable,
            "sees_all_transactions": sees_all,
        }
        who = mariadb_needs.account(*str(current).rsplit("@", 1))
        grants = self._grants(who, databases)
        if not databases:
            raise _without_privilege(
                f"user '{self.access.username}' sees no database to read", grants
            )
        if total and not readable:
            raise _without_privilege(
                f"user '{self.access.username}' may read none of {total} tables", grants
            )
        hints = []
        if not total:
            # a database that everybody sees, such as `test`, is no grant
            hints.append(
                f"{who} sees no table: GRANT SELECT on what is to be synced, and test"
                " again"
            )
        if readable < total:
            hints.append(
                f"{total - readable} tables stay unreadable without more grants"
            )
        if not sees_all:
            hints.append(
                "timestamp capture cannot see open transactions of other users: "
                + mariadb_needs.process_grant(who)
            )
        return Outcome(f"{readable} of {total} tables can be read", "; ".join(hints))

    def log(self) -> Outcome:
        with statements(self._connected(), self.access) as link:
            lacks = log_lacks(link)
            doubts = () if lacks else log_doubts(link)
        self.facts["log_lacks"] = [[lack.reason, lack.statement] for lack in lacks]
        return followable(lacks, doubts)

    def sample(self) -> Outcome:
        bounds = {"after_schema": "", "after_table": "", "limit": FIRST_NAMES}
        values = {**filter_of(self.access), **bounds}
        with statements(self._connected(), self.access) as link:
            names = [(str(s), str(t)) for s, t in link.rows(mariadb_sql.NAMES, values)]
            tables = described(link, names)
            table = next(
                (t for t in tables if t.kind == "table" and t.is_readable), None
            )
            if table is None:
                return Outcome("there is no table to read yet", is_skipped=True)
            name = f"{_quoted(table.database)}.{_quoted(table.name)}"
            found = link.rows(f"SELECT 1 FROM {name} LIMIT 1")
        shown = f"{table.database}.{table.name} was read"
        return Outcome(shown + ("" if found else ", it is empty"))

    def _connected(self) -> Link:
        """The one connection, made when first asked for."""
        if self._link is not None:
            return self._link
        if self.socket is None:
            raise RuntimeError("this step needs the tcp step before it")
        self._link = new_link(self.access)
        self.stack.callback(self._link.leave)
        try:
            log_in(self._link, self.access, self.socket)
        except SluiceError as error:
            self._refused = error
        return self._link

    def _grants(self, who: str, databases: list[str]) -> tuple[str, ...]:
        named = (*self.access.include, *filter(None, [self.access.database]))
        return mariadb_needs.statements_for(who, databases or named or ["…"])


def _without_privilege(message: str, grants: tuple[str, ...]) -> TerminalError:
    return TerminalError(
        message,
        code="missing_privilege",
        hint="run at the source: " + " ".join(grants),
    )


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
