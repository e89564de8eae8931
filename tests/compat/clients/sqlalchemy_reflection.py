"""SQLAlchemy with PyHive's dialect, as Superset reflects a database, and pandas on it."""

from __future__ import annotations

from urllib.parse import quote

import pandas
import sqlalchemy
from _checks import CONNECTION, IS_HTTP, run

FORM = "://{username}:{password}@{host}:{port}"
FORM = f"hive+http{FORM}" if IS_HTTP else f"hive{FORM}/default?auth=LDAP"
ADDRESS = FORM.format(
    **{key: quote(str(value), safe="") for key, value in CONNECTION.items()}
)
engine = sqlalchemy.create_engine(ADDRESS)


def a_table():
    inspector = sqlalchemy.inspect(engine)
    schema = next(n for n in inspector.get_schema_names() if n != "default")
    return schema, inspector.get_table_names(schema=schema)[0]


def lists_schemas():
    assert "default" in sqlalchemy.inspect(engine).get_schema_names()


def lists_tables_by_their_names():
    schema, table = a_table()
    assert table != schema
    with engine.connect() as link:
        link.execute(sqlalchemy.text(f"SELECT * FROM {schema}.{table} LIMIT 1"))


def knows_which_tables_there_are():
    inspector = sqlalchemy.inspect(engine)
    schema, table = a_table()
    assert inspector.has_table(table, schema=schema)
    assert not inspector.has_table("nowhere_to_be_found", schema=schema)


def reflects_columns():
    schema, table = a_table()
    inspector = sqlalchemy.inspect(engine)
    names = [column["name"] for column in inspector.get_columns(table, schema=schema)]
    assert "_sluice_seq" in names
    assert inspector.get_indexes(table, schema=schema) == []


def reflects_a_table_and_queries_it():
    schema, name = a_table()
    metadata = sqlalchemy.MetaData()
    table = sqlalchemy.Table(name, metadata, schema=schema, autoload_with=engine)
    with engine.connect() as link:
        count = sqlalchemy.select(sqlalchemy.func.count()).select_from(table)
        assert link.execute(count).scalar() >= 0


def reads_into_pandas():
    # `read_sql` would first ask whether a table has this name, by DESCRIBE, and any
    # query can be described
    query = sqlalchemy.text("SELECT id, id * 2 AS b FROM range(1000)")
    frame = pandas.read_sql_query(query, engine)
    assert (len(frame), list(frame.columns)) == (1000, ["id", "b"])


run(
    lists_schemas,
    lists_tables_by_their_names,
    knows_which_tables_there_are,
    reflects_columns,
    reflects_a_table_and_queries_it,
    reads_into_pandas,
)
