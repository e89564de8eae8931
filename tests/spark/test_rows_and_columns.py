"""Rights on rows and columns in the engine, through its real Thrift port.

The oracle is a canary: hidden rows and hidden or masked columns carry marks, and a mark
in any row, column name, error or plan is a leak.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from catalog.access.policy import Securable
from catalog.access.rule_trial import has_query, trial_of
from catalog.access.table_rights import HeldRule
from tests.spark.conftest import Lake
from tests.spark.engine_bench import Client, EngineBench, write_table
from tests.spark.rights_attacks import attacks
from tests.spark.rights_pairs import pair_of

NO_COLUMN = "42703"
MARK = "CANARY"
PAIRS = int(os.environ.get("SLUICE_RIGHTS_PAIRS", "400"))
PEOPLE = """
select id, concat('name', id) as name, if(id <= 4, 'eu', 'us') as region,
  concat('CANARYMAIL', id, '@x.org') as email, concat('CANARYHIDDEN', id) as canary_pay,
  concat('CANARYHIDDEN', id) as canary_bonus,
  if(id <= 4, concat('seen', id), concat('CANARYROW', id)) as note,
  date_add(date'1987-06-05', cast(id as int)) as born,
  cast(1 as bigint) as _sluice_seq, false as _sluice_deleted
from range(1, 9) t(id)
"""
RULES = {
    "shop.people": {
        "columns": ["id", "name", "region", "email", "note", "born"],
        "filters": ["region = 'eu'"],
        "masks": {"email": ["redact", ""], "born": ["year", ""]},
    }
}


NOT_APPLICABLE = [
    "regio = 'eu'",
    "id + 1",
    "id in (select id from shop.customers)",
    "exists (select 1)",
    "rand() < 2",
    "java_method('java.lang.System', 'gc') is null",
    "id = 1) or (true",
    "row_number() over (order by id) = 1",
    "max(id) = 1",
]


def make_people(spark: Any, lake: Lake, bench: EngineBench) -> None:
    """Once for all files that ask for the table."""
    place = lake.root / "shop" / "people"
    if not place.exists():
        write_table(spark, place, PEOPLE)
        bench.table("shop.people", place)


@pytest.fixture(scope="module")
def people(spark: Any, lake: Lake, bench: EngineBench) -> EngineBench:
    make_people(spark, lake, bench)
    return bench


@pytest.fixture(scope="module")
def rita(people: EngineBench) -> Iterator[Client]:
    people.policy("rita", select=["shop.customers"], tables=RULES)
    client = people.connect("rita")
    yield client
    client.close()


def test_star_has_granted_columns_and_allowed_rows(rita: Client) -> None:
    found = rita.run("select * from shop.people order by id")
    assert not found.is_refused, found.error
    assert [c.name for c in found.columns if not c.name.startswith("_")] == [
        *("id", "name", "region", "email", "note", "born")
    ]
    assert len(found.rows) == 4
    assert MARK not in found.visible_text


def test_a_struct_of_star_has_the_same(rita: Client) -> None:
    of_one = "from shop.people where id = 1"
    star = rita.run(f"select * {of_one}")
    (packed,) = rita.rows(f"select to_json(struct(*)) {of_one}")
    found = json.loads(packed[0])
    assert [*found] == [column.name for column in star.columns]
    assert (found["email"], found["born"]) == ("***", "1987-01-01")


def test_a_struct_of_nothing_is_no_column_of_a_result(rita: Client) -> None:
    found = rita.run("select named_struct('a', struct()) as s")
    assert (found.sql_state, "struct without fields" in found.error) == ("0A000", True)
    assert rita.rows("select to_json(struct())") == [("{}",)]


@pytest.mark.parametrize(
    ("failing", "state"), [("id / 0", "22012"), ("cast(name as int)", "22018")]
)
def test_what_a_task_fails_at_has_its_state(
    rita: Client, failing: str, state: str
) -> None:
    of_all = f"select max({failing}) from shop.people"
    for statement in (of_all, f"select id from shop.people where id > ({of_all})"):
        found = rita.run(statement, {"spark.sql.ansi.enabled": "true"})
        assert found.sql_state == state, found
        assert "to bypass this error" in found.error


def test_masks_keep_their_columns_type(rita: Client) -> None:
    found = rita.run("select email, born from shop.people where id = 1")
    assert [c.type_id for c in found.columns] == [7, 17]
    assert [tuple(map(str, row)) for row in found.rows] == [("***", "1987-01-01")]


@pytest.mark.parametrize(
    "statement",
    [
        "select canary_pay from shop.people",
        "select id from shop.people where canary_pay is not null",
        "select id from shop.people order by canary_pay",
        "select p.canary_pay from shop.people p",
        "select id from shop.people group by id having max(canary_pay) > ''",
        "select _hoodie_record_key from (select * from shop.people)",
    ],
)
def test_a_column_that_is_not_granted_is_not_there(
    rita: Client, statement: str
) -> None:
    if "_hoodie" in statement:
        assert not rita.run(statement).is_refused  # the key is granted
        return
    found = rita.run(statement)
    assert found.sql_state == NO_COLUMN, (found.error, found.rows)
    assert "canary_bonus" not in found.error


@pytest.mark.parametrize(
    "statement",
    [
        "select {} from shop.people",
        "select p.{} from shop.people p where id > 4",
        "select id from shop.people order by {}",
        "select max({}) from shop.people group by region",
    ],
)
def test_one_that_is_hidden_is_answered_as_one_that_never_was(
    rita: Client, statement: str
) -> None:
    """With the same columns to choose from: those that the user sees."""
    names = ("canary_pay", "canary_pav")
    hidden, absent = (rita.run(statement.format(name)) for name in names)
    assert hidden.sql_state == absent.sql_state == NO_COLUMN
    shown = re.sub(r"#\d+L?", "", hidden.error).replace(*names)
    assert shown == re.sub(r"#\d+L?", "", absent.error)


VALUES = ("CANARYROW", "CANARYMAIL", "CANARYHIDDEN", "canary_bonus")


def _leaks(client: Client, statements: list[str], ansi: str) -> dict[str, str]:
    found = {}
    for statement in statements:
        outcome = client.run(statement, {"spark.sql.ansi.enabled": ansi})
        error = outcome.error.replace(statement, "")
        for echoed in ("CANARYMAIL1@x.org", "CANARYROW5"):
            error = error.replace(echoed, "") if echoed in statement else error
        shown = repr((outcome.rows, outcome.columns, error))
        if any(mark in shown for mark in VALUES):
            found[statement] = shown[:2000]
    return found


def test_the_oracle_sees_what_is_shown(people: EngineBench) -> None:
    people.policy("whole", select=["shop.people"])
    whole = people.connect("whole")
    shown = [f"select {x} from shop.people p" for x in ("note", "email", "p.*")]
    assert list(_leaks(whole, shown, "true")) == shown
    whole.close()


def test_attacks_bring_nothing_hidden_to_light(
    rita: Client, people: EngineBench
) -> None:
    """In rows, names, errors and plans; and the engine's log knows no such value."""
    tried = attacks(3)
    assert len(tried) >= 180
    assert _leaks(rita, tried, "true") == {}
    log = people.log.read_text()
    assert not [
        mark for mark in ("CANARYMAIL3", "CANARYROW7", "HIDDEN5") if mark in log
    ]


@pytest.mark.long
@pytest.mark.parametrize("ansi", ["false", "true"])
def test_all_attacks_bring_nothing_hidden_to_light(rita: Client, ansi: str) -> None:
    assert _leaks(rita, attacks(9), ansi) == {}


@pytest.mark.parametrize(
    "seeds",
    [range(8), pytest.param(range(8, PAIRS), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_a_query_finds_what_it_finds_in_a_copy_made_by_hand(
    people: EngineBench, seeds: range
) -> None:
    people.policy("whole", select=["shop.people"])
    whole, limited = people.connect("whole"), people.connect("lim")
    differ = []
    for seed in seeds:
        pair = pair_of(seed)
        people.policy(
            "lim", select=["shop.people"], tables={"shop.people": pair.limits}
        )
        found, expected = limited.run(pair.limited), whole.run(pair.by_hand)
        same = sorted(map(repr, found.rows)) == sorted(map(repr, expected.rows))
        if not same or found.sql_state != expected.sql_state:
            differ.append((seed, pair, found.error[:500], expected.error[:500]))
    whole.close()
    limited.close()
    assert not differ, f"{len(differ)}: {differ[:3]}"


@pytest.fixture
def limited(people: EngineBench) -> Iterator[Callable[..., Client]]:
    """A client of a user with these limits on the table, an administrator or not."""
    opened: list[Client] = []

    def make(*, is_admin: bool = False, **limits: Any) -> Client:
        select = () if is_admin else ["shop.people"]
        people.policy(
            "lola", select=select, is_admin=is_admin, tables={"shop.people": limits}
        )
        opened.append(people.connect("lola"))
        return opened[-1]

    yield make
    for client in opened:
        client.close()


@pytest.mark.parametrize("condition", NOT_APPLICABLE)
def test_a_filter_that_cannot_be_applied_closes_the_table(
    limited: Callable[..., Client], condition: str
) -> None:
    found = limited(filters=[condition]).run("select id from shop.people")
    assert found.sql_state == "42501", found
    assert "RULE_NOT_APPLICABLE" in found.error
    assert "columns of shop.people cannot be applied" in found.error
    assert condition not in found.error


@pytest.mark.parametrize("condition", NOT_APPLICABLE)
def test_what_cannot_be_applied_is_refused_as_it_is_tried(
    limited: Callable[..., Client], condition: str
) -> None:
    on = Securable("lake", "shop", "people")
    client = limited()
    if not has_query(condition):
        tried = client.run(trial_of(HeldRule(on, frozenset(), expression=condition)))
        assert tried.is_refused, tried
    mask = HeldRule(
        on, frozenset(), column="name", mask="expression", expression="upper(name)"
    )
    for good in (mask, HeldRule(on, frozenset(), expression="id > 1 -- so")):
        tried = client.run(trial_of(good))
        assert not tried.is_refused, tried.error


@pytest.mark.parametrize(
    "setting",
    [{"spark.sql.session.timeZone": "+18:00"}, {"spark.sql.ansi.enabled": "true"}],
)
def test_what_a_user_sets_changes_no_rule(
    limited: Callable[..., Client], setting: dict[str, str]
) -> None:
    midnight = "hour(timestamp'2024-01-01 00:00:00Z') = 0"
    client = limited(
        filters=["cast(name as int) is null", midnight],
        masks={"name": ["expression", "cast(cast(name as int) as string)"]},
    )
    found = client.run("select name from shop.people", setting)
    assert found.rows == [(None,)] * 8, found.error


def test_a_mask_whose_column_is_gone_closes_the_table(
    limited: Callable[..., Client],
) -> None:
    """It may be there under another name."""
    found = limited(masks={"mail": ["redact", ""]}).run("select id from shop.people")
    assert found.sql_state == "42501", found
    assert "RULE_NOT_APPLICABLE" in found.error


@pytest.mark.parametrize(
    "value",
    ["to_date(concat('2020-1-', id), 'yyyy-MM-dd')", "raise_error(note)"],
)
def test_what_a_rule_cannot_compute_is_null_and_no_error(
    limited: Callable[..., Client], value: str
) -> None:
    client = limited(
        filters=[f"if(id > 4, {value} is null, true)"],
        masks={"name": ["expression", f"cast({value} as string)"]},
    )
    found = client.run("select distinct name from shop.people")
    assert found.rows == [(None,)], found.error


@pytest.mark.parametrize(
    ("limits", "is_there"),
    [
        ({"columns": ["name"]}, False),
        ({"columns": ["id"]}, True),
        ({"masks": {"id": ["null", ""]}}, False),
        ({"masks": {"name": ["null", ""]}}, True),
        ({"filters": ["id > 1"]}, True),
    ],
)
def test_the_key_in_a_column_of_hudi_goes_with_the_key(
    limited: Callable[..., Client], limits: dict[str, Any], *, is_there: bool
) -> None:
    found = limited(**limits).run("select _hoodie_record_key from shop.people")
    assert found.sql_state == ("" if is_there else NO_COLUMN), found.error


BY_FOLDER = {
    "hoodie.datasource.write.partitionpath.field": "note",
    "hoodie.datasource.write.keygenerator.class": (
        "org.apache.hudi.keygen.SimpleKeyGenerator"
    ),
}
FAILS = "if({0} like 'CANARY%', raise_error({0}), {0}) > ''"


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        # Spark infers the condition on the other column, and puts it first
        ("select id from shop.people where note = name and " + FAILS.format("name"), 0),
        ("select id from shop.people where name = note and " + FAILS.format("name"), 0),
        # partitions are looked through by what is asked of them
        ("select id from shop.folders where " + FAILS.format("note"), 4),
        (
            "select a.id from shop.people a where a.note = (select max(b.note) from"
            " shop.folders b where b.note = a.note) and " + FAILS.format("a.note"),
            4,
        ),
    ],
)
def test_an_expression_that_fails_meets_no_hidden_row(
    spark: Any, lake: Lake, people: EngineBench, statement: str, rows: int
) -> None:
    place = lake.root / "shop" / "folders"
    if not place.exists():
        write_table(spark, place, PEOPLE, more=BY_FOLDER)
        people.table("shop.folders", place)
    eu = {"filters": ["region = 'eu'"]}
    tables = {"shop.people": eu, "shop.folders": eu}
    people.policy("fay", select=["shop.*"], tables=tables)
    fay = people.connect("fay")
    assert len(fay.rows(statement)) == rows
    fay.close()


def test_two_masks_hide_a_column_and_administrators_are_bound(
    limited: Callable[..., Client],
) -> None:
    client = limited(
        is_admin=True, masks={"email": ["hidden", ""]}, filters=["region = 'eu'"]
    )
    assert client.run("select email from shop.people").sql_state == NO_COLUMN
    assert client.rows("select count(*) from shop.people") == [(4,)]
