"""What went wrong at a source, in clear words with the next step.

The class tells the way to recovery: TransientError = try again later,
TerminalError = a person must act. The source's own text stays in `facts["raw"]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from catalog.sources.access import SourceAccess
from core.errors import SluiceError, TerminalError, TransientError
from core.sentences import Sentence


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
    message: Sentence
    hint: Sentence

    def at(self, states: tuple[str, ...], text: str) -> Known:
        """The same of a server that tells it by these."""
        return replace(self, states=states, text=text)


# What servers of every kind tell, each by states and words of its own.
TLS_NOT_OFFERED = Known(
    "tls_not_offered",
    TerminalError,
    (),
    "",
    Sentence("%(host)s:%(port)s does not offer TLS"),
    Sentence("switch TLS on at the server, or set tls to 'off' on a network you trust"),
)
CERTIFICATE = Known(
    "tls_certificate",
    TerminalError,
    (),
    "",
    Sentence("the TLS certificate of %(host)s:%(port)s was not accepted"),
    Sentence(
        "tls 'verify' needs a certificate for this host name from an authority "
        "this machine trusts (SSL_CERT_FILE names others); 'require' encrypts only"
    ),
)
MISSING_PRIVILEGE = Known(
    "missing_privilege",
    TerminalError,
    (),
    "",
    Sentence("user '%(username)s' may not do this at the source"),
    Sentence("run the statements of 'what this user needs' at the source"),
)
LOCKED = Known(
    "source_locked",
    TransientError,
    (),
    "",
    Sentence("a lock at the source was not released in time"),
    Sentence("wait for the other session to finish; it is tried again automatically"),
)
LOST = Known(
    "connection_lost",
    TransientError,
    (),
    "",
    Sentence("the connection to %(host)s:%(port)s was lost"),
    Sentence("it is tried again automatically, from where it stopped"),
)
# What sockets tell.
REFUSED = Known(
    "connection_refused",
    TransientError,
    (),
    r"Connection refused",
    Sentence("nothing listens on %(host)s:%(port)s"),
    Sentence(
        "check host and port, and that the server runs and listens on this address"
    ),
)
UNREACHABLE = Known(
    "unreachable",
    TransientError,
    (),
    r"No route to host|Network is unreachable|Host is down",
    Sentence("%(host)s:%(port)s cannot be reached from here"),
    Sentence("check the address, routes and firewalls between here and there"),
)


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """What the source answered. `may_pass`: unknown words are worth another try."""

    raw: str
    state: str
    may_pass: bool


def explained(
    found: Known | None, access: SourceAccess, given: SourceMessage
) -> SluiceError:
    """The known error, or the source's own first line when it is not known."""
    facts = {"raw": given.raw, "sqlstate": given.state}
    if found is not None:
        message = Sentence(found.message.message, **access.place)
        return found.kind(message, code=found.code, hint=found.hint, facts=facts)
    kind = TransientError if given.may_pass else TerminalError
    return kind(
        Sentence(
            "%(host)s:%(port)s answered with an error: %(text)s",
            host=access.host,
            port=access.port,
            text=_first_line(given.raw),
        ),
        code="source_error",
        hint=Sentence("see the server's own words; its log may tell more"),
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
