"""What is known of a table's columns behind statements, by looks that come late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catalog.sources.mariadb.older import Older
from ingest.contract.source_positions import MariaDbLog
from ingest.contract.table import ColumnSpec, TableSpec
from ingest.sources.mariadb.log.columns import FoundTable, Identity, SourceColumn

LOG = MariaDbLog(1, "", "b.", 1, 7, 0)
OTHER = replace(LOG, server=2)
INT, FIRM = SourceColumn("int(11)"), SourceColumn("int(11)", is_nullable=False)


def at(offset: int, log: MariaDbLog = LOG) -> MariaDbLog:
    return replace(log, offset=offset)


def table(older: dict[str, str] | None = None, **columns: SourceColumn) -> FoundTable:
    return FoundTable("InnoDB", columns, older=Older(older or {}))


def known(begin: int, end: int) -> Identity:
    """A look between these places."""
    return Identity.of(table(id=INT, c=INT), (at(begin), at(end)))


def added(identity: Identity, *, begin: int, end: int, default: str) -> Identity:
    """Behind ADD x, which ends at 20."""
    now = table({"x": default}, id=INT, c=INT, x=INT)
    looked = at(begin), at(end)
    return identity.altered(now, looked, {"x"}, at=at(20), is_strict=True)


def test_a_statement_beside_a_look_is_looked_at_again() -> None:
    """It came between the look and the question for the log's end: values that it
    changed would never be known."""
    identity = added(known(10, 10), begin=30, end=60, default="5")
    assert identity.has_seen(at(30))
    assert not identity.has_seen(at(50))
    now = table(id=INT, c=SourceColumn("tinyint(4)"), x=INT)
    with pytest.raises(ValueError, match="c was int"):
        identity.altered(now, (at(70), at(70)), {"c"}, at=at(50), is_strict=True)


def test_a_default_that_a_look_may_have_seen_too_late_is_not_known() -> None:
    """ADD x DEFAULT 5, MODIFY c, ALTER x SET DEFAULT 7: a look at 7 between them."""
    identity = added(known(10, 10), begin=30, end=60, default="7")
    now = table({"x": "7"}, id=INT, c=INT, x=INT)
    looked = at(70), at(70)
    identity = identity.altered(now, looked, {"c"}, at=at(40), is_strict=True)
    assert identity.has_seen(at(50))
    late = identity.defaulted({"x"}, at=at(50))
    assert (late.older, late.untold) == ({}, ("x",))
    with pytest.raises(ValueError, match="x was altered again"):
        identity.touching({"x"}, is_strict=True)
    # of one that was there at the cut nothing is lost
    assert identity.defaulted({"c"}, at=at(50)) == identity


def test_what_the_statement_says_that_adds_a_column_is_not_lost() -> None:
    """ADD x DEFAULT 5, ALTER x SET DEFAULT 7, and a look behind both."""
    identity = added(known(10, 10), begin=60, end=60, default="7")
    identity = identity.adding([("x", "5")])
    late = identity.defaulted({"x"}, at=at(50))
    assert (late.older, late.untold) == ({"x": "5"}, ())
    # one that was there at the cut did not come by a statement
    assert identity.adding([("c", "7")]) == identity
    gone = late.without({"x"}, table(id=INT, c=INT))
    assert (gone.older, gone.given) == ({}, ())


def test_a_statement_behind_all_looks_is_the_first_again() -> None:
    identity = added(known(10, 10), begin=30, end=30, default="5")
    assert identity.defaulted({"x"}, at=at(50)) == identity
    now = table({"x": "7"}, id=INT, c=INT, x=INT)
    identity = identity.altered(
        now, (at(60), at(60)), {"x"}, at=at(50), is_strict=False
    )
    assert (identity.older, identity.touched) == ({"x": "5"}, ("x",))


def test_of_a_look_at_another_server_it_is_not_known_what_it_saw() -> None:
    identity = added(known(10, 10), begin=30, end=30, default="7")
    now = table({"x": "7"}, id=INT, c=INT, x=INT)
    looked = at(5, OTHER), at(5, OTHER)
    with pytest.raises(ValueError, match="x was altered again"):
        identity.altered(now, looked, {"x"}, at=at(3, OTHER), is_strict=True)


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_column_is_not_null_by_the_session_that_made_it_so(
    *, is_strict: bool
) -> None:
    """ADD x by a strict session, then MODIFY C int NOT NULL by another: the look behind
    the first has seen both."""
    now = table({"x": "5"}, id=INT, C=FIRM, x=INT)
    before = Identity.of(table(id=INT, C=INT), (at(10), at(10)))
    looked = at(40), at(40)
    identity = before.altered(now, looked, {"x"}, at=at(20), is_strict=True)
    identity = Identity.decode(identity.encode())
    if is_strict:
        assert identity.touching({"c"}, is_strict=True).tightened == ()
        return
    with pytest.raises(ValueError, match="c is NOT NULL now"):
        identity.touching({"c"}, is_strict=False)
    with pytest.raises(ValueError, match="c is NOT NULL now"):
        before.altered(now, looked, {"c"}, at=at(20), is_strict=False)


def test_a_column_that_was_dropped_does_not_come_again() -> None:
    plan = TableSpec(
        1, "s", "t", "db", "t", "", "", (ColumnSpec("c", "c", "int(11)", "int"),), ()
    )
    less = table(id=INT)
    identity = known(10, 10).without({"c"}, less)
    assert (identity.gone, {*identity.columns}) == (("c",), {"id"})
    assert identity.had == {"id", "c"}
    assert identity.problem_of(plan) == ""
    again = table(id=INT, c=INT)
    looked = at(60), at(60)
    identity = identity.altered(again, looked, {"c"}, at=at(50), is_strict=True)
    assert "what c gave to rows" in identity.problem_of(plan)
    assert identity.problem_of(replace(plan, columns=())) == ""


def test_one_that_a_late_look_sees_again_is_not_taken_for_gone() -> None:
    """Another statement brings it, which concerns it a second time."""
    now = table(id=INT, c=INT)
    identity = known(60, 60).touching({"c"}, is_strict=True).without({"c"}, now)
    assert identity.gone == ()
    with pytest.raises(ValueError, match="c was altered again"):
        identity.touching({"c"}, is_strict=True)
