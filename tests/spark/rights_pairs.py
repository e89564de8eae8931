"""Random rules with random queries, each beside the same query over the same rows
filtered and masked by hand."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

COLUMNS = ("id", "name", "region", "email", "note", "born")
FILTERS = (
    "region = 'eu'",
    "id % 2 = 1",
    "note like '%3' or id > 5",
    "born < date'1987-06-10'",
    "not (region = 'us' and id > 7)",
    "cast(name as int) is null",
    "length(email) > 3 and id in (1, 2, 3, 5, 8)",
    "cast(note as int) > 0",  # of no row can it be said
)
TEXT = {
    "redact": "'***'",
    "hash": "sha2(concat('k', {c}), 256)",
    "partial": "concat('****', if(length({c}) >= 8, right({c}, 4), ''))",
    "null": "cast(null as string)",
}
MASKS = {
    "email": TEXT,
    "note": {**TEXT, "expression": "concat(region, substring(note, 1, 2))"},
    "born": {
        "year": "trunc({c}, 'YEAR')",
        "null": "cast(null as date)",
        "redact": "cast(null as date)",
        "expression": "date_add(born, 1)",
    },
    "id": {"expression": "id * 10", "null": "cast(null as bigint)"},
}
QUERIES = (
    "select {a}, {b} from {t} p where {p}",
    "select {a}, count(*), max({b}) from {t} p group by {a}",
    "select p.{a}, q.{b} from {t} p join {t} q on p.{a} = q.{a} where {p}",
    "select distinct {a} from {t} p where exists (select 1 from {t} q where q.{b} = p.{b})",
    "with w as (select {a}, {b} from {t} p where {p}) select * from w union all select * from w",
    "select {a}, row_number() over (partition by {a} order by {b}, {a}) from {t} p",
    "select {a} from {t} p left anti join {t} q on p.{a} = q.{b}",
    "select (select count({b}) from {t} p where {p}), {a} from {t} p",
    "select x from {t} p lateral view explode(array({a}, {a})) e as x where {p}",
    "select {a}, {b} from {t} p order by {a} desc nulls last, {b}, {a} limit 3",
    "select count(*), count({a}), count(distinct {b}) from {t} p where not ({p})",
    "select {a} from {t} p except select {b} from {t} p where {p}",
)
PREDICATES = (
    "p.{c} is not null",
    "cast(p.{c} as string) > 'b'",
    "p.{c} = (select max({c}) from {t})",
    "length(cast(p.{c} as string)) % 2 = 0 or p.{c} is null",
    "cast(p.{c} as string) like '%1%'",
)


@dataclass(frozen=True)
class Pair:
    limits: dict[str, Any]
    limited: str
    by_hand: str


def pair_of(seed: int) -> Pair:
    chance = random.Random(seed)
    columns = ["id", *chance.sample(COLUMNS[1:], chance.randint(1, 5))]
    filters = chance.sample(FILTERS, chance.choice([0, 1, 1, 2]))
    masks = {
        column: chance.choice(sorted(MASKS[column]))
        for column in MASKS
        if chance.random() < 0.5
    }
    shown = [_by_hand(column, masks.get(column)) for column in columns]
    where = " and ".join(f"({one})" for one in filters) or "true"
    copy = f"(select {', '.join(shown)} from shop.people where {where})"
    a, b, c = (chance.choice(columns) for _ in range(3))
    predicate = chance.choice(PREDICATES).replace("{c}", c)
    query = chance.choice(QUERIES).replace("{p}", predicate)
    query = query.replace("{a}", a).replace("{b}", b)
    return Pair(
        {
            "columns": chance.choice([columns, None]),
            "filters": filters,
            "masks": {
                column: [kind, _text(column, kind)] for column, kind in masks.items()
            },
        },
        query.replace("{t}", "shop.people"),
        query.replace("{t}", copy),
    )


def _text(column: str, kind: str) -> str:
    return "k" if kind == "hash" else _value(column, kind)


def _value(column: str, kind: str) -> str:
    return MASKS[column][kind].replace("{c}", column)


def _by_hand(column: str, kind: str | None) -> str:
    return f"{_value(column, kind)} as {column}" if kind else column
