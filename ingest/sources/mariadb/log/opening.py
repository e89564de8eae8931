"""Opens the binary log of a MariaDB source where a stream ended, or where it begins."""

from __future__ import annotations

import contextlib
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from core.errors import TerminalError, TransientError
from core.sentences import Sentence
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import TableSpec
from ingest.sources.mariadb.log.connection import number_of, open_log, other_history
from ingest.sources.mariadb.log.control import open_control
from ingest.sources.mariadb.log.fail_over import NewServer, place_on
from ingest.sources.mariadb.log.reader import MariaDbLogReader
from ingest.sources.port import LogNames, SourceAccess

_WHEN = struct.Struct("<I")
_TELL_SECONDS = 2.0
_LOOKING = Sentence(
    "another server answers: the end of what was read is looked for in its log"
)

Wait = Callable[[str], None]


@contextlib.contextmanager
def open_log_reader(
    access: SourceAccess,
    names: LogNames,
    tables: Sequence[TableSpec],
    *,
    after: Callable[[], str | None],
    begin_anew: bool = False,
    wait: Wait,
) -> Iterator[MariaDbLogReader]:
    """See `ingest.sources.registry.open_log_reader`. Nothing is waited for: a log that
    has whole transactions begins anywhere between two."""
    with open_control(access) as (control, address):
        # a log is of one server, whatever else the name stands for
        access = access.at(address)
        control.server()
        here = control.here()
        number = free_number(control.others(), names.slot)
        with open_log(access, names.slot, number) as log:
            reader = MariaDbLogReader(access, log, control, here)
            end, anew = after(), ""
            if end is not None:
                try:
                    read = MariaDbLog.decode(end)
                    if read.identity != here.identity:
                        reader.started = _moved(reader, read, wait)
                        reader.moved = end
                    else:
                        _require_whole(reader, read)
                except TerminalError as error:
                    if not begin_anew:
                        raise
                    anew, end = error.message, None
            reader.anew = anew
            if end is None:
                reader.started = replace(here, made=_made(access, names.slot, here))
            reader.follow(tables)
            yield reader


def free_number(others: Mapping[int, str], name: str) -> int:
    """By which the server knows us: of two with one number it ends the older. Ours is
    always the same, so that a reader that was superseded is ended; somebody else's is
    left alone."""
    number = number_of(name)
    while others.get(number, name[:60]) != name[:60]:
        number = number + 1 if number < 0xFFFF_FFFE else 0x8000_0000
    return number


def _require_whole(reader: MariaDbLogReader, position: MariaDbLog) -> None:
    """TerminalError `source_changed`, or `log_lost`."""
    place = reader.find(position)
    if place.made != _made(reader.access, reader.log.name, place):
        raise other_history(place)


def _moved(reader: MariaDbLogReader, read: MariaDbLog, wait: Wait) -> MariaDbLog:
    """The place at this server where what was read of another one ends. wait: called
    now and then, for a file of its log may be long."""
    access, name, control = reader.access, reader.log.name, reader.control

    @contextlib.contextmanager
    def events(file: str) -> Iterator[Iterator[bytes]]:
        with open_log(access, name, 0) as log:
            yield _telling(log.events_of(file), lambda: wait(_LOOKING))

    replayed = control.replayed()  # its log has that by the time it is looked at
    logs_all = control.server().settings.get("log_slave_updates") == "ON"
    server = NewServer(
        control.here(),
        replayed,
        tuple(file.name for file in control.files()),
        events,
        # the same one by another server_id, say, replicates nothing
        is_silent=bool(replayed.newest) and not logs_all,
    )
    return place_on(server, read)


def _telling(events: Iterator[bytes], tell: Callable[[], None]) -> Iterator[bytes]:
    told = time.monotonic()
    for event in events:
        if time.monotonic() - told > _TELL_SECONDS:
            tell()
            told = time.monotonic()
        yield event


def _made(access: SourceAccess, name: str, place: MariaDbLog) -> int:
    """When the file was made that has this name now. TransientError when it is gone
    meanwhile."""
    with open_log(access, name, 0) as log:
        event = log.first_event_of(place.file)
    if not event:
        raise TransientError(
            "the source deletes %(file)s of its log just now",
            file=place.file,
            code="log_moved",
            hint="reading begins again at once",
        )
    return int(_WHEN.unpack_from(event)[0])
