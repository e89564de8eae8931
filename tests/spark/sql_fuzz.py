"""Attack statements composed from a grammar, by seed: each thing to get at, in whatever
SQL has places for. No statement has a value in it that is looked for in answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

HIDDEN = ("canary_pay", "`canary_pay`", "CANARY_PAY")
SHOWN = ("id", "name", "region", "email", "note", "born")
META = ("_metadata", "_metadata.file_path", "_hoodie_record_key", "_hoodie_file_name")
WRAPPERS = (
    "lower({0})",
    "concat('<', {0}, '>')",
    "coalesce({0}, 'none')",
    "substring(cast({0} as string), 1, 40)",
    "to_json(struct({0}))",
    "cast({0} as int)",
    "cast({0} as date)",
    "try_cast({0} as double)",
    "cast({0} as decimal(4,2))",
    "raise_error(cast({0} as string))",
    "assert_true(length(cast({0} as string)) < 3, cast({0} as string))",
    "element_at(array({0}), 2)",
    "element_at(map('k', {0}), 'q')",
    "map({0}, {0})",
    "named_struct('v', {0}).v",
    "if(id > 4, {0}, null)",
    "case when {0} is null then 'n' else {0} end",
    "transform(array({0}), v -> concat(v, '!'))",
    "filter(array({0}), v -> v > '')",
    "aggregate(array({0}), '', (a, v) -> concat(a, v))",
    "from_json(cast({0} as string), 'a int')",
    "to_date(cast({0} as string), 'yyyy')",
    "to_number(cast({0} as string), '999')",
    "parse_url(cast({0} as string), 'HOST')",
    "regexp_extract(cast({0} as string), '(.*)', 1)",
    "split(cast({0} as string), 'R')[9]",
    "1 / (length(cast({0} as string)) - 10)",
    "cast(concat({0}, '') as timestamp)",
    "decode(unhex(hex({0})), 'utf-8')",
    "interval '1' day * cast({0} as int)",
    "str_to_map(cast({0} as string), 'A', 'Y')",
    "make_date(cast({0} as int), 1, 1)",
)
AGGREGATES = (
    "max({0})",
    "collect_list({0})",
    "collect_set({0})",
    "first({0})",
    "any_value({0})",
    "mode({0})",
    "max_by({0}, id)",
    "array_agg({0})",
    "sum(cast({0} as int))",
    "approx_percentile(cast({0} as int), 0.5)",
    "histogram_numeric(cast({0} as int), 3)",
    "max(struct({0}, id))",
)
WINDOWS = (
    "lag({0}) over (order by id)",
    "first_value({0}) over (partition by region order by id desc)",
    "max({0}) over ()",
    "nth_value({0}, 5) over (order by id)",
)
JOINS = (
    "{a} a join {b} b on a.id = b.id",
    "{a} a left join {b} b on a.id = b.id + 4",
    "{a} a full outer join {b} b using (id)",
    "{a} a left anti join {b} b on a.id = b.id",
    "{a} a left semi join {b} b on a.id < b.id",
    "{a} a cross join {b} b",
    "{a} a natural join {b} b",
    "{a} a, lateral (select * from {b} b where b.id = a.id) l",
)
FRAMES = (
    "{q}",
    "{q}",
    "{q}",
    "explain {q}",
    "explain extended {q}",
    "explain formatted {q}",
    "explain cost {q}",
    "explain codegen {q}",
    "describe query {q}",
    "create temporary view v as {q}",
    "create table shop.made as {q}",
    "insert into shop.customers {q}",
    "cache table made as {q}",
    "select * from ({q})",
    "with w as ({q}) select * from w",
    "with w as ({q}), x as (select * from w) select * from w union all select * from x",
    "select count(*) from ({q})",
    "select (select max(id) from ({q}))",
    "select id from range(9) where id in (select id from ({q}))",
    "select 1 where exists ({q})",
    "{q} union all {q}",
    "{q} except {q}",
    "{q} intersect {q}",
    "({q}) order by 1 desc limit 9",
)
COMMANDS = (
    "describe {t}",
    "describe extended {t}",
    "describe {t} {c}",
    "show columns in {t}",
    "show create table {t}",
    "show tblproperties {t}",
    "show partitions {t}",
    "show table extended in shop like '*'",
    "show tables in shop",
    "show functions like 'm*'",
    "analyze table {t} compute statistics for columns {c}",
    "refresh table {t}",
    "table {t}",
    "from {t} select *",
    "select * from {t} version as of 1",
    "select {c} from {t} timestamp as of '2099-01-01'",
    "select {c} from {t} timestamp /* */ as of '2000-01-01'",
    "select * from hudi_table_changes('shop.people', 'latest_state', 'earliest')",
    "set spark.sql.optimizer.excludedRules=io.sluice.engine.OpenGuarded",
    "select * from {t} unpivot (v for k in ({c}, note))",
    "select * from (select region, {c} from {t}) pivot (max({c}) for region in ('us'))",
    "select id, x from {t} lateral view explode(array({c})) e as x",
    "select stack(2, {c}, note) from {t}",
    "select transform({c}) using 'cat' from {t}",
    "show databases in fuzz_pg",
    "show tables in fuzz_pg.public",
    "show tables in fuzz_pg.vault",
    "use fuzz_pg.vault",
)


@dataclass
class Composer:
    """tables: as statements name them; a user may see some of each, or nothing."""

    chance: random.Random
    tables: tuple[str, ...]
    hidden: tuple[str, ...] = HIDDEN
    shown: tuple[str, ...] = SHOWN
    _depth: int = field(default=0)

    def statement(self) -> str:
        chance = self.chance
        if chance.random() < 0.2:
            text = chance.choice(COMMANDS)
            text = text.replace("{t}", self._table()).replace("{c}", self._column())
        else:
            frame = chance.choice(FRAMES)
            while "{q}" in frame:
                frame = frame.replace("{q}", self._query(), 1)
            text = frame
        return self._spelled(text)

    def _query(self) -> str:
        self._depth += 1
        where = f" where {self._condition()}" if self.chance.random() < 0.4 else ""
        kind = self.chance.random()
        source = self._relation()
        if kind < 0.25:
            value = self.chance.choice(AGGREGATES).format(self._value())
            group = self.chance.choice(("", " group by region", " group by rollup(id)"))
            query = f"select {value} as id from {source}{where}{group}"
        elif kind < 0.35:
            value = self.chance.choice(WINDOWS).format(self._value())
            query = f"select {value} as id from {source}{where}"
        elif kind < 0.5:
            query = f"select * from {source}{where}"
        else:
            order = f" order by {self._value()}" if self.chance.random() < 0.2 else ""
            query = f"select {self._value()} as id from {source}{where}{order}"
        self._depth -= 1
        return query

    def _relation(self) -> str:
        kind = self.chance.random()
        if self._depth > 2 or kind < 0.55:
            return self._table()
        if kind < 0.75:
            return f"(select * from {self._relation()})"
        join = self.chance.choice(JOINS)
        joined = join.replace("{a}", self._table()).replace("{b}", self._table())
        return f"(select a.* from {joined})"

    def _condition(self) -> str:
        value, other = self._value(), self._value()
        return self.chance.choice(
            (
                f"{value} is not null",
                f"cast({value} as string) like 'C%'",
                f"region = 'us' or {value} > {other}",
                f"not (region = 'eu') and {value} is not null",
                f"{value} in (select {other} from {self._table()})",
                f"exists (select {value} from {self._table()} e where e.id = id + 4)",
                f"id = (select max(id) from {self._table()} where {value} > '')",
                "id > 4",
                "true or region = 'eu'",
            )
        )

    def _value(self) -> str:
        value = self._column()
        for _ in range(self.chance.choice((0, 0, 1, 1, 2))):
            value = self.chance.choice(WRAPPERS).format(value)
        return value

    def _column(self) -> str:
        kind = self.chance.random()
        if kind < 0.2:
            return self.chance.choice(self.hidden)
        if kind < 0.25:
            return self.chance.choice(META)
        return self.chance.choice(self.shown)

    def _table(self) -> str:
        return self.chance.choice(self.tables)

    def _spelled(self, text: str) -> str:
        """With blanks, comments and letters as a user may write them, too."""
        kind = self.chance.random()
        if kind < 0.1:
            return text.replace(" from ", " /* from */ from\n", 1)
        if kind < 0.15:
            return text.replace("select ", "SELECT /*+ broadcast(a), merge(b) */ ", 1)
        if kind < 0.2:
            return f"-- one\n{text}"
        return text


TABLES = (
    *["shop.people"] * 8,
    *["fuzz_pg.public.people"] * 8,
    "`fuzz_pg`.public.`People`",
    "lake.fuzz_pg.public.people",
    "fuzz_pg.vault.secrets",
    "lake.shop.people",
    "`shop`.`people`",
    "SHOP.People",
    "spark_catalog.shop.people",
    "vault.secrets",
    "shop.salaries",
)


def statement_of(seed: int) -> str:
    return Composer(random.Random(seed), TABLES).statement()
