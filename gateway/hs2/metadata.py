"""Results of the metadata calls: columns as JDBC reads them, and the rows of types."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.hs2.messages import InfoValue
from gateway.hs2.values import ColumnDesc, TypeId, column_desc

_S, _I, _H = TypeId.STRING, TypeId.INT, TypeId.SMALLINT
Columns = tuple[ColumnDesc, ...]


def _columns(*pairs: tuple[str, int]) -> Columns:
    return tuple(
        column_desc(name, kind, position)
        for position, (name, kind) in enumerate(pairs, start=1)
    )


CATALOGS = _columns(("TABLE_CAT", _S))
SCHEMAS = _columns(("TABLE_SCHEM", _S), ("TABLE_CATALOG", _S))
TABLE_TYPES = _columns(("TABLE_TYPE", _S))
TABLES = _columns(
    ("TABLE_CAT", _S),
    ("TABLE_SCHEM", _S),
    ("TABLE_NAME", _S),
    ("TABLE_TYPE", _S),
    ("REMARKS", _S),
    ("TYPE_CAT", _S),
    ("TYPE_SCHEM", _S),
    ("TYPE_NAME", _S),
    ("SELF_REFERENCING_COL_NAME", _S),
    ("REF_GENERATION", _S),
)
COLUMNS = _columns(
    ("TABLE_CAT", _S),
    ("TABLE_SCHEM", _S),
    ("TABLE_NAME", _S),
    ("COLUMN_NAME", _S),
    ("DATA_TYPE", _I),
    ("TYPE_NAME", _S),
    ("COLUMN_SIZE", _I),
    ("BUFFER_LENGTH", TypeId.TINYINT),
    ("DECIMAL_DIGITS", _I),
    ("NUM_PREC_RADIX", _I),
    ("NULLABLE", _I),
    ("REMARKS", _S),
    ("COLUMN_DEF", _S),
    ("SQL_DATA_TYPE", _I),
    ("SQL_DATETIME_SUB", _I),
    ("CHAR_OCTET_LENGTH", _I),
    ("ORDINAL_POSITION", _I),
    ("IS_NULLABLE", _S),
    ("SCOPE_CATALOG", _S),
    ("SCOPE_SCHEMA", _S),
    ("SCOPE_TABLE", _S),
    ("SOURCE_DATA_TYPE", _H),
    ("IS_AUTO_INCREMENT", _S),
)
FUNCTIONS = _columns(
    ("FUNCTION_CAT", _S),
    ("FUNCTION_SCHEM", _S),
    ("FUNCTION_NAME", _S),
    ("REMARKS", _S),
    ("FUNCTION_TYPE", _I),
    ("SPECIFIC_NAME", _S),
)
TYPE_INFO = _columns(
    ("TYPE_NAME", _S),
    ("DATA_TYPE", _I),
    ("PRECISION", _I),
    ("LITERAL_PREFIX", _S),
    ("LITERAL_SUFFIX", _S),
    ("CREATE_PARAMS", _S),
    ("NULLABLE", _H),
    ("CASE_SENSITIVE", TypeId.BOOLEAN),
    ("SEARCHABLE", _H),
    ("UNSIGNED_ATTRIBUTE", TypeId.BOOLEAN),
    ("FIXED_PREC_SCALE", TypeId.BOOLEAN),
    ("AUTO_INCREMENT", TypeId.BOOLEAN),
    ("LOCAL_TYPE_NAME", _S),
    ("MINIMUM_SCALE", _H),
    ("MAXIMUM_SCALE", _H),
    ("SQL_DATA_TYPE", _I),
    ("SQL_DATETIME_SUB", _I),
    ("NUM_PREC_RADIX", _I),
)
PRIMARY_KEYS = _columns(
    ("TABLE_CAT", _S),
    ("TABLE_SCHEM", _S),
    ("TABLE_NAME", _S),
    ("COLUMN_NAME", _S),
    ("KEQ_SEQ", _I),
    ("PK_NAME", _S),
)
CROSS_REFERENCE = _columns(
    ("PKTABLE_CAT", _S),
    ("PKTABLE_SCHEM", _S),
    ("PKTABLE_NAME", _S),
    ("PKCOLUMN_NAME", _S),
    ("FKTABLE_CAT", _S),
    ("FKTABLE_SCHEM", _S),
    ("FKTABLE_NAME", _S),
    ("FKCOLUMN_NAME", _S),
    ("KEQ_SEQ", _I),
    ("UPDATE_RULE", _I),
    ("DELETE_RULE", _I),
    ("FK_NAME", _S),
    ("PK_NAME", _S),
    ("DEFERRABILITY", _I),
)


_NULLABLE, _SEARCHABLE, _NONE = 1, 3, 0


@dataclass(frozen=True, slots=True)
class SqlType:
    """One type: its JDBC number (java.sql.Types), precision, scale and radix."""

    name: str
    jdbc: int
    precision: int | None = None
    scale: int | None = None
    radix: int | None = None
    is_signed: bool = False
    is_text: bool = False


TYPES: tuple[SqlType, ...] = (
    SqlType("VOID", 0),
    SqlType("BOOLEAN", 16, 1),
    SqlType("TINYINT", -6, 3, 0, 10, is_signed=True),
    SqlType("SMALLINT", 5, 5, 0, 10, is_signed=True),
    SqlType("INT", 4, 10, 0, 10, is_signed=True),
    SqlType("BIGINT", -5, 19, 0, 10, is_signed=True),
    SqlType("FLOAT", 6, 7, 7, 10, is_signed=True),
    SqlType("DOUBLE", 8, 15, 15, 10, is_signed=True),
    SqlType("STRING", 12, 2147483647, is_text=True),
    SqlType("VARCHAR", 12, 2147483647, is_text=True),
    SqlType("CHAR", 1, 255, is_text=True),
    SqlType("DATE", 91, 10),
    SqlType("TIMESTAMP", 93, 29, 9),
    SqlType("BINARY", -2, 2147483647),
    SqlType("DECIMAL", 3, 38, 38, 10, is_signed=True),
    SqlType("ARRAY", 2003),
    SqlType("MAP", 2000),
    SqlType("STRUCT", 2002),
)
_BY_NAME = {kind.name: kind for kind in TYPES}
_SHAPE = re.compile(r"(\w+)(?:\((\d+)(?:,\s*(\d+))?\))?")


def sql_type(text: str) -> SqlType:
    """Return the type of a lake type's text, e.g. `decimal(12,2)`; STRING if odd."""
    found = _SHAPE.match(text)
    known = _BY_NAME.get(found[1].upper()) if found else None
    if found is None or known is None:
        return _BY_NAME["STRING"]
    if known.name == "DECIMAL" and found[2]:
        precision, scale = int(found[2]), int(found[3] or 0)
        return SqlType("DECIMAL", known.jdbc, precision, scale, 10, is_signed=True)
    if known.name in {"VARCHAR", "CHAR"} and found[2]:
        return SqlType(known.name, known.jdbc, int(found[2]), is_text=True)
    return known


def type_info_row(kind: SqlType) -> tuple[object, ...]:
    """Return a row of GetTypeInfo, in the columns of `metadata.TYPE_INFO`."""
    searchable = _NONE if kind.jdbc >= 2000 else _SEARCHABLE
    quote = "'" if kind.is_text or kind.jdbc in {91, 93} else None
    return (
        kind.name,
        kind.jdbc,
        kind.precision,
        quote,
        quote,
        None,
        _NULLABLE,
        kind.is_text,
        searchable,
        not kind.is_signed,
        False,
        False,
        None,
        0,
        kind.scale or 0,
        None,
        None,
        kind.radix,
    )


# --------------------------------------------------------------------------- GetInfo

# Kinds and value types are those of ODBC's SQLGetInfo, which HiveServer2 copies.

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
