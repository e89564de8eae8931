"""The slot of a new stream: made, or found as it was made before a death."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import psycopg

from catalog.sources.postgresql.answers import hang_up
from core.errors import TransientError
from core.sentences import Sentence
from ingest.sources.port import SourceAccess
from ingest.sources.postgresql.connection import connect
from ingest.sources.postgresql.log.control import Control
from ingest.sources.postgresql.log.slot import drop_slot, make_slot

# Transactions that are open at the source may be for so long before a slot is given up.
_SLOT_SECONDS = 600
_OLDEST = """
SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''),
  extract(epoch FROM clock_timestamp() - xact_start)::int
FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
UNION ALL SELECT 0, owner::text, 'prepared as ' || gid,
  extract(epoch FROM clock_timestamp() - prepared)::int FROM pg_prepared_xacts
ORDER BY 4 DESC NULLS LAST LIMIT 1
"""

Wait = Callable[[str], None]


def begun_slot(access: SourceAccess, control: Control, name: str, wait: Wait) -> int:
    """Where the log of a new stream begins. A slot that is there is one that was made
    for it before a death; one that is lost, or of a database that had this one's name,
    is of nobody's use."""
    slot = control.slot(name)
    if slot is not None and (slot.is_lost or slot.elsewhere):
        drop_slot(control.connection, name)
        slot = None
    if slot is not None:
        return slot.confirmed
    made: list[int | BaseException] = []
    with contextlib.closing(connect(access)) as connection:
        connection.execute(f"SET statement_timeout = '{_SLOT_SECONDS}s'".encode())

        def make() -> None:
            try:
                made.append(make_slot(connection, name))
            except BaseException as error:  # noqa: BLE001 - it is raised below
                made.append(error)

        thread = threading.Thread(target=make, daemon=True)
        thread.start()
        thread.join(0.5)
        try:
            while thread.is_alive():
                wait(_holder(control))
        except BaseException:
            hang_up(connection)
            raise
    if isinstance(made[0], psycopg.errors.QueryCanceled):
        raise _never_began(_holder(control)) from made[0]
    if isinstance(made[0], BaseException):
        raise made[0]
    return made[0]


def _holder(control: Control) -> str:
    found = control.rows(_OLDEST)
    if not found:
        return Sentence("a slot is made at the source")
    pid, user, application, seconds = found[0]
    who = f"pid {pid}" if pid else "a transaction"
    words = " ".join(word for word in (who, user, application) if word)
    return Sentence(
        "the source's slot begins once transactions that are open there have"
        " ended: %(words)s is open for %(seconds)s s",
        words=words,
        seconds=seconds,
    )


def _never_began(holder: str) -> TransientError:
    return TransientError(
        "no slot was made within %(limit)s s: %(holder)s",
        limit=_SLOT_SECONDS,
        holder=holder,
        code="source_transaction_open",
        hint="end that transaction at the source; it is tried again",
    )
