"""Reading one range of a source table through Spark's JDBC.

The statement is complete when it comes here. It must not know chunks or plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ingest.changes.quoting import literal
from ingest.changes.select import SelectedColumn, Selection
from ingest.spark.source import SESSION_SETTINGS, SourceAccess

_MOST_ROWS = 10_000
_LEAST_ROWS = 20
_FETCH_BYTES = 16 << 20
_TRANSACTION = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


def read_statement(
    spark: SparkSession,
    access: SourceAccess,
    selection: Selection,
    *,
    sql: str,
    snapshot: str,
    row_bytes: int = 0,
) -> DataFrame:
    """One partition with the rows of `sql`, as of the exported `snapshot`.

    row_bytes  average width, so that wide rows are fetched a few at a time
    Columns c0…, m0… of the selection, each of its lake type.
    """
    options = _options(access, sql, snapshot)
    options["fetchsize"] = str(fetch_rows(row_bytes))
    reader = spark.read.format("jdbc").options(**options)
    return cast_to_lake(reader.load(), selection)


def fetch_rows(row_bytes: int) -> int:
    """Rows per round trip that stay within a few megabytes of heap."""
    fit = _FETCH_BYTES // max(row_bytes, 1)
    return max(_LEAST_ROWS, min(_MOST_ROWS, fit))


def cast_to_lake(rows: DataFrame, selection: Selection) -> DataFrame:
    columns = [_lake_value(c).alias(c.alias) for c in selection.columns]
    return rows.select(*columns, *selection.mask_aliases)


def _lake_value(column: SelectedColumn) -> Column:
    """Dates travel as days, timestamps as microseconds since 1970."""
    if column.type == "date":
        return F.expr(f"date_from_unix_date({column.alias})")
    if column.type.startswith("timestamp"):
        moment = F.expr(f"timestamp_micros({column.alias})")
        return moment.cast(column.type)
    return F.col(column.alias).cast(column.type)


def pinned_to(addresses: Sequence[str]) -> dict[str, str]:
    """Options that send the connections there and nowhere else; the name in the URL
    stays for TLS, which by it picks the server and checks the certificate."""
    if not addresses:
        return {}
    factory = "io.sluice.lake.PinnedSocketFactory"
    return {"socketFactory": factory, "socketFactoryArg": ",".join(addresses)}


def _options(access: SourceAccess, sql: str, snapshot: str) -> dict[str, str]:
    source = access.spec
    host = f"[{source.host}]" if ":" in source.host else source.host
    settings = "; ".join(
        f"SET LOCAL {k} = {literal(v)}" for k, v in SESSION_SETTINGS.items()
    )
    import_snapshot = f"SET TRANSACTION SNAPSHOT {literal(snapshot)}"
    return {
        "url": f"jdbc:postgresql://{host}:{source.port}/{quote(source.database, '')}",
        "driver": "org.postgresql.Driver",
        "user": source.username,
        "password": access.password,
        "sslmode": access.ssl_mode,
        "ApplicationName": access.application,
        "dbtable": f"({sql}) AS source_rows",
        "sessionInitStatement": f"{_TRANSACTION}; {import_snapshot}; {settings}",
        "loginTimeout": "10",
        "tcpKeepAlive": "true",
        "pushDownPredicate": "false",
        **pinned_to(access.addresses),
        **_trust(access),
    }


def _trust(access: SourceAccess) -> dict[str, str]:
    """Left to itself, the driver trusts a file in somebody's home directory."""
    if access.spec.tls != "verify":
        return {}
    if access.authorities:
        return {"sslrootcert": access.authorities}
    return {"sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory"}
