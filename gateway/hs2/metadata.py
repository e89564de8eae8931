"""Result schemas of the metadata calls, column by column as JDBC reads them."""

from __future__ import annotations

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
LOG = _columns(("operation_log", _S))
