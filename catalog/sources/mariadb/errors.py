"""What went wrong at a MariaDB or MySQL source, in clear words with the next step.

Known by the server's error numbers: its message may be in any language.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import replace

import pymysql

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
from core.sentences import Sentence, as_sentence, joined

_CLIENT = re.compile(r"Access denied for user .*'@'([^']+)' \(using password")
_WITHOUT_TLS = Sentence(
    "check user name and password, then set the password again; a user who must use "
    "TLS (REQUIRE SSL) is refused in the same way while tls is 'off'"
)
_KNOWN = (
    Known(
        "wrong_password",
        TerminalError,
        ("1045", "1698"),
        r"Access denied for user .*using password",
        Sentence("the server refused the login of user '%(username)s'"),
        Sentence(
            "check user name and password, then set the password again; who may log in "
            "from where is in the name: 'user'@'host'"
        ),
    ),
    Known(
        "login_not_allowed",
        TerminalError,
        ("1130", "3118", "1820", "1862", "3955", "4150", "4151"),
        r"is not allowed to connect|Account is locked|password has expired",
        Sentence("the server does not let user '%(username)s' in from here"),
        Sentence(
            "ask the server's administrator: the user may be allowed from other hosts "
            "only, be locked, or have to change the password"
        ),
    ),
    Known(
        "host_blocked",
        TerminalError,
        ("1129",),
        r"is blocked because of many connection errors",
        Sentence("%(host)s:%(port)s blocks this machine after many broken connections"),
        Sentence(
            "ask the server's administrator to run FLUSH HOSTS, and raise "
            "max_connect_errors if a health check connects without logging in"
        ),
    ),
    Known(
        "tls_required",
        TerminalError,
        ("3159",),
        r"insecure transport",
        Sentence("%(host)s:%(port)s takes connections with TLS only"),
        Sentence("set tls to 'require' or 'verify'"),
    ),
    TLS_NOT_OFFERED.at((), r"server doesn't support SSL|SSL is required but"),
    CERTIFICATE.at(
        (), r"certificate verify failed|certificate is not valid|CERTIFICATE"
    ),
    Known(
        "login_method",
        TerminalError,
        ("2059", "2061", "1251", "1275"),
        r"Authentication plugin|readable form without TLS",
        Sentence(
            "user '%(username)s' logs in by a method that Sluice does not use here"
        ),
        Sentence(
            "let the user log in by password (mysql_native_password, "
            "caching_sha2_password or ed25519); PAM and LDAP logins need tls"
        ),
    ),
    Known(
        "database_missing",
        TerminalError,
        ("1049",),
        r"Unknown database",
        Sentence("there is no database '%(database)s' on %(host)s:%(port)s"),
        Sentence(
            "check the name, upper and lower case may count; the field may be empty"
        ),
    ),
    MISSING_PRIVILEGE.at(
        ("1044", "1142", "1143", "1227", "1370"), r"command denied|Access denied"
    ),
    Known(
        "too_many_connections",
        TransientError,
        ("1040", "1203", "1226"),
        r"Too many connections|max_user_connections|has exceeded",
        Sentence("%(host)s:%(port)s has no free connection for user '%(username)s'"),
        Sentence(
            "lower max_parallel_reads, or raise max_connections, or the user's limits"
        ),
    ),
    Known(
        "source_starting",
        TransientError,
        ("1053", "1927", "1152", "4031"),
        r"Server shutdown in progress|Connection was killed",
        Sentence("%(host)s:%(port)s is starting or stopping, or ended this connection"),
        Sentence("wait until the server is up; it is tried again automatically"),
    ),
    LOCKED.at(("1205", "1213"), r"Lock wait timeout|Deadlock"),
    Known(
        "source_timeout",
        TransientError,
        ("1969", "3024", "1317", "1028"),
        r"max_statement_time exceeded|maximum statement execution time|timed out",
        Sentence("%(host)s:%(port)s did not answer in time"),
        Sentence(
            "the server may be busy, a firewall may drop packets, or another kind of "
            "server answers there: try again, or raise connect_timeout_seconds or "
            "statement_timeout_seconds"
        ),
    ),
    Known(
        "not_mariadb",
        TerminalError,
        (),
        r"Packet sequence number wrong|WRONG_VERSION_NUMBER|invalid literal for int"
        r"|Unknown MySQL server|unexpected packet|bytes expected|out of range"
        r"|RECORD_LAYER_FAILURE",
        Sentence("%(host)s:%(port)s does not speak the protocol of MariaDB and MySQL"),
        Sentence("check the port: another kind of server answers there"),
    ),
    Known(
        "tls_failed",
        TerminalError,
        (),
        r"\[SSL|\bSSL\b",
        Sentence("TLS with %(host)s:%(port)s could not be agreed"),
        Sentence("see the server's own words: it may offer old versions of TLS only"),
    ),
    REFUSED,
    UNREACHABLE,
    LOST.at(
        ("2006", "2013", "2055"),
        r"Lost connection|gone away|Connection reset|Broken pipe|closed",
    ),
)


def source_error(error: Exception, access: SourceAccess) -> SluiceError:
    """The clear form of an error of pymysql, ssl or a socket."""
    if isinstance(error, SluiceError):
        return error
    number, text = _number_and_text(error)
    raw = redact(text.strip())[:1_000]
    cause = getattr(error, "original_exception", error)
    may_pass = isinstance(error, OSError | pymysql.OperationalError)
    found = find(_KNOWN, number, raw)
    if isinstance(cause, ssl.SSLCertVerificationError):
        found = find(_KNOWN, "", "certificate verify failed")
    if found and found.code == "wrong_password":
        found = replace(found, hint=_hint_of_login(found.hint, raw, access))
    return explained(found, access, SourceMessage(raw, number, may_pass))


def _hint_of_login(hint: Sentence, raw: str, access: SourceAccess) -> Sentence:
    """What refuses a login with the right password, too."""
    if access.tls == "off":
        hint = _WITHOUT_TLS
    client = _CLIENT.search(raw)
    if client is None:
        return hint
    # The more exact host of two names wins, and one without a user is any user's.
    shadow = Sentence(
        "an anonymous user ''@'%(client)s' at the server is taken before "
        "'%(username)s'@'%%': drop it (DROP USER ''@'%(client)s'), or create "
        "'%(username)s'@'%(client)s'",
        client=client[1],
        username=access.username,
    )
    return as_sentence(joined((hint, shadow)))


def _number_and_text(error: Exception) -> tuple[str, str]:
    """(error number, text); 2003 is pymysql's coat around an error of the socket."""
    cause = getattr(error, "original_exception", None)
    if isinstance(cause, OSError):
        return "", str(cause) or type(cause).__name__
    if isinstance(error, pymysql.MySQLError) and len(error.args) > 1:
        number, text = error.args[:2]
        if "timed out" in str(text):  # 2013, a lost connection, says this too
            return "", str(text)
        return (str(number) if number else ""), str(text)
    return "", str(error) or type(error).__name__
