"""What the binary log has compressed. Pure."""

from __future__ import annotations

import zlib

import pyarrow as pa

from ingest.sources.mariadb.log.table_map import packed_int


def inflated(data: bytes) -> bytes:
    """The rest of an event of MariaDB's compressed kinds: the method and how many bytes
    the length has, the length, the data. ValueError says why not."""
    head = data[0]
    if head & 0xF0 != 0x80:
        raise ValueError(f"compressed by an unknown method ({head})")
    width = head & 7
    size = int.from_bytes(data[1 : 1 + width], "big")
    try:
        found = zlib.decompress(data[1 + width :], -15 if head & 8 else 15)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    return _whole(found, size)


def column_value(data: bytes) -> bytes:
    """Of a column that is COMPRESSED."""
    if not data:
        return data
    return inflated(data) if data[0] else data[1:]


def unpacked(data: bytes, size: int) -> bytes:
    """Of zstd, so many bytes."""
    try:
        found: bytes = pa.Codec("zstd").decompress(data, size, asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise ValueError(str(error)) from error
    return _whole(found, size)


def payload_of(body: bytes) -> bytes:
    """The events within one of MySQL's that holds a transaction; its body."""
    at, method, size = 0, 0, 0
    while kind := body[at]:
        length, at = packed_int(body, at + 1)
        if kind == 2:
            method, _ = packed_int(body, at)
        elif kind == 3:
            size, _ = packed_int(body, at)
        at += length
    if method == 255:
        return body[at + 1 :]
    if method:
        raise ValueError(f"compressed by an unknown method ({method})")
    return unpacked(body[at + 1 :], size)


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{size} bytes were compressed, {len(data)} came out")
    return data
