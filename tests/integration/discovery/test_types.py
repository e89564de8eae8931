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
        qq bit(3), rr int GENERATED ALWAYS AS (c + 1) STORED)""",
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
    "z": ("integer[]", ""),
    "aa": ("money", ""),
    "bb": ("interval", ""),
    "cc": ("public.pair", ""),
    "dd": ("int4range", ""),
    "ee": ("inet", ""),
    "ff": ("oid", "bigint"),
    "gg": ("real", "float"),
    "hh": ("double precision", "double"),
    "ii": ('"char"', ""),
    "jj": ("name", "string"),
    "kk": ("numeric(10,2)[]", "array<decimal(10,2)>"),
    "ll": ("integer[][]", ""),
    "mm": ("timestamp without time zone[]", "array<timestamp_ntz>"),
    "nn": ("xml", ""),
    "oo": ("public.pair[]", ""),
    "pp": ("time with time zone", ""),
    "qq": ("bit(3)", ""),
    "rr": ("integer", "int"),
}


def types(row: Table) -> dict[str, tuple[str, str]]:
    return {c.source_name: (c.source_type, c.type) for c in row.columns.all()}


def test_types_domains_enums_and_arrays(source) -> None:
    source.run(*MADE)
    source.grant_all()
    discover(source.datasource)
    assert types(table(source, "t")) == EXPECTED
