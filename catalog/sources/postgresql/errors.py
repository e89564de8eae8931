"""What went wrong at a PostgreSQL source, in clear words with the next step."""

from __future__ import annotations

import psycopg

from catalog.sources.access import SourceAccess
from catalog.sources.errors import (
    CERTIFICATE,
    LOCKED,
    LOST,
    MISSING_PRIVILEGE,
    REFUSED,
    TLS_NOT_OFFERED,
    UNREACHABLE,
    Known,
    SourceMessage,
    explained,
    find,
)
from core.errors import SluiceError, TerminalError, TransientError
from core.redaction import redact
from core.sentences import Sentence

_KNOWN = (
    Known(
        "wrong_password",
        TerminalError,
        ("28P01",),
        r"password authentication failed|role \".*\" does not exist"
        r"|no password supplied",
        Sentence("the server refused the login of user '%(username)s'"),
        Sentence("check user name and password, then set the password again"),
    ),
    Known(
        "login_not_allowed",
        TerminalError,
        ("28000",),
        r"no pg_hba\.conf entry|pg_hba\.conf rejects|not permitted to log in"
        r"|Ident authentication failed|Peer authentication failed",
        Sentence("the server does not let user '%(username)s' in from here"),
        Sentence(
            "ask the server's administrator for a pg_hba.conf line for this user, "
            "database and address; a server may demand TLS"
        ),
    ),
    Known(
        "database_missing",
        TerminalError,
        ("3D000",),
        r"database \".*\" does not exist",
        Sentence("there is no database '%(database)s' on %(host)s:%(port)s"),
        Sentence("check the database name; upper and lower case count"),
    ),
    Known(
        "too_many_connections",
        TransientError,
        ("53300",),
        r"too many (clients|connections)|remaining connection slots",
        Sentence("%(host)s:%(port)s has no free connection"),
        Sentence(
            "lower max_parallel_reads, or raise the limit of the user or the server"
        ),
    ),
    Known(
        "source_starting",
        TransientError,
        ("57P03",),
        r"the database system is (starting up|shutting down|in recovery)"
        r"|not accepting connections",
        Sentence("%(host)s:%(port)s is starting or stopping"),
        Sentence("wait until the server is up; it is tried again automatically"),
    ),
    TLS_NOT_OFFERED.at((), r"server does not support SSL"),
    Known(
        "not_postgresql",
        TerminalError,
        (),
        r"invalid response to SSL negotiation|unexpected response from server"
        r"|WRONG_VERSION_NUMBER"
        r"|expected authentication request|received invalid",
        Sentence("%(host)s:%(port)s does not speak PostgreSQL's protocol"),
        Sentence("check the port: another kind of server answers there"),
    ),
    CERTIFICATE.at((), r"certificate|SSL error|root\.crt"),
    MISSING_PRIVILEGE.at(("42501",), r"permission denied"),
    LOCKED.at(("55P03",), r"lock timeout"),
    Known(
        "source_timeout",
        TransientError,
        ("57014",),
        r"statement timeout|timeout expired|timed out",
        Sentence("%(host)s:%(port)s did not answer in time"),
        Sentence(
            "the server may be busy, or a firewall drops packets: try again, or raise "
            "connect_timeout_seconds or statement_timeout_seconds"
        ),
    ),
    REFUSED,
    UNREACHABLE,
    LOST.at(
        ("57P01", "57P02", "08006", "08003", "08000", "25P03", "25P04", "57P05"),
        r"server closed the connection|connection (is )?(closed|lost)"
        r"|terminating connection|Connection reset|Broken pipe|EOF detected",
    ),
)


def source_error(error: Exception, access: SourceAccess) -> SluiceError:
    """The clear form of an error of psycopg, ssl or a socket."""
    if isinstance(error, SluiceError):
        return error
    raw = redact(str(error).strip())[:1_000]
    state = (error.sqlstate if isinstance(error, psycopg.Error) else None) or ""
    may_pass = isinstance(error, OSError | psycopg.OperationalError)
    return explained(
        find(_KNOWN, state, raw), access, SourceMessage(raw, state, may_pass)
    )
