"""What the binary log has compressed. Pure."""

from __future__ import annotations

import zlib

import pyarrow as pa


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


def _whole(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{size} bytes were compressed, {len(data)} came out")
    return data
