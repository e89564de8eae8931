"""The log of a PostgreSQL source is opened: what is there fits what was read, or a
person decides to begin anew. And what was made for it is given back."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import psycopg

from catalog.sources.postgresql.answers import hang_up
from core.errors import InvalidRequest, TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.source_positions import PostgresLog, lsn_text
from ingest.contract.table import TableSpec
from ingest.sources.port import LogNames, SourceAccess
from ingest.sources.postgresql.connection import DIALECT, connect
from ingest.sources.postgresql.log.connection import open_log
from ingest.sources.postgresql.log.control import Control, open_control
from ingest.sources.postgresql.log.history import Last, Reread, last_text
from ingest.sources.postgresql.log.pgoutput import Begin
from ingest.sources.postgresql.log.publications import Publications
from ingest.sources.postgresql.log.reader import FREE_SECONDS, PostgresLogReader
from ingest.sources.postgresql.log.slot import (
    ANEW,
    Slot,
    drop_slot,
    end_holder,
    kept_slot,
    make_slot,
)

_READ_SECONDS = 0.2
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
_AGAIN = Sentence(
    "the source's slot stands before what was read, as after a crash: the end of that"
    " is compared with what the source has there now"
)
_SERVER = "SELECT current_setting('wal_level'), pg_is_in_recovery()"


@contextlib.contextmanager
def open_log_reader(
    access: SourceAccess,
    names: LogNames,
    tables: Sequence[TableSpec],
    *,
    after: Callable[[], str | None],
    begin_anew: bool = False,
    wait: Callable[[str], None],
) -> Iterator[PostgresLogReader]:
    """See `ingest.sources.registry.open_log_reader`."""
    with open_control(access) as control:
        _require_logical(control)
        # refused before anything is made; and a reader that lives still tells the slot
        # what is durable: looked at first, it is not ahead of the stream's end
        slot = control.slot(names.slot)
        end = after()
        if slot is None and end is not None:
            slot, end = control.slot(names.slot), after()
        # a slot is on one server, whatever else the name stands for
        access = access.at(control.connection.info.hostaddr)
        with open_log(access) as log:
            publications = Publications(control, names)
            reader = PostgresLogReader(
                access, names, log, control, publications, log.started
            )
            try:
                if end is not None:
                    _require_whole(slot, names.slot, end, log.started)
                _publish(reader, tables, tries=not begin_anew)
                if end is not None:
                    _require_read(reader, PostgresLog.decode(end), wait)
            except TerminalError as error:
                if not begin_anew or (end is None and slot is None):
                    raise
                # a slot without a stream may be older than its publication
                reader.anew, end = error.message if end is not None else "", None
                _free(control, names.slot)
                drop_slot(control.connection, names.slot)
                _publish(reader, tables, tries=False)
            if end is None:
                begin = _begun_slot(access, control, names.slot, wait)
                publications.note_first()
                none = last_text(Begin(begin, 0, 0), publications.in_use)
                reader.started = replace(log.started, lsn=begin, last=none)
            yield reader


def release_log(access: SourceAccess, names: LogNames) -> None:
    """Drop the slot, then the publication, if they are there and ours to drop.
    TransientError `slot_in_use` while another reader has the slot."""
    with open_control(access) as control:
        is_there = control.slot(names.slot) is not None
        if is_there and not drop_slot(control.connection, names.slot):
            raise TransientError(
                "the slot %(slot)s at the source is in use and was not dropped",
                slot=names.slot,
                code="slot_in_use",
                hint="it is tried again; end what reads it",
            )
        try:
            control.run(f"DROP PUBLICATION IF EXISTS {DIALECT.name(names.publication)}")
        except psycopg.errors.InsufficientPrivilege:
            return  # an administrator made it; it costs the source nothing


def _publish(
    reader: PostgresLogReader, tables: Sequence[TableSpec], *, tries: bool
) -> None:
    reader.follow(tables)
    reader.publications.use(reader.problems, tries=tries)
    reader.follow(tables)  # what is read by now is remembered of each table


def _require_whole(slot: Slot | None, name: str, after: str, here: PostgresLog) -> None:
    """TerminalError `source_changed`, or `log_lost`."""
    position = PostgresLog.decode(after)
    if position.identity != here.identity:
        raise TerminalError(
            "the log was read from server %(identity)s, and %(now)s answers"
            " now. Nothing was read",
            start_over=ANEW,
            identity=position.identity,
            now=here.identity,
            code="source_changed",
            hint="bring that server back, or %(start_over)s",
        )
    if here.lsn < position.lsn:
        # what is written from here on would be taken for what was read
        raise TerminalError(
            "the source's log ends at %(end)s, and it was read up to %(read)s: an"
            " older state of its disk was put back, or it lost the log's end"
            " (fsync = off). Nothing was read",
            end=lsn_text(here.lsn),
            read=lsn_text(position.lsn),
            code="source_changed",
            hint=ANEW,
        )
    kept_slot(slot, name, position)


def _require_read(
    reader: PostgresLogReader, read: PostgresLog, wait: Callable[[str], None]
) -> None:
    """TerminalError `source_changed` where the log is another one up to there. What was
    read by other publications, or before the last transaction was noted, is not looked
    at."""
    log, control, name = reader.log, reader.control, reader.names.slot
    last, by = Last.decode(read.last), reader.publications.in_use
    slot = control.slot(name)
    if last is None or not last.is_by(by) or not slot or slot.confirmed >= read.lsn:
        return
    slot = _free(control, name) or slot
    again = Reread(read.lsn, last, by, slot.confirmed)
    log.start(name, by, after=again.start)
    if (now := control.slot(name)) is None or now.confirmed != slot.confirmed:
        raise TransientError(
            "the slot %(slot)s was moved by another session just now",
            slot=name,
            code="slot_in_use",
            hint="it is tried again",
        )
    while not again.is_over and log.sent_to < read.lsn:
        messages = log.read(_READ_SECONDS)
        for message in messages:
            again.take(message)
        if not messages:
            wait(_AGAIN)
    log.renew(reader.access)
    if not again.is_same:
        raise TerminalError(
            "the source's log has other transactions before %(read)s now than it was"
            " read with: an older state of its disk was put back, or it lost the log's"
            " end (fsync = off). Nothing was read",
            read=lsn_text(read.lsn),
            code="source_changed",
            hint=ANEW,
        )


def _free(control: Control, name: str) -> Slot | None:
    """Ends the session of another reader."""
    until = time.monotonic() + FREE_SECONDS
    slot = control.slot(name)
    while slot and slot.is_active and time.monotonic() < until:
        end_holder(control.connection, name)
        time.sleep(0.1)
        slot = control.slot(name)
    return slot


def _require_logical(control: Control) -> None:
    level, is_standby = control.rows(_SERVER)[0]
    if is_standby:
        raise TerminalError(
            "the source is a standby, and a log is followed at its primary. Nothing"
            " was read",
            code="source_is_standby",
            hint="enter the primary's host, or have the standby promoted",
        )
    if level != "logical":
        raise InvalidRequest(
            "the source writes its log with wal_level = %(level)s, which lacks"
            " what following it needs",
            level=level,
            code="source_log_off",
            hint="at the source: ALTER SYSTEM SET wal_level = 'logical', then restart"
            " the server",
        )


def _begun_slot(
    access: SourceAccess, control: Control, name: str, wait: Callable[[str], None]
) -> int:
    """Where the log of a new stream begins, by its slot. One that is there was made for
    it before a death; one that is lost, or of a database that had this one's name, is
    of no use and is made anew."""
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
