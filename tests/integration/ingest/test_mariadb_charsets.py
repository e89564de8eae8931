"""Texts of each character set, read from the log as their server reads them: every code
of one to three bytes that it takes."""

from __future__ import annotations

from contextlib import closing

import pytest

from ingest.sources.mariadb.log.charsets import INEXACT, decoded, is_shared
from tests.mariadb import MariaDbServer

PAIRS = ["big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "ujis"]
ONE = [bytes([code]) for code in range(1, 256)]
TWO = [bytes([a, b]) for a in range(0x80, 0x100) for b in range(0x40, 0x100)]
THREE = [bytes([0x8F, a, b]) for a in range(0xA1, 0xFF) for b in range(0xA1, 0xFF)]
# It may be of several codes, whatever the server would write.
NO_CHARACTER = "\ufffd"


def codes_of(
    server: MariaDbServer, charset: str, codes: list[bytes]
) -> list[tuple[bytes, str, bool]]:
    """Those that it takes, their texts, and whether it would write another code."""
    rows = ", ".join(f"(X'{code.hex()}', X'{code.hex()}')" for code in codes)
    back = f"CONVERT(CONVERT(t USING utf8mb4) USING {charset})"
    with closing(server.connect()) as link, link.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS charsets")
        cursor.execute("USE charsets")
        cursor.execute(
            "CREATE TEMPORARY TABLE codes (code varbinary(4),"
            f" t varchar(4) CHARACTER SET {charset})"
        )
        cursor.execute(f"INSERT IGNORE INTO codes VALUES {rows}")
        cursor.execute(
            f"SELECT code, CONVERT(t USING utf8mb4), HEX({back}) <> HEX(t) FROM codes"
            " WHERE HEX(code) = HEX(t)"
        )
        return [(code, text, bool(other)) for code, text, other in cursor.fetchall()]


def compare(server: MariaDbServer, charset: str, codes: list[bytes]) -> None:
    found = codes_of(server, charset, codes)
    assert len(found) > 120
    assert [(c, t) for c, t, _ in found if decoded(c, charset) != t] == []
    known = [one for one in found if NO_CHARACTER not in one[1]]
    assert [
        (c, t) for c, t, is_twice in known if is_shared(c, charset) != is_twice
    ] == []


@pytest.mark.parametrize("charset", sorted(INEXACT - {*PAIRS}))
def test_characters_of_one_byte(mariadb_server: MariaDbServer, charset: str) -> None:
    compare(mariadb_server, charset, ONE)


@pytest.mark.parametrize("charset", PAIRS)
def test_characters_of_several(mariadb_server: MariaDbServer, charset: str) -> None:
    compare(mariadb_server, charset, ONE + TWO + (THREE if charset == "ujis" else []))


@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("sjis", b"\x81\x5f\x83\x5c\xb1\x81\xad\xb1a", "\\ソｱ?ｱa"),
        ("big5", b"\xa4\x51\xa2\xcc\xf9\xd6\xa3\xc0a", "十\ufffd碁?a"),
        ("gbk", b"\xa1\x40\xd6\xd0", "?中"),
        ("ujis", b"\xa1\xc0\x8f\xf5\xa1\x8f\xb0\xa1a\xf5\xa2", "\\\ue3ac丂a\ue001"),
        ("utf8mb4", b"\xffab", "?ab"),
        ("utf32", b"\x00\x00\xd8\x00\x00\x00\x00a", "?a"),
        ("cp932", b"\x93\xfa\xed\x40", "日纊"),
    ],
)
def test_texts_of_several_characters(charset: str, data: bytes, text: str) -> None:
    assert decoded(data, charset) == text
