"""Which tables a tool fills to put them into another one's place, and which swaps of
them are known to keep its rows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ingest.contract.following import Replaced
from ingest.sources.mariadb.log.columns import FoundTable, Identity, SourceColumn
from ingest.sources.mariadb.log.statements import definition_of, effect_of
from ingest.sources.mariadb.log.swaps import Shadow, is_swap, shadow_behind, tool_of
from tests.unit.ingest.test_binlog_columns import at, known

T = ("db", "t")
LONG = "l" * 62
MADE = "create /* gh-ost */ table `db`.`_t_gho` like `db`.`t`"
FILLED = Shadow("_t_gho", ("x",), is_filled=True)


@pytest.mark.parametrize(
    ("table", "shadow", "tool"),
    [
        ("t", "_t_gho", "gh-ost"),
        ("t", "_t_new", "pt-online-schema-change"),
        ("t", "____t_new", "pt-online-schema-change"),
        ("t", f"{'_' * 11}t_new", ""),
        ("t", "t_new", ""),
        ("t", "_T_gho", ""),
        ("t", "_t_del", ""),
        ("t", "_u_gho", ""),
        (LONG, f"_{LONG[:59]}_gho", "gh-ost"),
        (LONG, f"_{LONG}_"[:64], "pt-online-schema-change"),
    ],
)
def test_names_are_those_of_the_tools(table: str, shadow: str, tool: str) -> None:
    assert len(shadow) <= 64
    assert tool_of(table, shadow) == tool


def behind(
    *statements: str, shadow: Shadow | None = None, is_copy: bool = False
) -> Shadow | None:
    for text in statements:
        effect = effect_of(text, "db")
        shadow = shadow_behind(shadow, T, effect, is_copy=lambda: is_copy)
    return shadow


@pytest.mark.parametrize(
    ("statements", "touches"),
    [
        ([MADE], ()),
        (["CREATE TABLE _t_gho (LIKE t)"], ()),
        ([MADE, "alter table `_t_gho` add X int, modify y bigint"], ("x", "y")),
        ([MADE, "ALTER TABLE _t_gho ENGINE=InnoDB", "ANALYZE TABLE _t_gho"], ()),
        ([MADE, "ALTER TABLE _t_gho ADD INDEX (x)", "DROP TABLE IF EXISTS _t_del"], ()),
        ([MADE, "ALTER TABLE u DROP x", "CREATE TABLE _u_gho LIKE u"], ()),
        ([MADE, "CREATE TRIGGER a AFTER INSERT ON t FOR EACH ROW DO 1"], ()),
    ],
)
def test_a_copy_is_known_from_its_creation_on(
    statements: list[str], touches: tuple[str, ...]
) -> None:
    assert behind(*statements) == Shadow("_t_gho", touches)


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE _t_gho ADD x int"],
        ["CREATE TABLE IF NOT EXISTS _t_gho LIKE t"],
        ["CREATE TABLE _t_gho LIKE u"],
        ["CREATE TABLE _t_gho LIKE other.t"],
        [MADE, "CREATE TABLE _t_gho (id int)"],
        [MADE, "ALTER TABLE _t_gho DROP x"],
        [MADE, "ALTER TABLE _t_gho ADD x int UNIQUE"],
        [MADE, "ALTER TABLE _t_gho DROP PRIMARY KEY, ADD PRIMARY KEY (x)"],
        [MADE, "ALTER TABLE _t_gho ENGINE=BLACKHOLE"],
        [MADE, "DROP TABLE _t_gho"],
        [MADE, "TRUNCATE _t_gho"],
        [MADE, "TRUNCATE t"],
        [MADE, "ALTER TABLE t ADD x int"],
        [MADE, "RENAME TABLE _t_gho TO u"],
        [MADE, "DROP DATABASE db"],
        [MADE, "INSERT INTO v VALUES (1)"],
    ],
)
def test_what_may_have_other_rows_is_no_copy(statements: list[str]) -> None:
    assert behind(*statements) is None


def test_what_has_rows_is_not_altered_any_more() -> None:
    kept = behind("ALTER TABLE _t_gho ADD INDEX (y)", shadow=FILLED)
    assert kept == FILLED
    assert behind("ALTER TABLE _t_gho ADD y int", shadow=FILLED) is None


@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copy_may_be_spelled_out(*, is_copy: bool) -> None:
    made = behind("CREATE TABLE `db`.`_t_new` (`id` int)", is_copy=is_copy)
    assert made == (Shadow("_t_new") if is_copy else None)


DEFINED = """CREATE TABLE `{name}` (
  `id` int(11) NOT NULL AUTO_INCREMENT,
  `v` enum('a','b') DEFAULT NULL COMMENT 'it''s (',
  PRIMARY KEY (`id`),
  CONSTRAINT `{fk}` FOREIGN KEY (`id`) REFERENCES `u` (`id`){more}
) ENGINE=InnoDB AUTO_INCREMENT={next} DEFAULT CHARSET=utf8mb4"""


def test_a_definition_is_compared_but_for_what_the_tool_has_to_change() -> None:
    of = DEFINED.format(name="t", fk="a", next=5, more="")
    same = DEFINED.format(name="db`.`_t_new", fk="_a", next=12, more="")
    other = DEFINED.format(name="t", fk="a", next=5, more=", UNIQUE KEY `v` (`v`)")
    assert definition_of(of) == definition_of(same)
    assert len(definition_of(of)) > 20
    assert definition_of(of) != definition_of(other)


@pytest.mark.parametrize(
    ("statement", "is_it"),
    [
        ("RENAME TABLE t TO _t_del, _t_gho TO t", True),
        ("rename /* gh-ost */ table `db`.`t` to `db`.`_t_del`, `db`.`_t_gho` to `db`.`t`", True),
        ("RENAME TABLE IF EXISTS t WAIT 5 TO _t_del, _t_gho TO t", True),
        ("RENAME TABLE t TO _t_del", False),
        ("RENAME TABLE _t_gho TO t", False),
        ("RENAME TABLE t TO _t_del, _t_new TO t", False),
        ("RENAME TABLE t TO _t_del, x._t_gho TO t", False),
        ("RENAME TABLE t TO _t_del, _t_gho TO t, u TO v", False),
        ("ALTER TABLE t RENAME _t_del", False),
    ],
)  # fmt: skip
def test_a_swap_is_one_statement(statement: str, *, is_it: bool) -> None:
    assert is_swap(FILLED, T, effect_of(statement, "db")) == is_it


def test_what_has_no_rows_is_no_swap() -> None:
    """Rows of before are put aside by hand so, and the table begins anew."""
    effect = effect_of("RENAME TABLE t TO _t_del, _t_gho TO t", "db")
    assert not is_swap(replace(FILLED, is_filled=False), T, effect)
    assert not is_swap(None, T, effect)


def test_what_lacks_a_column_does_not_take_its_place() -> None:
    other = Replaced("gh-ost", at(30).encode(), 0)
    identity = replace(known(10, 10), shadow=FILLED)
    columns = {"id": SourceColumn("int(11)"), "c": SourceColumn("int(11)")}
    swapped = identity.replaced_by(other, FoundTable("InnoDB", columns))
    assert (swapped.shadow, swapped.replaced) == (None, other)
    assert Identity.decode(swapped.encode()) == swapped
    for there in (FoundTable("InnoDB", {"id": columns["id"]}), None):
        with pytest.raises(ValueError, match="lacks c"):
            identity.replaced_by(other, there)
