"""From any exception to an outcome and words for it.

Says whose turn it is: ours again (transient), a person must act (terminal), the
request was wrong (caller). It must not know jobs, and nothing of Spark: of what is
thrown there, `ingest.driver.jvm` says the same.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

import psycopg
import pymysql

from core.errors import SluiceError
from core.sentences import Sentence
from ingest.contract.job import (
    CONNECTIONS_USED_UP,
    ErrorFact,
    Outcome,
    fact_of,
    outcome_of,
)
from ingest.sources.port import ROWS_HIDDEN, SEE_ALL_ROWS

TEXT_REFUSED = "source_text_refused"
BEGUN_ELSEWHERE = "compaction_begun"


@dataclass(frozen=True, slots=True)
class Failure:
    outcome: Outcome
    error: ErrorFact


def failure_of(error: BaseException) -> Failure:
    if isinstance(error, SluiceError):
        return Failure(outcome_of(error), fact_of(error))
    if isinstance(error, psycopg.Error):
        state = error.sqlstate or ""
        return known_failure(f"[SQLSTATE {state}] {error}") or source_failure(
            state, str(error)
        )
    if isinstance(error, pymysql.MySQLError):
        number = error.args[0] if error.args else 0
        words = str(error.args[1]) if len(error.args) > 1 else str(error)
        state = _STATES_OF_NUMBERS.get(number, "")
        return known_failure(words) or source_failure(state, words)
    if isinstance(error, OSError):
        is_full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        return (known_failure(str(error)) if is_full else None) or failure(
            "transient",
            "storage_failed",
            Sentence("a file operation failed: %(error)s", error=error),
            Sentence("see the storage's own words, then retry"),
        )
    # its words are for the log alone: they name our own code, and may quote a value
    return failure(
        "terminal",
        "defect",
        Sentence("Sluice has a defect here: this job met what it does not expect"),
        Sentence(
            "the driver's log has the trace, by the job's id; tell the maintainers of"
            " it"
        ),
    )


def known_failure(text: str) -> Failure | None:
    if _FULL_AT_SOURCE.search(text):
        return failure(
            "transient",
            "source_full",
            Sentence(
                "a disk of the source's host is full; nothing of this job is visible"
            ),
            Sentence(
                "free space there: what the source sorts may go to its temporary files"
            ),
        )
    for words, outcome, code, message, hint in _SIGNS:
        if any(word in text for word in words):
            return failure(outcome, code, message, hint)
    return None


def source_failure(state: str, message: str) -> Failure:
    text = message.strip().splitlines()[0] if message.strip() else "no message"
    state = _STANDARD.get(state, state)
    if state in {"", "28000"}:
        state = _state_of_refused_login(message) or state
    if state == "42000" and "denied" in message:
        state = "42501"
    said = Sentence("the source reports: %(text)s", text=text)
    if state == "42501" and "for database" in message:
        hint = Sentence("grant CONNECT on the database to this user")
        return failure("invalid_request", "source_not_let_in", said, hint)
    if state == "42501" and "row-level security" in message:
        return failure("terminal", ROWS_HIDDEN, said, SEE_ALL_ROWS)
    for prefix, outcome, code, hint in _SOURCE:
        if state.startswith(prefix) and prefix:
            said = Sentence(
                "the source reports: %(text)s (%(state)s)", text=text, state=state
            )
            return failure(outcome, code, said, hint)
    return failure(
        "transient",
        "source_unreachable",
        Sentence("the source cannot be reached or failed: %(text)s", text=text),
        Sentence("check host, port and network, then retry"),
    )


def _state_of_refused_login(message: str) -> str:
    """libpq gives the server's words about a refused login, not its SQLSTATE; MariaDB's
    JDBC driver gives one for all of them."""
    found = (state for words, state in _LOGIN_WORDS if re.search(words, message))
    return next(found, "")


_LOGIN_WORDS = (
    (
        r"password authentication failed|role \".*\" does not exist"
        r"|no password supplied|Access denied for user .*using password",
        "28P01",
    ),
    (r"no pg_hba\.conf entry|not permitted to log in", "28000"),
    (r"database \".*\" does not exist", "3D000"),
    (r"permission denied for database", "42501"),
    (
        r"too many (?:clients|connections)|remaining connection slots"
        r"|max_user_connections",
        "53300",
    ),
    (
        r"the database system is (?:starting up|shutting down|in recovery)"
        r"|not (?:yet )?accepting connections",
        "57P03",
    ),
)

# MariaDB's own words for what PostgreSQL says by SQLSTATE.
_STANDARD = {
    "42S02": "42P01",
    "42S22": "42703",
    "70100": "57014",
    "08004": "53300",
    "HY000": "",
}
_STATES_OF_NUMBERS = {
    1044: "42501",
    1045: "28P01",
    1049: "3D000",
    1054: "42703",
    1130: "28000",
    1142: "42501",
    1143: "42501",
    1146: "42P01",
    1040: "53300",
    1203: "53300",
    1226: "53300",
    1205: "55P03",
    1317: "57014",
    1698: "28P01",
    1969: "57014",
    3024: "57014",
}

# The words are those of a full disk of ours, too; whose it is, is told by who says it.
_FULL_AT_SOURCE = re.compile(
    r"(?:PSQLException: \w+: |\[SQLSTATE 53100\] )[^\n]*No space left on device"
    r"|Errcode: 28\b"
)

_SIGNS: tuple[tuple[tuple[str, ...], Outcome, str, Sentence, Sentence], ...] = (
    (
        ("sluice.rewritten", "Table definition has changed"),
        "transient",
        "source_rewritten",
        Sentence(
            "the source table was rewritten while it was read; nothing of this job is"
            " visible"
        ),
        Sentence(
            "it is tried again; wait for the end of ALTER or TRUNCATE at the source"
        ),
    ),
    (
        ("sluice.unfit",),
        "transient",
        "source_rewritten",
        Sentence(
            "a value of the source no longer fits the type that its column had when"
            " this job began; nothing of this job is visible"
        ),
        Sentence("it is tried again, and then says which column changed"),
    ),
    (
        ("canceling statement due to lock timeout", "Lock wait timeout exceeded"),
        "transient",
        "source_locked",
        Sentence(
            "a lock on the source table was not released in time; nothing of this job"
            " is visible"
        ),
        Sentence(
            "it is tried again; the job's log names the session that holds the lock"
        ),
    ),
    (
        ("canceling statement due to statement timeout",),
        "transient",
        "source_slow",
        Sentence(
            "a statement at the source took longer than its limit; nothing of this job"
            " is visible"
        ),
        Sentence(
            "an index on the cursor or the key makes it quick; see docs/reading.md"
        ),
    ),
    (
        ("maxResultBuffer", "Result set exceeded"),
        "transient",
        "source_rows_wide",
        Sentence(
            "the driver would be out of memory while reading wide rows; nothing of this"
            " job is visible"
        ),
        Sentence("it is tried again with fewer rows at a time"),
    ),
    (
        ("sluice.fenced",),
        "transient",
        "fenced",
        Sentence("another driver took the table over; this one wrote nothing more"),
        Sentence("read the table's jobs again"),
    ),
    (
        ("sluice.overtaken", "Cannot resolve conflicts for overlapping writes"),
        "transient",
        "write_overtaken",
        Sentence(
            "another process changed the lake table while this job wrote to it;"
            " nothing of this job is visible"
        ),
        Sentence("it is tried again"),
    ),
    (
        ("sluice.planned",),
        "transient",
        "compaction_planned",
        Sentence(
            "a compaction of the table was planned while all its rows were replaced;"
            " nothing of this job is visible"
        ),
        Sentence("it is tried again, and leaves that plan whole"),
    ),
    (
        ("sluice.miscounted",),
        "terminal",
        "rows_miscounted",
        Sentence(
            "the commit would have held another number of rows than were read, so it"
            " was refused; nothing of this job is visible"
        ),
        Sentence(
            "the driver's log has both numbers; start the load, or the repair, again"
        ),
    ),
    (
        ("sluice.misplaced",),
        "terminal",
        "rows_misplaced",
        Sentence(
            "the commit would have held two files of one bucket, so it was refused;"
            " nothing of this job is visible"
        ),
        Sentence("this is a defect of Sluice: report it with the driver's log"),
    ),
    (
        ("due to heartbeat by concurrent writer",),
        "transient",
        BEGUN_ELSEWHERE,
        Sentence("another process has begun this compaction and was alive moments ago"),
        Sentence("it is tried again; that process is shut out by now"),
    ),
    (
        ("belong to the same bucket id", "belongs to the same bucket id"),
        # not terminal: once it is repaired, the next sync goes on
        "transient",
        "bucket_conflict",
        Sentence(
            "a bucket of the lake table has several file groups, so Hudi refuses to"
            " write; nothing of this job is visible"
        ),
        Sentence("look for duplicates on the table's health page, and remove them"),
    ),
    (
        (".compaction.requested does not exist",),
        # not terminal: once it is repaired, the next sync goes on
        "transient",
        "plan_unreadable",
        Sentence(
            "the request of a planned compaction is gone: the lake table can neither be"
            " read nor written"
        ),
        Sentence("unschedule that compaction: the table's health page names it"),
    ),
    (
        ("No space left on device", "Disk quota exceeded"),
        "transient",
        "storage_full",
        Sentence("the lake's storage is full; nothing of this job is visible"),
        Sentence("free space there; then retry"),
    ),
    (
        ("Permission denied", "Read-only file system"),
        "terminal",
        "lake_not_writable",
        Sentence("the lake's storage refused a write; nothing of this job is visible"),
        Sentence("give the user that runs Sluice write access; then retry"),
    ),
)

_SOURCE: tuple[tuple[str, Outcome, str, Sentence], ...] = (
    # named as a test of the connection names them
    (
        "28P01",
        "invalid_request",
        "wrong_password",
        Sentence("check user name and password, then set the password again"),
    ),
    (
        "28",
        "invalid_request",
        "login_not_allowed",
        Sentence(
            "ask the server's administrator to let this user in from here, then resume"
        ),
    ),
    (
        "3D",
        "invalid_request",
        "database_missing",
        Sentence("correct the database's name"),
    ),
    (
        "42P01",
        "invalid_request",
        "source_table_missing",
        Sentence("discover the source again"),
    ),
    (
        "42703",
        "invalid_request",
        "source_changed",
        Sentence("discover the source again"),
    ),
    (
        "42501",
        "invalid_request",
        "source_privilege_missing",
        Sentence("grant SELECT on the table"),
    ),
    (
        "3F",
        "invalid_request",
        "source_table_missing",
        Sentence("discover the source again"),
    ),
    ("42704", "transient", "source_snapshot_lost", Sentence("retry: it continues")),
    (
        "42",
        "terminal",
        "source_refused",
        Sentence("the driver's log has the statement"),
    ),
    ("22023", "transient", "source_snapshot_lost", Sentence("retry: it continues")),
    (
        "22021",
        "terminal",
        TEXT_REFUSED,
        Sentence(
            "write these bytes as UTF-8 at the source, then resume; see docs/reading.md"
        ),
    ),
    (
        "22",
        "terminal",
        "source_value_refused",
        Sentence("the driver's log has the value"),
    ),
    ("55P03", "transient", "source_locked", Sentence("it is tried again")),
    ("57P01", "transient", "source_ended_session", Sentence("it is tried again")),
    (
        "57P03",
        "transient",
        "source_starting",
        Sentence("it is tried again until it is up"),
    ),
    (
        "57P05",
        "transient",
        "source_ended_session",
        Sentence(
            "raise idle_session_timeout of the login at the source; it is tried again"
        ),
    ),
    ("25P03", "transient", "source_ended_session", Sentence("it is tried again")),
    ("25P04", "transient", "source_ended_session", Sentence("it is tried again")),
    (
        "57014",
        "transient",
        "source_cancelled",
        Sentence("it was cancelled at the source: retry"),
    ),
    (
        "53300",
        "transient",
        CONNECTIONS_USED_UP,
        Sentence(
            "it waits for one; lower max_parallel_reads, or raise the limit of the"
            " user, the database or the server"
        ),
    ),
    (
        "53",
        "transient",
        "source_exhausted",
        Sentence("lower the parallel reads, then retry"),
    ),
)


def failure(outcome: Outcome, code: str, message: Sentence, hint: Sentence) -> Failure:
    return Failure(outcome, fact_of(SluiceError(message, code=code, hint=hint)))
