"""How a job reaches the servers that play sources in tests, without a proxy or a name."""

from __future__ import annotations

from urllib.parse import unquote, urlparse

from ingest.contract.table import SourceSpec
from ingest.sources.port import SourceAccess
from tests.mariadb import MariaDbServer

APPLICATION = "sluice:test"
SECRET = "datasource:1"


def postgresql_at(dsn: str, *, application: str = APPLICATION) -> SourceAccess:
    """As the user and to the database of the DSN."""
    at = urlparse(dsn)
    place = at.hostname or "", at.port or 0, at.path.strip("/"), at.username or ""
    spec = SourceSpec(1, "postgresql", *place, SECRET)
    return SourceAccess(spec, unquote(at.password or ""), application)


def mariadb_at(
    server: MariaDbServer,
    username: str = "",
    password: str = "",
    *,
    application: str = APPLICATION,
) -> SourceAccess:
    """As this user, or as the server's administrator."""
    if not username:
        username, password = server.username, server.password
    spec = SourceSpec(1, "mariadb", server.host, server.port, "", username, SECRET)
    return SourceAccess(spec, password, application)
