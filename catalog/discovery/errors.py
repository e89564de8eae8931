"""What went wrong at a source, in clear words with the next step.

The class tells the way to recovery: TransientError = try again later,
TerminalError = somebody must act. The source's own text stays in `facts["raw"]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from catalog.discovery.access import SourceAccess
from core.errors import SluiceError, TerminalError, TransientError
from core.redaction import redact


@dataclass(frozen=True, slots=True)
class Known:
    """sqlstates (or numbers) and English texts that mean the same.

    Errors before the login carry no SQLSTATE, only the server's words: libpq keeps
    the state to itself, and `lc_messages` is neither a plain user's to set nor read
    before the login. A server that speaks another language is told `source_error`
    with its own words.
    """

    code: str
    kind: type[SluiceError]
    states: tuple[str, ...]
    text: str
    message: str
    hint: str


REFUSED = Known(
    "connection_refused",
    TransientError,
    (),
    r"Connection refused",
    "nothing listens on {host}:{port}",
    "check host and port, and that the server runs and listens on this address",
)
UNREACHABLE = Known(
    "unreachable",
    TransientError,
    (),
    r"No route to host|Network is unreachable|Host is down",
    "{host}:{port} cannot be reached from here",
    "check the address, routes and firewalls between here and there",
)
_KNOWN = (
    Known(
        "wrong_password",
        TerminalError,
        ("28P01",),
        r"password authentication failed|role \".*\" does not exist"
        r"|no password supplied",
        "the server refused the login of user '{username}'",
        "check user name and password, then set the password again",
    ),
    Known(
        "login_not_allowed",
        TerminalError,
        ("28000",),
        r"no pg_hba\.conf entry|pg_hba\.conf rejects|not permitted to log in"
        r"|Ident authentication failed|Peer authentication failed",
        "the server does not let user '{username}' in from here",
        "ask the server's administrator for a pg_hba.conf line for this user, "
        "database and address; a server may demand TLS",
    ),
    Known(
        "database_missing",
        TerminalError,
        ("3D000",),
        r"database \".*\" does not exist",
        "there is no database '{database}' on {host}:{port}",
        "check the database name; upper and lower case count",
    ),
    Known(
        "too_many_connections",
        TransientError,
        ("53300",),
        r"too many (clients|connections)|remaining connection slots",
        "{host}:{port} has no free connection",
        "lower max_parallel_reads, or raise the limit of the user or the server",
    ),
    Known(
        "source_starting",
        TransientError,
        ("57P03",),
        r"the database system is (starting up|shutting down|in recovery)"
        r"|not accepting connections",
        "{host}:{port} is starting or stopping",
        "wait until the server is up; it is tried again by itself",
    ),
    Known(
        "tls_not_offered",
        TerminalError,
        (),
        r"server does not support SSL",
        "{host}:{port} does not offer TLS",
        "switch TLS on at the server, or set tls to 'off' on a network you trust",
    ),
    Known(
        "not_postgresql",
        TerminalError,
        (),
        r"invalid response to SSL negotiation|unexpected response from server"
        r"|WRONG_VERSION_NUMBER"
        r"|expected authentication request|received invalid",
        "{host}:{port} does not speak PostgreSQL's protocol",
        "check the port: another kind of server answers there",
    ),
    Known(
        "tls_certificate",
        TerminalError,
        (),
        r"certificate|SSL error|root\.crt",
        "the TLS certificate of {host}:{port} was not accepted",
        "tls 'verify' needs a certificate for this host name from an authority this "
        "machine trusts (SSL_CERT_FILE names others); 'require' encrypts only",
    ),
    Known(
        "missing_privilege",
        TerminalError,
        ("42501",),
        r"permission denied",
        "user '{username}' may not do this at the source",
        "run the statements of 'what this user needs' at the source",
    ),
    Known(
        "source_locked",
        TransientError,
        ("55P03",),
        r"lock timeout",
        "a lock at the source was not released in time",
        "wait for the other session to finish; it is tried again by itself",
    ),
    Known(
        "source_timeout",
        TransientError,
        ("57014",),
        r"statement timeout|timeout expired|timed out",
        "{host}:{port} did not answer in time",
        "the server may be busy, or a firewall drops packets: try again, or raise "
        "connect_timeout_seconds or statement_timeout_seconds",
    ),
    REFUSED,
    UNREACHABLE,
    Known(
        "connection_lost",
        TransientError,
        ("57P01", "57P02", "08006", "08003", "08000", "25P03"),
        r"server closed the connection|connection (is )?(closed|lost)"
        r"|terminating connection|Connection reset|Broken pipe|EOF detected",
        "the connection to {host}:{port} was lost",
        "it is tried again by itself, from where it stopped",
    ),
)


def source_error(error: Exception, access: SourceAccess) -> SluiceError:
    """The clear form of an error of psycopg, ssl or a socket."""
    if isinstance(error, SluiceError):
        return error
    raw = redact(str(error).strip())[:1_000]
    state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
    may_pass = isinstance(error, OSError | psycopg.OperationalError)
    return in_words(find(_KNOWN, state, raw), access, Said(raw, state, may_pass))


@dataclass(frozen=True, slots=True)
class Said:
    """What the source answered. `may_pass`: unknown words are worth another try."""

    raw: str
    state: str
    may_pass: bool


def in_words(found: Known | None, access: SourceAccess, said: Said) -> SluiceError:
    """The known error, or the source's own first line when it is not known."""
    facts = {"raw": said.raw, "sqlstate": said.state}
    if found is not None:
        message = found.message.format(**access.place)
        return found.kind(message, code=found.code, hint=found.hint, facts=facts)
    kind = TransientError if said.may_pass else TerminalError
    return kind(
        f"{access.host}:{access.port} answered with an error: {_first_line(said.raw)}",
        code="source_error",
        hint="see the server's own words; its log may tell more",
        facts=facts,
    )


def find(known: Sequence[Known], state: str, raw: str) -> Known | None:
    """By state first: words may be in any language."""
    for one in known:
        if state and state in one.states:
            return one
    for one in known:
        if one.text and re.search(one.text, raw, re.IGNORECASE):
            return one
    return None


def _first_line(raw: str) -> str:
    return raw.partition("\n")[0].removeprefix("connection failed: ")[:300]
