"""How to reach a source: typed facts, one name resolution under the network policy.

A name is resolved once and only the addresses that passed are ever connected to.
No URL, driver property or environment variable of a client takes part.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import dataclass, field

from django.conf import settings

from catalog.models import Datasource
from catalog.networks import check_host, require_allowed
from catalog.secrets import password_of
from core.errors import SluiceError, TerminalError, TransientError
from core.sentences import Sentence

DEFAULT_STATEMENT_SECONDS = 20
# Seconds. A page and its connection must end well within the limit of a task.
LONGEST_STATEMENT = 25
HANG_UP_AFTER = 5


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Everything a connection needs. Timeouts in seconds.

    include / exclude  schemas to discover; empty include = all
    denied             networks it may not point to, CIDR
    application        what the source sees as the name of the session
    """

    host: str
    port: int
    database: str
    username: str
    password: str = field(repr=False)
    tls: str = "off"
    connect_timeout: int = 10
    statement_timeout: int = DEFAULT_STATEMENT_SECONDS
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    kind: str = field(kw_only=True)
    application: str = "sluice:discovery"

    @property
    def place(self) -> dict[str, object]:
        """For error texts; without the password."""
        return {
            "host": self.host,
            "port": self.port,
            "database": self.database,
            "username": self.username,
        }


def access_for(datasource: Datasource, *, job: object = "discovery") -> SourceAccess:
    """The access of a stored datasource, its password decrypted. `job`: by whose id the
    source sees the session. TransientError `password_lost` until it is given again."""
    if datasource.needs_password:
        raise TransientError(
            "the password of %(datasource)s was lost with the metadata database",
            path=f"/api/v1/datasources/{datasource.name}",
            datasource=datasource.name,
            code="password_lost",
            hint="enter it again: on the page of the datasource, or by PATCH %(path)s",
        )
    options = datasource.options
    return SourceAccess(
        host=datasource.host,
        port=datasource.port,
        database=datasource.database,
        username=datasource.username,
        password=password_of(datasource),
        tls=datasource.tls,
        connect_timeout=options.get("connect_timeout_seconds") or 10,
        statement_timeout=options.get("statement_timeout_seconds")
        or DEFAULT_STATEMENT_SECONDS,
        include=tuple(options.get("include_databases", ())),
        exclude=tuple(options.get("exclude_databases", ())),
        denied=tuple(settings.SLUICE_SOURCE_NETWORKS_DENIED),
        kind=datasource.kind,
        application=f"sluice:{job}",
    )


def resolved(access: SourceAccess) -> tuple[str, ...]:
    """The addresses of the host, all of them allowed; SluiceError otherwise.

    One denied address among several refuses the name: which one a later look-up
    would give is not ours to choose.
    """
    host = check_host(access.host, access.denied)
    addresses = _looked_up(host, access.port, access.connect_timeout)
    for address in addresses:
        require_allowed(address, access.denied)
    return addresses


def _looked_up(host: str, port: int, seconds: float) -> tuple[str, ...]:
    """getaddrinfo, which has no time-out of its own, on a thread we may abandon."""
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        pass
    outcome: list[tuple[str, ...] | OSError] = []

    def look_up() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            outcome.append(error)
        else:
            outcome.append(tuple(dict.fromkeys(str(entry[4][0]) for entry in found)))

    thread = threading.Thread(target=look_up, name="resolve", daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TransientError(
            "the name '%(host)s' could not be resolved within %(seconds)s s",
            host=host,
            seconds=f"{seconds:g}",
            code="resolve_timeout",
            hint="check the name servers of this machine",
        )
    if isinstance(outcome[0], OSError):
        raise _unknown_host(host, outcome[0])
    return outcome[0]


def _unknown_host(host: str, error: OSError) -> SluiceError:
    kind = TransientError if error.errno == socket.EAI_AGAIN else TerminalError
    return kind(
        Sentence("the host name '%(host)s' is not known", host=host),
        code="unknown_host",
        hint="check the spelling, or give the full name or an IP address",
        facts={"raw": str(error)},
    )
