"""How to connect to what a page shows: beeline, JDBC, PyHive, SQLAlchemy, Spark.

Text only; no secret is ever in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from catalog.models import Table

_BEELINE = """\
beeline -u "{url}" -n {user} -p '<password or slt_ token>' -e "{statement}"
"""
_PYHIVE = """\
from pyhive import hive

connection = hive.connect(
    host="{host}", port={port}, database="{database}",
    username="{user}", password="<password or slt_ token>", {login},
)
cursor = connection.cursor()
cursor.execute("{statement}")
print(cursor.fetchall())
"""
_SQLALCHEMY = """\
from urllib.parse import quote_plus
import pandas, sqlalchemy  # pip install pandas sqlalchemy "pyhive[hive-pure-sasl]"

password = quote_plus("<password or slt_ token>")
engine = sqlalchemy.create_engine(
    f"{address}"
)
print(pandas.read_sql_query("{statement}", engine))
"""
_BINARY = (
    'auth="CUSTOM"',
    "hive://{user}:{{password}}@{host}:{port}/{database}?auth=CUSTOM",
)
# PyHive has no TLS on the binary transport
_HTTPS = (
    'auth="BASIC",\n    scheme="https", ssl_cert="required", check_hostname="true"',
    "hive+https://{user}:{{password}}@{host}:{port}/?database={database}"
    "&auth=BASIC&ssl_cert=required&check_hostname=true",
)
_PAST_GRANTS = _(
    "Reads files past the gateway, so no grant is asked: administrators only."
)
_SPARK = """\
# a Spark with the Hudi bundle; its user must be able to read the lake's files
table = spark.read.format("hudi").load("{path}")
table.where("NOT coalesce(_sluice_deleted, false)").show()
"""


@dataclass(frozen=True, slots=True)
class Snippet:
    """`key` names it within the page, `text` is what gets copied."""

    key: str
    title: str
    text: str
    note: str = ""


def snippets_for(request: HttpRequest, table: Table) -> list[Snippet]:
    """Ready-to-paste connections for a lake table; none for a source table."""
    if table.kind != Table.LAKE:
        return []
    statement = select_some(table)
    clients = client_snippets(request, table.database.name, statement)
    found = [Snippet("sql", "SQL", statement), *clients]
    if request.user.is_superuser and table.path:
        text = _SPARK.format(path=table.path)
        found.append(Snippet("spark", "Spark", text, note=str(_PAST_GRANTS)))
    return found


def client_snippets(
    request: HttpRequest, database: str, statement: str
) -> list[Snippet]:
    """How each client connects to a database and asks a first statement."""
    host = request.get_host().rsplit(":", 1)[0]
    port, user = settings.SLUICE_GATEWAY_PORT, request.user.get_username()
    http_port = settings.SLUICE_GATEWAY_HTTP_PORT
    has_tls = bool(settings.SLUICE_TLS_CERTIFICATE)
    tls = ";ssl=true" if has_tls else ""
    url = f"jdbc:hive2://{host}:{port}/{database}{tls}"
    facts = {
        "host": host,
        "port": http_port if has_tls else port,
        "user": user,
        "database": database,
        "statement": statement,
    }
    login, address = _HTTPS if has_tls else _BINARY
    over_http = url.replace(f":{port}/", f":{http_port}/")
    return [
        Snippet("jdbc", "JDBC", url),
        Snippet(
            "jdbc-http",
            str(_("JDBC over HTTP")),
            f"{over_http};transportMode=http;httpPath=cliservice",
        ),
        Snippet("beeline", "beeline", _BEELINE.format(url=url, **facts)),
        Snippet("pyhive", "PyHive", _PYHIVE.format(login=login, **facts)),
        Snippet(
            "sqlalchemy",
            "SQLAlchemy",
            _SQLALCHEMY.format(address=address.format(**facts), **facts),
        ),
    ]


def select_some(table: Table) -> str:
    """A first statement for a lake table; its names need no quotes."""
    return f"SELECT * FROM {table.database.name}.{table.name} LIMIT 10"
