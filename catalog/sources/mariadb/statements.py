"""The statements that discovery runs on MariaDB 10.5 and MySQL 8.0 and later.

information_schema shows what the login has some privilege on. MariaDB opens a table
for nearly everything it tells of it, but compares names before: so names come from a
listing of directories, and all else by name. A bounded number of statements a page.
"""

from __future__ import annotations

from collections.abc import Iterable

from catalog.sources.mariadb.older import FACTS

Values = dict[str, str | list[str]]

# CAST AS BINARY: information_schema compares without regard to case, by which names may
# differ.
_SYSTEM = "'information_schema', 'mysql', 'performance_schema', 'sys', 'ndbinfo'"
_WANTED = f"""
    {{column}} NOT IN ({_SYSTEM})
    AND (%(everything)s OR CAST({{column}} AS BINARY) IN %(include)s)
    AND CAST({{column}} AS BINARY) NOT IN %(exclude)s
"""

DATABASES = f"""
SELECT SCHEMA_NAME FROM information_schema.SCHEMATA
WHERE {_WANTED.format(column="SCHEMA_NAME")}
ORDER BY CAST(SCHEMA_NAME AS BINARY)
"""

_TABLES = f"""
FROM information_schema.TABLES WHERE {_WANTED.format(column="TABLE_SCHEMA")}
"""
COUNT = f"SELECT COUNT(*) {_TABLES}"

# Of the zone that sessions get by default, whatever ours is: within a year.
ZONE = """
WITH RECURSIVE weeks AS (
  SELECT -52 AS n UNION ALL SELECT n + 1 FROM weeks WHERE n < 52
), moments AS (SELECT UTC_TIMESTAMP() + INTERVAL n WEEK AS utc FROM weeks
), offsets AS (
  SELECT TIMESTAMPDIFF(SECOND, utc, CONVERT_TZ(utc, '+00:00', @@global.time_zone)) AS s
  FROM moments
) SELECT min(s), max(s) FROM offsets
"""

NAMES = f"""
SELECT TABLE_SCHEMA, TABLE_NAME {_TABLES}
AND (CAST(TABLE_SCHEMA AS BINARY) > CAST(%(after_schema)s AS BINARY)
     OR (CAST(TABLE_SCHEMA AS BINARY) = CAST(%(after_schema)s AS BINARY)
         AND CAST(TABLE_NAME AS BINARY) > CAST(%(after_table)s AS BINARY)))
ORDER BY CAST(TABLE_SCHEMA AS BINARY), CAST(TABLE_NAME AS BINARY)
LIMIT %(limit)s
"""

# A single database by `=` is found without a listing of all. An IN list of names that
# differ by case only would become such an `=` and lose the others.
_NAMED = "WHERE {databases} AND CAST(TABLE_NAME AS BINARY) IN %(tables)s"
_ONE = "TABLE_SCHEMA = %(schema)s"
_MANY = "CAST(TABLE_SCHEMA AS BINARY) IN %(schemas)s"


def of_names(statement: str, names: Iterable[tuple[str, str]]) -> tuple[str, Values]:
    """A statement below, and its values, for tables named by database and name.

    Of several databases it may give a few rows more than asked for.
    """
    both = list(names)
    schemas = list(dict.fromkeys(schema for schema, _ in both))
    values: Values = {
        "schema": schemas[0],
        "schemas": schemas,
        "tables": list(dict.fromkeys(table for _, table in both)),
    }
    return statement.replace("{databases}", _MANY if schemas[1:] else _ONE), values


TABLES = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, TABLE_COMMENT,
       TABLE_ROWS, DATA_LENGTH
FROM information_schema.TABLES {_NAMED}
"""

WIDTHS = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, COUNT(*)
FROM information_schema.COLUMNS {_NAMED} GROUP BY TABLE_SCHEMA, TABLE_NAME
"""

COLUMNS = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_COMMENT,
       FIND_IN_SET('select', PRIVILEGES) > 0, UPPER(GENERATION_EXPRESSION) = 'ROW END',
       COLLATION_NAME, COLUMN_KEY <> '', PRIVILEGES, {FACTS}
FROM information_schema.COLUMNS {_NAMED}
ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION
"""

INDEXES = f"""
SELECT TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, NON_UNIQUE = 0, COLUMN_NAME,
       SUB_PART IS NULL, NULLABLE = 'YES', INDEX_TYPE = 'BTREE'
FROM information_schema.STATISTICS {_NAMED}
ORDER BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX
"""

# Of this login itself; of its roles nothing tells it.
COLUMN_GRANTS = f"""
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.COLUMN_PRIVILEGES
{_NAMED} AND GRANTEE = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')
"""

READABLE = f"""
SELECT COUNT(*), SUM(may_select) FROM (
    SELECT MAX(FIND_IN_SET('select', PRIVILEGES) > 0) AS may_select
    FROM information_schema.COLUMNS WHERE {_WANTED.format(column="TABLE_SCHEMA")}
    GROUP BY CAST(TABLE_SCHEMA AS BINARY), CAST(TABLE_NAME AS BINARY)
) AS visible
"""
