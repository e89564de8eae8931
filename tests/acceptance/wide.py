"""A table with every type of release 1, and its comparison with the lake.

Both sides give each row as text, the source by PostgreSQL's own casts, the lake by
Spark's through PyHive; floats come as numbers, since their texts differ by taste
(`1e+20`, `1.0E20`). The PyPI `hudi` reader shares no code with either, but knows no
timestamp without zone, which this table has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg

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
  (i * 7 % 65536 - 32768)::smallint,
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
  date '1900-01-01' + (i * 7 % 60000)::int,
  time '00:00' + make_interval(secs => (i * 7 % 86400) + (i % 1000) / 1000.0),
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

SEPARATOR = "\x1f"
NULL = "\\N"

# column -> (text at the source, text in the lake)
TEXTS = {
    "a_bool": ("a_bool::text", "a_bool"),
    "a_small": ("a_small::text", "a_small"),
    "a_int": ("a_int::text", "a_int"),
    "a_big": ("a_big::text", "a_big"),
    "a_num": ("a_num::text", "a_num"),
    "a_wide": ("a_wide::text", "a_wide"),
    "a_free": ("a_free::text", "a_free"),
    "a_text": ("a_text", "a_text"),
    "a_varchar": ("a_varchar::text", "a_varchar"),
    "a_char": ("a_char::text", "a_char"),
    "a_bytes": ("encode(a_bytes, 'hex')", "lower(hex(a_bytes))"),
    "a_date": ("a_date::text", "a_date"),
    "a_time": ("a_time::text", "a_time"),
    "a_ts": ("a_ts::text", "a_ts"),
    "a_tstz": ("(a_tstz AT TIME ZONE 'UTC')::text", "a_tstz"),
    "a_uuid": ("a_uuid::text", "a_uuid"),
    "a_json": ("a_json::text", "a_json"),
    "a_jsonb": ("a_jsonb::text", "a_jsonb"),
    "a_mood": ("a_mood::text", "a_mood"),
    "a_list": ("array_to_json(a_list)::text", "to_json(a_list)"),
}
# exact as doubles, on both sides
FLOATS = {
    "a_real": ("a_real::float8", "cast(a_real AS double)"),
    "a_double": ("a_double", "a_double"),
}

Row = tuple[int, str, float, float]


def source_rows(connection: psycopg.Connection[Any], where: str) -> Iterator[Row]:
    """By key, through a cursor at the server, so that memory stays small."""
    texts = ", ".join(f"coalesce({at}, '{NULL}')" for at, _ in TEXTS.values())
    floats = ", ".join(at for at, _ in FLOATS.values())
    with connection.transaction(), connection.cursor(name="rows") as cursor:
        cursor.itersize = 20_000
        cursor.execute(
            f"SELECT id, concat_ws(chr(31), {texts}), {floats} FROM wide"
            f" WHERE {where} ORDER BY id"
        )
        yield from cursor


def lake_rows(hive: Any, where: str) -> Iterator[Row]:
    """By key, as one statement through the gateway."""
    escaped = NULL.replace("\\", "\\\\")
    texts = ", ".join(
        f"coalesce(cast({at} AS string), '{escaped}')" for _, at in TEXTS.values()
    )
    floats = ", ".join(at for _, at in FLOATS.values())
    with hive.cursor(arraysize=10_000) as cursor:
        cursor.execute(
            f"SELECT id, concat_ws(char(31), {texts}), {floats}"
            f" FROM lake.wide.wide WHERE {where} ORDER BY id"
        )
        yield from cursor


def differences(source: Iterator[Row], lake: Iterator[Row]) -> tuple[int, list[Any]]:
    """Rows compared, and the first few differences as (id, column, source, lake)."""
    count, found = 0, []
    for left, right in zip(source, lake, strict=True):
        count += 1
        if left != right and len(found) < 5:
            found += _columns_that_differ(left, right)
    return count, found


def _columns_that_differ(left: Row, right: Row) -> list[Any]:
    names = ("id", *TEXTS, *FLOATS)
    pairs = zip(names, _flat(left), _flat(right), strict=True)
    return [(left[0], name, a, b) for name, a, b in pairs if a != b]


def _flat(row: Row) -> tuple[Any, ...]:
    return (row[0], *row[1].split(SEPARATOR), *row[2:])
