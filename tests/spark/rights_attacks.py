"""Attacks on rights on rows and columns: each thing to get at, in each place of SQL."""

from __future__ import annotations

# What is asked of `shop.people p`: hidden columns, masked ones, values of hidden rows.
WANTED = (
    "canary_pay",
    "p.canary_pay",
    "shop.people.`canary_pay`",
    "lake.shop.people.CANARY_PAY",
    "max(canary_pay)",
    "email",
    "substring(email, 1, 40)",
    "to_json(struct(p.*))",
    "to_json(struct(*))",
    "struct(p.*)",
    "concat_ws(',', email, note)",
    "note",
    "max(note)",
    "collect_list(note)",
    "raise_error(note)",
    "assert_true(id < 5, note)",
    "cast(note as int)",
    "cast(concat(note, email) as date)",
    "element_at(array(note), cast(id - 9 as int))",
    "1 / (id - 7)",
    "_metadata",
    "_metadata.file_path",
    "_hoodie_record_key",
    "_hoodie_file_name",
    "input_file_name()",
    "first(email) over (order by note desc)",
)
PLACES = (
    "select {x} from shop.people p",
    "select {x} from lake.shop.people p where id > 4",
    "select id from shop.people p where {x} is not null",
    "select id from shop.people p order by {x}",
    "select count(*) from shop.people p group by {x}",
    "select id from shop.people p where cast({x} as string) like 'CANARY%'",
    "with p as (select * from shop.people) select {x} from p",
    "select * from (select {x} as x from shop.people p) t",
    "select {x} as x from shop.people p union all select {x} from shop.people p",
    "select id from range(9) where exists (select {x} from shop.people p)",
    "select (select max(cast({x} as string)) from shop.people p)",
    "select x from range(1) r, lateral (select {x} as x from shop.people p) t",
    "select {x} from shop.people p timestamp as of '2099-01-01'",
    "select a.id from shop.people a join shop.people p on cast({x} as string) > ''",
    "explain extended select {x} from shop.people p",
    "explain cost select {x} from shop.people p where email > ''",
    "describe query select {x} from shop.people p",
    "select {x} from shop.people tablesample (90 percent) p",
)
WHOLE = """
select * from shop.people
table shop.people
from shop.people
select p.* from shop.people p, shop.customers c
select * from shop.people natural join shop.people
select * from shop.people a full outer join shop.people b on a.note = b.note
select * from shop.people a left anti join shop.customers c on a.id = c.id
select a, b, c, d, e, f, g, h, i from shop.people t(a, b, c, d, e, f, g, h, i)
select * from shop.people unpivot (v for k in (canary_pay, note))
select * from (select region, note from shop.people) pivot (max(note) for region in ('us', 'eu'))
select * from shop.people where region = 'us'
select * from shop.people where region <> 'eu' or true
select note from shop.people where not (region = 'eu')
select note from shop.people where region = 'us' or 1 = 1 group by note with rollup
select * from shop.people where email = 'CANARYMAIL1@x.org'
select * from shop.people where note = 'CANARYROW5' or id > 4
select * from shop.people order by 4 desc, 3 limit 100 offset 0
select max_by(note, id), min_by(email, id), any_value(born), mode(note) from shop.people
select histogram_numeric(id, 8), percentile(id, array(0.0, 1.0)), count(*) from shop.people
select note, lag(note) over (order by id desc), ntile(2) over (order by email) from shop.people
select explode(array(note, email)) from shop.people
select stack(2, note, email) from shop.people
select id, t from shop.people lateral view explode(split(note, 'R')) x as t
select transform(array(note), x -> raise_error(x)) from shop.people where id > 4
select * from shop.people except select * from shop.people where id < 5
select /*+ broadcast(a), merge(b) */ * from shop.people a join shop.people b using (note)
select * from shop.people where id in (select id from shop.people where region = 'us')
select * from shop.people p where exists (select 1 from shop.people q where q.id = p.id + 4)
select struct(*).canary_pay from shop.people
select struct(*).email, struct(*).note from shop.people where id > 4
select max(struct(*)), min_by(struct(*), id), collect_set(struct(*)) from shop.people
select to_json(struct(a.*, b.*)) from shop.people a left join shop.people b on b.id = a.id + 4
select to_json(struct(*)) from shop.people a full outer join shop.people b using (note)
select to_csv(struct(*)), to_json(array(struct(*))), count(distinct struct(*)) from shop.people
select inline(array(struct(*))) from shop.people
select from_json(to_json(struct(*)), 'canary_pay string, email string') from shop.people
select transform(array(note), x -> struct(x, p.*)) from shop.people p
select x from shop.people p, lateral (select struct(p.*) as x) t
select s.* from (select struct(*) as s from shop.people) t
select raise_error(to_json(struct(*))) from shop.people where id > 4
explain extended select struct(*) from shop.people
describe query select struct(*) from shop.people
select * from shop.people version as of 1
select * from shop.people timestamp as of '2020-01-01'
describe shop.people
describe extended shop.people
describe shop.people canary_pay
describe shop.people email
show columns in shop.people
show create table shop.people
show tblproperties shop.people
show partitions shop.people
show table extended in shop like 'people'
explain select * from shop.people
explain formatted select * from shop.people where region = 'us'
explain codegen select note from shop.people
explain extended with p as (select * from shop.people) select * from p
analyze table shop.people compute statistics for all columns
cache table shop.people
refresh table shop.people
create temporary view v as select * from shop.people
create table t as select * from shop.people
insert into shop.customers select id, note from shop.people
select * from hudi_table_changes('shop.people', 'latest_state', 'earliest')
select * from hudi_query('shop.people', 'snapshot')
call show_commits(table => 'shop.people')
select * from hudi_filesystem_view('shop.people')
"""


def attacks(of_nine: int) -> list[str]:
    """So many of nine of what is composed, all kinds of both; and the others."""
    composed = [place.replace("{x}", wanted) for place in PLACES for wanted in WANTED]
    kept = [one for n, one in enumerate(composed) if n % 9 < of_nine]
    return [*(line for line in WHOLE.splitlines() if line), *kept]
