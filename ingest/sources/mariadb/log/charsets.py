"""Character sets of MariaDB and MySQL, by the numbers of their collations: what a
text's bytes are in Unicode, as the server says it. Pure.
"""

# ruff: noqa: RUF001 - characters of other scripts look alike

from __future__ import annotations

import codecs
from collections.abc import Iterator
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
# Python's names of those that it reads alike, but for `_OTHERWISE` and `_OTHER_CODES`.
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
# Of characters of one byte or two, ujis of three as well.
_PAIRS = {
    "big5": "big5",
    "cp932": "cp932",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
}
_UNICODE = {
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "utf8mb3": "utf_8",
    "utf8mb4": "utf_8",
}
# The upper half of those that Python does not know.
_UPPER = {
    "armscii8": "".join(map(chr, range(0x80, 0xA1)))
    + (
        "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸ"
        "ըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈ"
        "ոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "dec8": "".join(map(chr, range(0x80, 0xA4)))
    + (
        "?¥?§¤©ª«????°±²³?µ¶·?¹º»¼½?¿ÀÁÂÃ"
        "ÄÅÆÇÈÉÊËÌÍÎÏ?ÑÒÓÔÕÖŒØÙÚÛÜŸ?ßàáâã"
        "äåæçèéêëìíîï?ñòóôõöœøùúûüÿ??"
    ),
    "geostd8": (
        "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????"
        "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ???????????????????????№??"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0"
    ),
    "tis620": "".join(map(chr, range(0x80, 0xA0)))
    + "\ufffd"
    + "".join(map(chr, range(0xE01, 0xE3B)))
    + "\ufffd" * 4
    + "".join(map(chr, range(0xE3F, 0xE5C)))
    + "\ufffd" * 4,
}
_NONE = "?"
# What a server says of codes that are no character in some sets.
_SHARED = "\ufffd"
_KATAKANA = range(0xA1, 0xE0)
_NEC = (0xED, 0xEE)
_OTHERWISE = {
    "cp1256": dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), _NONE),
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: _NONE, 0xA5: _NONE, 0xAA: _NONE},
    "hebrew": {0xAF: "‾"},
    "koi8u": {0x95: "•"},
    "latin1": {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
}
_OTHER_CODES = {
    "big5": {
        **dict.fromkeys(
            (
                b"\xa1\x5a",
                b"\xa1\xc3",
                b"\xa1\xc5",
                b"\xa1\xfe",
                b"\xa2\x40",
                b"\xa2\xcc",
                b"\xa2\xce",
            ),
            "\ufffd",
        ),
        **{bytes((0xF9, 0xD6 + n)): char for n, char in enumerate("碁銹裏墻恒粧嫺")},
    },
    "sjis": {b"\x81\x5f": "\\"},
    "ujis": {b"\xa1\xc0": "\\"},
}
# Those with bytes that are no character, or characters of several codes.
INEXACT = frozenset({*_BYTES, *_PAIRS, *_UPPER} - {"latin1"})
# What is no character reads as one question mark; where characters have one byte or
# two, such a code has two.
_HANDLER, _PAIR, _UJIS = "sluice.question_mark", "sluice.pair", "sluice.ujis"
_THREE, _OWN_ROW = 0x8F, 0xF5
_OWN_ROWS = range(_OWN_ROW, 0xFF)


def _question_mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _NONE, error.end


def _no_pair(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _NONE, min(error.start + 2, len(error.object))


def _own_character(error: UnicodeError) -> tuple[str, int]:
    """Of ujis: ten rows each of two and of three bytes are for characters of a user's
    own."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    size = 3 if error.object[error.start] == _THREE else 2
    code = error.object[error.start : error.start + size]
    end = error.start + len(code)
    if len(code) < size or code[-2] < _OWN_ROW:
        return _NONE, end
    first = 0xE3AC if size == 3 else 0xE000
    return chr(first + 94 * (code[-2] - _OWN_ROW) + code[-1] - 0xA1), end


codecs.register_error(_HANDLER, _question_mark)
codecs.register_error(_PAIR, _no_pair)
codecs.register_error(_UJIS, _own_character)


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
    return any(charset in known for known in (_BYTES, _UPPER, _PAIRS, _UNICODE))


def decoded(data: bytes, charset: str) -> str:
    """As the server says it in Unicode. ValueError when it is not known how."""
    if table := _table(charset):
        return codecs.charmap_decode(data, "strict", table)[0]
    if name := _PAIRS.get(charset):
        other = _OTHER_CODES.get(charset, {})
        errors = _UJIS if charset == "ujis" else _PAIR
        if any(code in data for code in other):
            codes = _codes(data, charset)
            return "".join(other.get(c) or c.decode(name, errors) for c in codes)
        return data.decode(name, errors)
    if name := _UNICODE.get(charset):
        return data.decode(name, _HANDLER)
    raise ValueError(
        Sentence(
            "the character set %(charset)s is not read from the log", charset=charset
        )
    )


def is_shared(data: bytes, charset: str) -> bool:
    """Whether other bytes are the same text in Unicode, or may be: the server would not
    write it so. charset: one of INEXACT."""
    text = decoded(data, charset)
    if _SHARED in text:
        return True
    if table := _table(charset):
        return bytes(map(table.index, text)) != data
    name, own = _PAIRS[charset], _written_otherwise(charset)
    return b"".join(own.get(c) or c.encode(name, "replace") for c in text) != data


@cache
def _written_otherwise(charset: str) -> dict[str, bytes]:
    """Codes that Python would not take, where a server writes these characters."""
    if charset == "cp932":
        # of what NEC and IBM both added, the codes of IBM
        codes = [bytes((a, b)) for a in (0xFA, 0xFB, 0xFC) for b in range(0x40, 0xFD)]
        both = ((code.decode("cp932", "ignore"), code) for code in codes)
        return {c: code for c, code in both if c and c.encode("cp932")[0] in _NEC}
    if charset == "ujis":
        pairs = [bytes((a, b)) for a in _OWN_ROWS for b in range(0xA1, 0xFF)]
        own = (*pairs, *(bytes((_THREE, *pair)) for pair in pairs))
        return {decoded(code, charset): code for code in own}
    return {char: code for code, char in _OTHER_CODES.get(charset, {}).items()}


def _codes(data: bytes, charset: str) -> Iterator[bytes]:
    """One a character."""
    at, single = 0, _KATAKANA if charset in {"cp932", "sjis"} else range(0)
    while at < len(data):
        size = 1 if data[at] < 0x80 or data[at] in single else 2
        size = 3 if charset == "ujis" and data[at] == _THREE else size
        yield data[at : at + size]
        at += size


@cache
def _table(charset: str) -> str:
    """The character of each byte; "" = it has characters of several bytes."""
    if upper := _UPPER.get(charset):
        return "".join(map(chr, range(0x80))) + upper
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
