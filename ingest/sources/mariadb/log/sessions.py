"""What a statement in the log says of its session. Pure."""

from __future__ import annotations

from ingest.sources.mariadb.log.charsets import charset_of, decoded
from ingest.sources.mariadb.log.statements import Quoting

# Numbers of what is said: bytes of a fixed count, or a length and then more of them.
_MODE, _COLLATION = 1, 4
_SIZES = {0: 4, _MODE: 8, 3: 4, _COLLATION: 6}
_SIZED = {2: 1, 6: 0}
_STRICT = 1 << 21 | 1 << 22
_ANSI_QUOTES, _NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 20


def text_of(data: bytes, said: bytes) -> str:
    """A statement, in the character set of its session."""
    collation = _parts(said).get(_COLLATION)
    if collation is None:
        return data.decode(errors="replace")
    return decoded(data, charset_of(int.from_bytes(collation[:2], "little")))


def is_strict(said: bytes) -> bool:
    """Whether it lets no value be changed to fit its column."""
    return bool(_mode(said) & _STRICT)


def quoting_of(said: bytes) -> Quoting:
    mode = _mode(said)
    return Quoting(bool(mode & _ANSI_QUOTES), bool(mode & _NO_BACKSLASH_ESCAPES))


def _mode(said: bytes) -> int:
    return int.from_bytes(_parts(said).get(_MODE, b""), "little")


def _parts(said: bytes) -> dict[int, bytes]:
    """By their numbers, up to one that is not known."""
    at, found = 0, dict[int, bytes]()
    while at < len(said):
        code, at = said[at], at + 1
        if code in _SIZES:
            size = _SIZES[code]
        elif code in _SIZED:
            size = 1 + said[at] + _SIZED[code]
        else:
            break
        found[code] = said[at : at + size]
        at += size
    return found
