"""Files of MariaDB's binary log."""

from __future__ import annotations

from collections.abc import Iterator

from ingest.sources.mariadb.log.binlog import HEAD


def events_in(data: bytes, at: int = 4) -> Iterator[bytes]:
    """Of a file, from a place on."""
    while at < len(data):
        size = HEAD.unpack_from(data, at)[3]
        yield data[at : at + size]
        at += size
