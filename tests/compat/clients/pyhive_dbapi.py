"""PyHive's DB-API."""

from __future__ import annotations

from _checks import CONNECTION, IS_HTTP, run
from pyhive import hive

TRANSPORT = {"scheme": "http", "auth": "BASIC"} if IS_HTTP else {"auth": "LDAP"}


def connect(**options):
    return hive.connect(**CONNECTION, **TRANSPORT, **options)


def first_table(cursor):
    cursor.execute("SHOW DATABASES")
    database = next(name for (name,) in cursor.fetchall() if name != "default")
    cursor.execute(f"SHOW TABLES IN {database}")
    return f"{database}.{cursor.fetchall()[0][0]}"


def reads_rows_and_types():
    with connect() as link, link.cursor() as cursor:
        cursor.execute("SELECT 1 AS a, 'x' AS b, CAST(1.50 AS DECIMAL(5,2)) AS c")
        assert [column[0] for column in cursor.description] == ["a", "b", "c"]
        assert cursor.fetchall()[0][:2] == (1, "x")


def reads_many_and_wide_rows():
    with connect() as link, link.cursor() as cursor:
        cursor.execute("SELECT id FROM range(100000)")
        assert len(cursor.fetchall()) == 100_000
        cursor.execute("SELECT repeat('x', 1000000) FROM range(200)")
        assert sum(len(row[0]) for row in cursor) == 200_000_000


def tells_stages_in_its_log():
    with connect() as link, link.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM range(1000000)", async_=True)
        cursor.poll()
        cursor.fetchall() if cursor.poll().operationState == 2 else None
        cursor.execute("SELECT 1")
        assert any("Stage" in line for line in cursor.fetch_logs())


def describes_and_shows():
    with connect() as link, link.cursor() as cursor:
        table = first_table(cursor)
        for statement in ("DESCRIBE", "SHOW CREATE TABLE", "SHOW TBLPROPERTIES"):
            cursor.execute(f"{statement} {table}")
            assert cursor.fetchall(), statement


def leaves_meta_columns_out_when_asked():
    options = {"set:hiveconf:sluice.hide_meta_columns": "true"}
    with connect(configuration=options) as link, link.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {first_table(cursor)} LIMIT 1")
        names = [column[0].split(".")[-1] for column in cursor.description]
        assert not [name for name in names if name.startswith(("_hoodie", "_sluice"))]


run(
    reads_rows_and_types,
    reads_many_and_wide_rows,
    tells_stages_in_its_log,
    describes_and_shows,
    leaves_meta_columns_out_when_asked,
)
