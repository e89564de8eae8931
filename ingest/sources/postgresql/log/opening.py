"""The log of a PostgreSQL source is opened: what is there fits what was read, or a
person decides to begin anew."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from core.errors import InvalidRequest, TerminalError
from ingest.contract.source_positions import PostgresLog, lsn_text
from ingest.contract.table import TableSpec
from ingest.sources.port import LogNames, SourceAccess
from ingest.sources.postgresql.log.connection import open_log
from ingest.sources.postgresql.log.control import Control, open_control
from ingest.sources.postgresql.log.new_slot import begun_slot
from ingest.sources.postgresql.log.publications import Publications
from ingest.sources.postgresql.log.reader import FREE_SECONDS, PostgresLogReader
from ingest.sources.postgresql.log.slot import (
    ANEW,
    Slot,
    drop_slot,
    end_holder,
    kept_slot,
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
            except TerminalError as error:
                if not begin_anew or end is None:
                    raise
                reader.anew, end = error.message, None
                _free(control, names.slot)
                drop_slot(control.connection, names.slot)
                _publish(reader, tables, tries=False)
            if end is None:
                begin = begun_slot(access, control, names.slot, wait)
                publications.note_first()
                reader.started = replace(log.started, lsn=begin)
            yield reader


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


def _free(control: Control, name: str) -> None:
    """Ends the session of another reader."""
    until = time.monotonic() + FREE_SECONDS
    while time.monotonic() < until:
        slot = control.slot(name)
        if slot is None or not slot.is_active:
            return
        end_holder(control.connection, name)
        time.sleep(0.1)


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
