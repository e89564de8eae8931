"""A table with every type of release 1, and its comparison with the lake.

The source's values come as COPY text, typed by PostgreSQL itself; the lake's come
through readers that share no code with Sluice: the PyPI `hudi` reader and beeline.
"""

from __future__ import annotations

import io
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

CREATE = """
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TABLE wide (
  id bigint PRIMARY KEY,
  a_bool boolean, a_small smallint, a_int integer, a_big bigint,
  a_real real, a_double double precision,
  a_num numeric(20,4), a_wide numeric(60,20), a_free numeric,
  a_text text, a_varchar varchar(40), a_char char(8), a_bytes bytea,
  a_date date, a_time time, a_ts timestamp, a_tstz timestamptz,
  a_uuid uuid, a_json json, a_jsonb jsonb, a_mood mood, a_list text[],
  updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON wide (updated_at);
"""

FILL = """
INSERT INTO wide
SELECT i,
  CASE i % 3 WHEN 0 THEN NULL WHEN 1 THEN true ELSE false END,
  (i % 65536 - 32768)::smallint,
  CASE WHEN i % 97 = 0 THEN NULL ELSE (hashint8(i)) END,
  CASE i WHEN 1 THEN 9223372036854775807 WHEN 2 THEN -9223372036854775808
         ELSE i * 1000003 END,
  (sin(i) * 10 ^ (i % 30 - 15))::real, cos(i) * 10::double precision ^ (i % 60 - 30),
  (i * 1.0001)::numeric(20,4), (i::numeric / 7)::numeric(60,20),
  CASE WHEN i % 1000 = 0 THEN 'NaN'::numeric ELSE i::numeric / 3 END,
  CASE WHEN i % 11 = 0 THEN NULL
       ELSE E'línea ' || i || E' \\U0001F600 "q" \\\\ , \\t' || repeat('x', (i % 20)::int)
  END,
  'v' || i % 1000, 'c' || i % 100,
  decode(md5(i::text), 'hex'),
  date '1900-01-01' + (i % 60000)::int,
  time '00:00' + make_interval(secs => (i % 86400) + (i % 1000) / 1000.0),
  timestamp '1970-01-01' + make_interval(secs => i * 731.000123),
  timestamptz '2000-01-01 00:00+00' + make_interval(secs => i * 17.5),
  md5(i::text)::uuid, json_build_object('i', i, 'x', 'é'),
  jsonb_build_object('b', i % 7, 'a', ARRAY[i, i + 1]),
  (ARRAY['sad', 'ok', 'happy']::mood[])[1 + i % 3],
  CASE WHEN i % 13 = 0 THEN NULL WHEN i % 13 = 1 THEN '{}'::text[]
       ELSE ARRAY['a' || i, NULL, 'b,"c'] END,
  now() - interval '1 hour'
FROM generate_series({first}::bigint, {last}::bigint) AS i
"""

# column -> (expression at the source giving text, Arrow type to read it as)
COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "id": ("id::text", pa.int64()),
    "a_bool": ("a_bool::int::text", pa.int64()),
    "a_small": ("a_small::text", pa.int64()),
    "a_int": ("a_int::text", pa.int64()),
    "a_big": ("a_big::text", pa.int64()),
    "a_real": ("a_real::text", pa.float32()),
    "a_double": ("a_double::text", pa.float64()),
    "a_num": ("a_num::text", pa.decimal128(20, 4)),
    "a_wide": ("a_wide::text", pa.string()),
    "a_free": ("a_free::text", pa.string()),
    "a_text": ("a_text", pa.string()),
    "a_varchar": ("a_varchar::text", pa.string()),
    "a_char": ("a_char::text", pa.string()),
    "a_bytes": ("encode(a_bytes, 'hex')", pa.string()),
    "a_date": ("(a_date - date '1970-01-01')::text", pa.int64()),
    "a_time": ("a_time::text", pa.string()),
    "a_ts": ("(extract(epoch FROM a_ts) * 1000000)::bigint::text", pa.int64()),
    "a_tstz": ("(extract(epoch FROM a_tstz) * 1000000)::bigint::text", pa.int64()),
    "a_uuid": ("a_uuid::text", pa.string()),
    "a_json": ("a_json::text", pa.string()),
    "a_jsonb": ("a_jsonb::text", pa.string()),
    "a_mood": ("a_mood::text", pa.string()),
    "a_list": ("array_to_json(a_list)::text", pa.string()),
}


def source_table(connection: psycopg.Connection[Any]) -> pa.Table:
    """The source's rows by key, parsed from COPY text by Arrow's CSV reader."""
    listed = ", ".join(f"{sql} AS {name}" for name, (sql, _) in COLUMNS.items())
    buffer = io.BytesIO()
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
        with cursor.copy(
            f"COPY (SELECT {listed} FROM wide ORDER BY id) "
            "TO STDOUT (FORMAT csv, HEADER, FORCE_QUOTE *)"
        ) as copy:
            for data in copy:
                buffer.write(data)
    buffer.seek(0)
    return pyarrow.csv.read_csv(
        buffer,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: kind for name, (_, kind) in COLUMNS.items()},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            null_values=[""],
        ),
    )


def lake_table(path: str) -> pa.Table:
    """The lake's rows by key, through a reader that is not Spark."""
    from hudi import HudiTableBuilder

    table = HudiTableBuilder.from_base_uri(path).build()
    batches = table.read_snapshot()
    return pa.Table.from_batches(batches).sort_by("id")


def as_comparable(lake: pa.Table) -> pa.Table:
    """Lake values in the types of COLUMNS, by Arrow's own casts."""
    columns: dict[str, Any] = {}
    for name, (_, kind) in COLUMNS.items():
        column = lake.column(name)
        if name == "a_bytes":
            column = pa.array(
                [None if v is None else v.hex() for v in column.to_pylist()]
            )
        elif name == "a_list":
            column = pa.array([_json(v) for v in column.to_pylist()])
        elif name == "a_date":
            column = column.cast(pa.int32()).cast(pa.int64())
        elif pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        columns[name] = column.cast(kind)
    return pa.table(columns)


def _json(value: list[str | None] | None) -> str | None:
    if value is None:
        return None
    quoted = (
        "null" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for v in value
    )
    return "[" + ",".join(quoted) + "]"


def differences(source: pa.Table, lake: pa.Table) -> dict[str, list[Any]]:
    """Column -> up to three (id, source, lake) that differ; {} when equal."""
    found: dict[str, list[Any]] = {}
    for name in COLUMNS:
        left, right = source.column(name), lake.column(name)
        same = pc.equal(left, right)
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        equal = pc.or_(pc.fill_null(same, fill_value=False), both_null)
        wrong = pc.indices_nonzero(pc.invert(equal)).to_pylist()[:3]
        if wrong:
            found[name] = [
                (source.column("id")[i].as_py(), left[i].as_py(), right[i].as_py())
                for i in wrong
            ]
    return found
