"""Character sets of MariaDB and MySQL, by the numbers of their collations: what a
text's bytes are in Unicode, as the server says it. Pure.
"""

from __future__ import annotations

import codecs
from functools import cache

from core.sentences import Sentence

# Numbers of collations; those above 1,000 are MariaDB's, 255 to 323 MySQL's.
_COLLATIONS = {
    "armscii8": "32,64,1056,1088",
    "ascii": "11,65,1035,1089",
    "big5": "1,84,1025,1108",
    "binary": "63",
    "cp1250": "26,34,44,66,99,1050,1090",
    "cp1251": "14,23,50-52,1074-1075",
    "cp1256": "57,67,1081,1091",
    "cp1257": "29,58-59,1082-1083",
    "cp850": "4,80,1028,1104",
    "cp852": "40,81,1064,1105",
    "cp866": "36,68,1060,1092",
    "cp932": "95-96,1119-1120",
    "dec8": "3,69,1027,1093",
    "eucjpms": "97-98,1121-1122",
    "euckr": "19,85,1043,1109",
    "gb18030": "248-250",
    "gb2312": "24,86,1048,1110",
    "gbk": "28,87,1052,1111",
    "geostd8": "92-93,1116-1117",
    "greek": "25,70,1049,1094",
    "hebrew": "16,71,1040,1095",
    "hp8": "6,72,1030,1096",
    "keybcs2": "37,73,1061,1097",
    "koi8r": "7,74,1031,1098",
    "koi8u": "22,75,1046,1099",
    "latin1": "5,8,15,31,47-49,94,1032,1071",
    "latin2": "2,9,21,27,77,1033,1101",
    "latin5": "30,78,1054,1102",
    "latin7": "20,41-42,79,1065,1103",
    "macce": "38,43,1062,1067",
    "macroman": "39,53,1063,1077",
    "sjis": "13,88,1037,1112",
    "swe7": "10,82,1034,1106",
    "tis620": "18,89,1042,1113",
    "ucs2": "35,90,128-151,159,640-642,1059,1114,1152,1174,2560-2815",
    "ujis": "12,91,1036,1115",
    "utf16": "54-55,101-124,672-674,1078-1079,1125,1147,2816-3071",
    "utf16le": "56,62,1080,1086",
    "utf32": "60-61,160-183,736-738,1084-1085,1184,1206,3072-3327",
    "utf8mb3": "33,76,83,192-215,223,576-578,1057,1107,1216,1238,2048-2303",
    "utf8mb4": "45-46,224-247,255-323,608-610,1069-1070,1248,1270,2304-2559",
}
# Python's names of those that it reads alike, but for `_OTHERWISE`.
_BYTES = {
    "ascii": "ascii",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859_7",
    "hebrew": "iso8859_8",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "latin1": "cp1252",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
}
_WIDE = {
    "gb2312": "gb2312",
    "gbk": "gbk",
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "utf8mb3": "utf_8",
    "utf8mb4": "utf_8",
}
# Those with bytes that are no character. Of characters that are read, no two are one.
INEXACT = frozenset({*_BYTES, "gb2312", "gbk"} - {"latin1"})
_NONE = "?"
# What is no character reads as one question mark.
_HANDLER = "sluice.question_mark"
_OTHERWISE = {
    "cp1256": dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), _NONE),
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: _NONE, 0xA5: _NONE, 0xAA: _NONE},
    "hebrew": {0xAF: "‾"},
    "koi8u": {0x95: "•"},
    "latin1": {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
}


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _NONE, error.end


codecs.register_error(_HANDLER, _question_mark)


def charset_of(collation: int) -> str:
    """ValueError when the collation is not known."""
    found = _by_number().get(collation)
    if found is None:
        raise ValueError(
            Sentence(
                "a collation of the number %(number)s, which is not known",
                number=collation,
            )
        )
    return found


def is_read(charset: str) -> bool:
    return charset in _BYTES or charset in _WIDE


def decoded(data: bytes, charset: str) -> str:
    """As the server says it in Unicode. ValueError when it is not known how."""
    if table := _table(charset):
        return codecs.charmap_decode(data, "strict", table)[0]
    if name := _WIDE.get(charset):
        return data.decode(name, _HANDLER)
    raise ValueError(
        Sentence(
            "the character set %(charset)s is not read from the log", charset=charset
        )
    )


def is_shared(data: bytes, charset: str) -> bool:
    """Whether other bytes are the same text in Unicode, or may be. charset: one of
    INEXACT."""
    return decoded(data, charset).count(_NONE) > data.count(_NONE.encode())


@cache
def _table(charset: str) -> str:
    """The character of each byte; "" = it has characters of several bytes."""
    name = _BYTES.get(charset)
    if name is None:
        return ""
    own = _OTHERWISE.get(charset, {})
    return "".join(own.get(n) or _character(n, name) for n in range(256))


def _character(number: int, name: str) -> str:
    try:
        return bytes([number]).decode(name)
    except ValueError:
        return _NONE


@cache
def _by_number() -> dict[int, str]:
    found = {}
    for charset, numbers in _COLLATIONS.items():
        for part in numbers.split(","):
            first, _, last = part.partition("-")
            for number in range(int(first), int(last or first) + 1):
                found[number] = charset
    return found
