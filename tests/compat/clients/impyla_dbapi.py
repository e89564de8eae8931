"""impyla, by SASL PLAIN or over HTTP."""

from __future__ import annotations

from _checks import CONNECTION, IS_HTTP, run
from impala.dbapi import connect


def cursor():
    link = connect(
        host=CONNECTION["host"],
        port=CONNECTION["port"],
        user=CONNECTION["username"],
        password=CONNECTION["password"],
        auth_mechanism="PLAIN",
        use_http_transport=IS_HTTP,
        http_path="cliservice",
    )
    return link.cursor()


def reads_rows():
    at = cursor()
    at.execute("SELECT id, 'x' AS b FROM range(5000)")
    assert len(at.fetchall()) == 5000


def lists_databases_and_tables():
    at = cursor()
    at.get_databases()
    names = [row[0] for row in at.fetchall()]
    database = next(name for name in names if name != "default")
    at.get_tables(database_name=database)
    assert at.fetchall()


def pings():
    assert cursor().ping() if hasattr(cursor(), "ping") else True


run(reads_rows, lists_databases_and_tables, pings)
