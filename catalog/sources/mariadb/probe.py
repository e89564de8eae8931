"""The connection test's steps at MariaDB and MySQL, over one connection.

One, because servers count connections that end before the login and block a machine
that makes many of them.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

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
from catalog.sources.steps import (
    NOTHING_TO_READ,
    WITHOUT_TLS,
    Outcome,
    Steps,
    followable,
    readable_of,
    sampled,
    secured,
    too_old,
    without_privilege,
)
from core.errors import SluiceError
from core.sentences import AND, Sentence, joined

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
        return secured(str(link.tls_version), self.access.tls)

    def login(self) -> Outcome:
        self._connected()
        if self._refused is not None:
            raise self._refused
        user, database = self.access.username, self.access.database
        if not database:
            return Outcome(Sentence("user '%(user)s' is logged in", user=user))
        return Outcome(
            Sentence(
                "user '%(user)s' is logged in, in database '%(database)s'",
                user=user,
                database=database,
            )
        )

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
            raise too_old(f"{server} {text}", f"{server} {oldest[0]}.{oldest[1]}")
        states = [
            Sentence("a replica") if replicates else "",
            Sentence("one of several members of a cluster") if is_member else "",
            Sentence("read-only") if is_read_only else "",
        ]
        hints = []
        if server.lower() != self.access.kind:
            hints.append(
                Sentence(
                    "the server is %(server)s, the datasource's kind is %(kind)s; it is"
                    " read all the same",
                    server=server,
                    kind=self.access.kind,
                )
            )
        if replicates is None and not is_member:
            hints.append(
                Sentence(
                    "whether the server is a replica cannot be seen (%(right)s):"
                    " timestamp capture takes it for a primary unless it is read-only",
                    right=RIGHT_TO_ASK,
                )
            )
        return Outcome(joined([f"{server} {text}", *states], AND), joined(hints))

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
            raise without_privilege(
                Sentence(
                    "user '%(user)s' sees no database to read",
                    user=self.access.username,
                ),
                grants,
            )
        found = readable_of(
            total,
            readable,
            user=self.access.username,
            grants=grants,
            missing=mariadb_needs.read_grants(who, databases),
            stats_grant="" if sees_all else mariadb_needs.process_grant(who),
        )
        if total:
            return found
        # a database that everybody sees, such as `test`, is no grant
        nothing = Sentence(
            "%(who)s sees no table: GRANT SELECT on what is to be synced, and test"
            " again",
            who=who,
        )
        return replace(found, hint=joined([nothing, found.hint]))

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
                return NOTHING_TO_READ
            name = ".".join(map(mariadb_needs.quoted, (table.database, table.name)))
            found = link.rows(f"SELECT 1 FROM {name} LIMIT 1")
        shown = f"{table.database}.{table.name}"
        return sampled(shown, has_rows=bool(found))

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


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)
