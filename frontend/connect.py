"""How to connect to what a page shows: JDBC URL, PyHive, beeline. Text only."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest

from catalog.models import Table

_PYHIVE = """\
from pyhive import hive

connection = hive.connect(
    host="{host}", port={port}, database="{database}",
    username="{user}", password="<password or slt_ token>", auth="CUSTOM",
)
cursor = connection.cursor()
cursor.execute("{statement}")
print(cursor.fetchall())
"""


@dataclass(frozen=True, slots=True)
class Snippet:
    """`key` names it within the page, `text` is what gets copied."""

    key: str
    title: str
    text: str


def snippets_for(request: HttpRequest, table: Table) -> list[Snippet]:
    """Ready-to-paste connections for a lake table; none for a source table."""
    if table.kind != Table.LAKE:
        return []
    host = request.get_host().rsplit(":", 1)[0]
    port, user = settings.SLUICE_GATEWAY_PORT, request.user.get_username()
    database = table.database.name
    statement = select_some(table)
    facts = {
        "host": host,
        "port": port,
        "user": user,
        "database": database,
        "statement": statement,
    }
    url = f"jdbc:hive2://{host}:{port}/{database}"
    return [
        Snippet("sql", "SQL", statement),
        Snippet("jdbc", "JDBC", url),
        Snippet("beeline", "beeline", f'beeline -u "{url}" -n {user} -e "{statement}"'),
        Snippet("pyhive", "PyHive", _PYHIVE.format(**facts)),
    ]


def select_some(table: Table) -> str:
    """A first statement for a lake table; its names need no quotes."""
    return f"SELECT * FROM {table.database.name}.{table.name} LIMIT 10"
