"""The answer to every kind of GetInfo; an unknown kind gets an empty text.

Kinds and value types are those of ODBC's SQLGetInfo, which HiveServer2 copies.
"""

from __future__ import annotations

from gateway.hs2.messages import InfoValue

_TEXTS = {
    2: "sluice",  # CLI_DATA_SOURCE_NAME
    13: "Sluice",  # CLI_SERVER_NAME
    14: "\\",  # CLI_SEARCH_PATTERN_ESCAPE
    17: "Spark SQL",  # CLI_DBMS_NAME
    19: "Y",  # CLI_ACCESSIBLE_TABLES: listed tables may be selected or discovered
    20: "N",  # CLI_ACCESSIBLE_PROCEDURES
    25: "Y",  # CLI_DATA_SOURCE_READ_ONLY: lake tables are read-only for SQL
    29: "`",  # CLI_IDENTIFIER_QUOTE_CHAR
    73: "N",  # CLI_INTEGRITY
    90: "N",  # CLI_ORDER_BY_COLUMNS_IN_SELECT
    94: "",  # CLI_SPECIAL_CHARACTERS
    10000: "1995",  # CLI_XOPEN_CLI_YEAR
    10002: "N",  # CLI_DESCRIBE_PARAMETER
    10003: "Y",  # CLI_CATALOG_NAME
    10004: "UTF-8",  # CLI_COLLATION_SEQ
}
_SMALL = {
    0: 0,  # CLI_MAX_DRIVER_CONNECTIONS: 0 = no known limit
    1: 0,  # CLI_MAX_CONCURRENT_ACTIVITIES
    23: 0,  # CLI_CURSOR_COMMIT_BEHAVIOR: closed
    28: 3,  # CLI_IDENTIFIER_CASE: not sensitive, stored in lower case
    30: 255,  # CLI_MAX_COLUMN_NAME_LEN
    31: 0,  # CLI_MAX_CURSOR_NAME_LEN
    32: 128,  # CLI_MAX_SCHEMA_NAME_LEN
    34: 128,  # CLI_MAX_CATALOG_NAME_LEN
    35: 128,  # CLI_MAX_TABLE_NAME_LEN
    46: 0,  # CLI_TXN_CAPABLE: none
    85: 1,  # CLI_NULL_COLLATION: low
    97: 0,  # CLI_MAX_COLUMNS_IN_GROUP_BY
    98: 0,  # CLI_MAX_COLUMNS_IN_INDEX
    99: 0,  # CLI_MAX_COLUMNS_IN_ORDER_BY
    100: 0,  # CLI_MAX_COLUMNS_IN_SELECT
    101: 0,  # CLI_MAX_COLUMNS_IN_TABLE
    106: 0,  # CLI_MAX_TABLES_IN_SELECT
    107: 150,  # CLI_MAX_USER_NAME_LEN
    10005: 128,  # CLI_MAX_IDENTIFIER_LEN
}
_BITMASKS = {
    8: 1,  # CLI_FETCH_DIRECTION: next
    26: 0,  # CLI_DEFAULT_TXN_ISOLATION
    43: 1,  # CLI_SCROLL_CONCURRENCY: read only
    72: 0,  # CLI_TXN_ISOLATION_OPTION
    81: 3,  # CLI_GETDATA_EXTENSIONS: any column, any order
    86: 0,  # CLI_ALTER_TABLE
    115: 0x7F,  # CLI_OJ_CAPABILITIES
}
_LENGTHS = {
    102: 0,  # CLI_MAX_INDEX_SIZE
    104: 0,  # CLI_MAX_ROW_SIZE
    105: 0,  # CLI_MAX_STATEMENT_LEN
    10001: 0,  # CLI_CURSOR_SENSITIVITY
}
_VERSION, _USER = 18, 47


def info_value(kind: int, *, version: str, username: str) -> InfoValue:
    """Return the value of one kind. `version` is the engine's, "3.5.7"."""
    if kind == _VERSION:
        return InfoValue(text=version)
    if kind == _USER:
        return InfoValue(text=username)
    if kind in _SMALL:
        return InfoValue(small=_SMALL[kind])
    if kind in _BITMASKS:
        return InfoValue(bitmask=_BITMASKS[kind])
    if kind in _LENGTHS:
        return InfoValue(length=_LENGTHS[kind])
    return InfoValue(text=_TEXTS.get(kind, ""))
