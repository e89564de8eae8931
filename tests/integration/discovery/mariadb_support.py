"""A MariaDB server that a datasource points to; its databases go after each test."""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass, field
from typing import Any

from catalog.models import Datasource
from catalog.secrets import encrypt
from catalog.sources.access import SourceAccess, access_for
from tests.integration.discovery.support import PASSWORD, READER
from tests.mariadb import MariaDbServer, quoted


@dataclass
class MariadbSource:
    """The server with databases of one test and a login that is granted what it says.

    name  the first database; empty, and the login may read it
    """

    server: MariaDbServer
    name: str = "shop"
    row: Datasource | None = None
    databases: list[str] = field(default_factory=list)

    def begin(self) -> None:
        with self.server.connect() as link, link.cursor() as cursor:
            # the server is everybody's: tests of other files leave databases there
            cursor.execute(
                "SELECT schema_name FROM information_schema.schemata"
                " WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema',"
                " 'performance_schema')"
            )
            left = [str(name) for (name,) in cursor.fetchall()]
        for name in left:
            self.server.drop_database(name)
        self.server.create_user(READER, PASSWORD)
        self.add_database(self.name)
        self.grant(f"SELECT ON {quoted(self.name)}.*")

    def add_database(self, name: str) -> None:
        self.server.create_database(name)
        self.databases.append(name)

    def run(self, *statements: str, database: str | None = None) -> None:
        self.server.run(*statements, database=database or self.name)

    def grant(self, *grants: str) -> None:
        self.server.run(*(f"GRANT {grant} TO {READER}@'%'" for grant in grants))

    def revoke_all(self) -> None:
        self.server.run(f"REVOKE ALL PRIVILEGES, GRANT OPTION FROM {READER}@'%'")

    def clear(self) -> None:
        for name in self.databases:
            self.server.drop_database(name)

    @property
    def datasource(self) -> Datasource:
        if self.row is None:
            self.row = Datasource.objects.create(
                name=f"s{uuid.uuid4().hex[:8]}",
                kind="mariadb",
                host=self.server.host,
                port=self.server.port,
                username=READER,
                secret=encrypt(PASSWORD),
            )
        return self.row

    def access(self, **changes: Any) -> SourceAccess:
        return dataclasses.replace(access_for(self.datasource), **changes)
