"""The types of a real server and what they become."""

from __future__ import annotations

import pytest

from catalog.models import Table
from tests.integration.discovery.support import discover, table

pytestmark = pytest.mark.django_db


MADE = [
    "CREATE TYPE mood AS ENUM ('good', 'it''s')",
    "CREATE TYPE pair AS (a int, b int)",
    "CREATE DOMAIN price AS numeric(10,2) CHECK (VALUE >= 0)",
    "CREATE DOMAIN cheap AS price CHECK (VALUE < 10)",
    "CREATE DOMAIN tags AS text[]",
    "CREATE DOMAIN grid AS int[]",
    """CREATE TABLE t (
        a bigserial, b boolean, c smallint, d numeric(12,3), e numeric,
        f numeric(60,20), g numeric(10,-2), h varchar(20), i char(5), j text,
        k bytea, l date, m timestamp(3), n timestamptz, o time, p uuid, q json,
        r jsonb, s mood, t price, u cheap, v tags, w text[], x price[],
        y mood[], z int[][], aa money, bb interval, cc pair, dd int4range,
        ee inet, ff oid, gg real, hh double precision, ii "char", jj name,
        kk cheap[], ll grid[], mm timestamp[], nn xml, oo pair[], pp timetz,
        qq bit(3), ss regclass, rr int GENERATED ALWAYS AS (c + 1) STORED)""",
]

EXPECTED = {
    "a": ("bigint", "bigint"),
    "b": ("boolean", "boolean"),
    "c": ("smallint", "int"),
    "d": ("numeric(12,3)", "decimal(12,3)"),
    "e": ("numeric", "string"),
    "f": ("numeric(60,20)", "string"),
    "g": ("numeric(10,-2)", "decimal(12,0)"),
    "h": ("character varying(20)", "string"),
    "i": ("character(5)", "string"),
    "j": ("text", "string"),
    "k": ("bytea", "binary"),
    "l": ("date", "date"),
    "m": ("timestamp(3) without time zone", "timestamp_ntz"),
    "n": ("timestamp with time zone", "timestamp"),
    "o": ("time without time zone", "string"),
    "p": ("uuid", "string"),
    "q": ("json", "string"),
    "r": ("jsonb", "string"),
    "s": ("public.mood", "string"),
    "t": ("numeric(10,2)", "decimal(10,2)"),
    "u": ("numeric(10,2)", "decimal(10,2)"),
    "v": ("text[]", "array<string>"),
    "w": ("text[]", "array<string>"),
    "x": ("numeric(10,2)[]", "array<decimal(10,2)>"),
    "y": ("public.mood[]", "array<string>"),
    "z": ("integer[]", "string"),
    "aa": ("money", "string"),
    "bb": ("interval", "string"),
    "cc": ("public.pair", "string"),
    "dd": ("int4range", "string"),
    "ee": ("inet", "string"),
    "ff": ("oid", "bigint"),
    "gg": ("real", "float"),
    "hh": ("double precision", "double"),
    "ii": ('"char"', "string"),
    "jj": ("name", "string"),
    "kk": ("numeric(10,2)[]", "array<decimal(10,2)>"),
    "ll": ("integer[][]", ""),
    "mm": ("timestamp without time zone[]", "array<timestamp_ntz>"),
    "nn": ("xml", "string"),
    "oo": ("public.pair[]", "array<string>"),
    "pp": ("time with time zone", "string"),
    "qq": ("bit(3)", "string"),
    "rr": ("integer", "int"),
    "ss": ("regclass", ""),
}


def types(row: Table) -> dict[str, tuple[str, str]]:
    return {c.source_name: (c.source_type, c.type) for c in row.columns.all()}


def test_types_domains_enums_and_arrays(source) -> None:
    source.run(*MADE)
    source.grant_all()
    discover(source.datasource)
    assert types(table(source, "t")) == EXPECTED


# type → values whose text must bring the same value back, bit by bit
TEXTS = {
    "interval": ["1 year 2 mons -3 days 04:05:06.789", "-0.000001s", "0", "178000000y"],
    "interval second(3)": ["1.234s"],
    "timetz": ["24:00:00+15:59", "00:00:00.000001-15:59:59"],
    "inet": ["10.1.2.3/8", "::ffff:1.2.3.4", "2001:db8::/32"],
    "cidr": ["10.0.0.0/8", "::/0"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:01:02:03:04:05"],
    "bit(3)": ["101"],
    "bit varying": [
        "",
        "0000000000000000000000000000000000000000000000000000000000000000001",
    ],
    "jsonpath": ["$.a[*] ? (@.b > 1.10)"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF"],
    "tsvector": ["'a':1A,2B 'it''s':3", ""],
    "tsquery": ["a & (b | !c) <2> d:*A"],
    "point": ["(0.1,1e300)", "(NaN,-Infinity)"],
    "line": ["{1.1,2.2,-3.3}"],
    "lseg": ["[(0.1,0.2),(3,4)]"],
    "box": ["(1.1,2.2),(0,0.3)"],
    "path": ["((0,0),(1.1,2.2))", "[(0,0),(1,1)]"],
    "polygon": ["((0,0),(1.1,2.2),(3,4))"],
    "circle": ["<(0.1,0.2),0.3>"],
    "int8range": ["[1,5)", "empty", "(,)"],
    "numrange": ["(1.10,2.200]"],
    "tstzrange": ["[2024-01-01 00:00:00.000001+02,infinity)"],
    "daterange": ["[0001-01-01 BC,)"],
    "tsmultirange": ["{[2024-01-01,2024-02-01),[2025-01-01,)}"],
    "int[][]": ["{{1,2},{3,NULL}}", "[5:6][1:1]={{1},{2}}"],
    "text[][]": ['{{"a,b","NULL"},{NULL,"\\"\\\\"}}'],
    "pg_temp.pair": ["(1,)", '(,"it\'s, ""so""")'],
    "pg_temp.pair[]": ['{"(1,x)",NULL}'],
    '"char"': ["a", ""],
    "hstore": ['"a"=>"1", "b c"=>NULL, "\\""=>""'],
    "ltree": ["a.b_c.d"],
    "cube": ["(0.1,2.2),(3,4)"],
    "vector": ["[0.1,-3e38,1e-30]"],
}


def test_the_text_of_what_is_carried_as_text_is_exact(source) -> None:
    """Read as a load reads it, and put back, every value is the same to the bit."""
    from ingest.contract.table import ColumnSpec
    from ingest.sources.dialects import dialect_of
    from ingest.sources.postgresql.connection import SESSION_SETTINGS

    read = dialect_of("postgresql").read
    with source.link() as link:
        for name in ("hstore", "ltree", "cube", "vector"):
            link.execute(f"CREATE EXTENSION {name}")
        link.execute("CREATE TYPE pg_temp.pair AS (a int, b text)")
        for name, value in SESSION_SETTINGS.items():
            link.execute("SELECT set_config(%s, %s, false)", [name, value])
        for kind, values in TEXTS.items():
            lake = "array<string>" if kind.endswith("pair[]") else "string"
            column = ColumnSpec("v", "v", kind, lake)
            for value in values:
                row = link.execute(
                    f"SELECT record_send(ROW(v)) = record_send(ROW(({read(column).expression})::{kind}))"
                    f" FROM (SELECT %s::{kind} AS v) t",
                    [value],
                ).fetchone()
                assert row == (True,), (kind, value)


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_money_is_the_number_in_it(source, locale) -> None:
    from ingest.contract.table import ColumnSpec
    from ingest.sources.dialects import dialect_of

    read = dialect_of("postgresql").read
    one = read(ColumnSpec("v", "v", "money", "string"))
    many = read(ColumnSpec("v", "v", "money[]", "array<string>"))
    with source.link() as link:
        link.execute("SELECT set_config('lc_monetary', %s, false)", [locale])
        value = "'-92233720368547758.08'::money"
        assert link.execute(
            f"SELECT {one.expression} FROM (SELECT {value} AS v) t"
        ).fetchone() == ("-92233720368547758.08",)
        found = link.execute(
            f"SELECT {many.expression} FROM (SELECT ARRAY[{value}] AS v) t"
        )
        assert found.fetchone() == (["-92233720368547758.08"],)
