"""What a sync notices of its source by comparing with the sync before."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import translation

from core.translation import translated
from ingest.contract.positions import Replica, SourceClock, plan_bound, wall_clock
from ingest.sources.fingerprint import (
    MOST_NOTICES,
    NOT_COUNTED,
    ServerFingerprint,
    SourceFingerprint,
    from_data,
    is_count_due,
    is_maybe_emptied,
    is_recreated,
    late_rows,
    passed_edges,
    sentences_of,
    settled,
    to_data,
    values_altered,
    what_changed,
)

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
SERVER = ServerFingerprint("16384", True, (41, 42), 7, "7001", 1, {"transaction": 900})
SERVER = replace(SERVER, columns={"id": 1, "v": 2}, forms={"v": {"50": "sad"}})
BEFORE = SourceFingerprint(SERVER, clock=(NOW - timedelta(minutes=1)).isoformat())


def test_notices_keep_in_json_what_they_were_made_of():
    moved = BEFORE.noticing(what_changed(BEFORE, replace(SERVER, server="7002"), NOW))
    kept = from_data(json.loads(json.dumps(to_data(moved))))
    assert kept.notices == moved.notices
    (said,) = sentences_of(kept)
    with translation.override("zh-hans"):
        assert translated(said) == (
            "自 2026-05-01 12:00 UTC 起由另一台服务器响应（原为 7001，现为 7002）："
            "发生了故障切换或恢复；请校验此表"
        )


@pytest.mark.parametrize(
    ("now", "part"),
    [
        (SERVER, ""),
        (replace(SERVER, log={"transaction": 950}), ""),
        (replace(SERVER, server="7002"), "another server"),
        (replace(SERVER, timeline=2), "promoted or restored"),
        (replace(SERVER, log={"transaction": 899}), "earlier moment"),
        # what the login may not ask any more, or could not before, says nothing
        (replace(SERVER, server="", timeline=0, log={}), ""),
        (replace(SERVER, relation=""), ""),
        # certain by itself: it stops the sync and needs no notice
        (replace(SERVER, relation="16999"), ""),
        (replace(SERVER, relation="x", is_exact=False), "truncated or rebuilt"),
        (replace(SERVER, columns={"id": 1, "v": 3}), "v was dropped and added again"),
        (replace(SERVER, columns={"id": 1, "w": 3}), ""),
        (replace(SERVER, forms={"v": {"50": "blue"}}), "v (sad → blue) read other"),
        (replace(SERVER, forms={"v": {"50": "sad", "51": "blue"}}), ""),
        (replace(SERVER, forms={"v": {"51": "blue"}, "w": {"50": "blue"}}), ""),
        (replace(SERVER, forms={}), ""),
    ],
)
def test_what_happened_to_the_source(now: ServerFingerprint, part: str) -> None:
    found = what_changed(BEFORE, now, NOW)
    assert len(found) == bool(part)
    assert part in "".join(found)


def test_many_values_that_read_otherwise_are_counted() -> None:
    labels = {str(n): str(n) for n in range(9)}
    was = replace(SERVER, forms={"v": labels})
    now = replace(SERVER, forms={"v": {kept: f"{kept}!" for kept in labels}})
    (told,) = what_changed(SourceFingerprint(was), now, NOW)
    assert "v (0 → 0!; 1 → 1!; 2 → 2!; … +6)" in told


def test_numbers_of_labels_say_nothing_of_another_server() -> None:
    other = replace(SERVER, server="7002", forms={"v": {"50": "blue"}})
    assert values_altered(SERVER, replace(other, server="7001"))
    assert not values_altered(SERVER, other)
    assert not values_altered(SERVER, replace(other, server="7001", relation="2"))


def test_another_server_with_another_table_is_told_as_both() -> None:
    """A dump that was loaded elsewhere: the positions of that one are not ours."""
    other = replace(SERVER, server="7002", relation="17000")
    assert not is_recreated(SERVER, other)
    assert len(what_changed(BEFORE, other, NOW)) == 2


@pytest.mark.parametrize(
    ("was", "now", "is_so"),
    [
        (SERVER, SERVER, False),
        (SERVER, replace(SERVER, relation="2"), True),
        (SERVER, replace(SERVER, relation="2", is_exact=False), False),
        (ServerFingerprint(), SERVER, False),
        (SERVER, replace(SERVER, relation=""), False),
    ],
)
def test_a_table_made_anew(
    was: ServerFingerprint, now: ServerFingerprint, is_so: bool
) -> None:
    assert is_recreated(was, now) is is_so


@pytest.mark.parametrize(
    ("now", "is_so"),
    [
        (replace(SERVER, relation="2", is_exact=False), True),
        (replace(SERVER, relation="2"), False),
        (replace(SERVER, is_exact=False), False),
        (replace(SERVER, relation="2", server="7002", is_exact=False), False),
        (replace(SERVER, files=(51, 52)), True),
        (replace(SERVER, files=(51, 52), server="7002"), False),
        # a partition that was dropped, another one that came
        (replace(SERVER, files=(42, 43)), False),
        (replace(SERVER, files=()), False),
        (replace(SERVER, counter=6), True),
        (replace(SERVER, counter=8), False),
        (replace(SERVER, counter=0), False),
    ],
)
def test_only_rows_tell_whether_it_was_made_anew_or_emptied(
    now: ServerFingerprint, is_so: bool
) -> None:
    assert is_maybe_emptied(SERVER, now) is is_so


@pytest.mark.parametrize(("seconds", "is_told"), [(-90, False), (1, False), (30, True)])
def test_a_clock_that_went_back(seconds: float, is_told: bool) -> None:
    before = replace(BEFORE, clock=(NOW + timedelta(seconds=seconds)).isoformat())
    assert bool(what_changed(before, SERVER, NOW)) is is_told


def test_notices_are_kept_once_and_the_newest_few() -> None:
    many = [f"n{i}" for i in range(MOST_NOTICES + 2)]
    kept = SourceFingerprint().noticing(many).noticing(many[-1:])
    assert kept.notices == tuple(many[-MOST_NOTICES:])


def test_an_equal_verification_settles_them() -> None:
    source_fingerprint = replace(
        BEFORE, late=3, notices=("n",), counts=(1,), edges=("a", "b")
    )
    assert len(sentences_of(source_fingerprint)) == 2
    assert sentences_of(settled(source_fingerprint, source_fingerprint)) == []
    assert settled(source_fingerprint, source_fingerprint).server == SERVER


def test_what_was_noticed_while_a_verification_read_stays() -> None:
    known = replace(BEFORE, late=3, notices=("n",), counts=(1,), edges=("a", "b"))
    since = replace(known, late=5, notices=("n", "later"), counts=(7,))
    left = settled(since, known)
    assert (left.late, left.notices) == (2, ("later",))
    # counted anew, rows that came late meanwhile would be taken for those of before
    assert left.counts == (7,)


def test_they_survive_json() -> None:
    source_fingerprint = replace(
        BEFORE, late=3, notices=("n",), counts=(1,), edges=("a", "b")
    )
    source_fingerprint = replace(source_fingerprint, is_unique=True)
    assert (
        from_data(json.loads(json.dumps(to_data(source_fingerprint))))
        == source_fingerprint
    )
    assert from_data({}) == SourceFingerprint()


def test_rows_are_counted_when_a_step_has_passed() -> None:
    assert is_count_due(SourceFingerprint(), NOW)
    counted = SourceFingerprint(counted_at=NOW.isoformat())
    assert not is_count_due(counted, NOW + timedelta(minutes=4))
    assert is_count_due(counted, NOW + timedelta(minutes=5))


def test_steps_end_at_the_position_and_begin_an_hour_before_at_most() -> None:
    first = passed_edges(None, NOW)
    assert (first[0], first[-1], len(first)) == (NOW - timedelta(hours=1), NOW, 13)
    assert passed_edges(NOW - timedelta(days=1), NOW) == first
    assert passed_edges(NOW - timedelta(minutes=4), NOW) == []
    since = NOW - timedelta(minutes=11)
    between = since + timedelta(minutes=5, seconds=30)
    assert passed_edges(since, NOW) == [since, between, NOW]


def test_late_rows_are_not_hidden_by_rows_that_left() -> None:
    """Rows leave a step when they change; those that came are seen step by step."""
    assert late_rows([5, 5, 5], [2, 9, 5]) == 4
    assert late_rows([5, 5], [0, 0]) == 0
    assert late_rows([NOT_COUNTED, 5], [9, NOT_COUNTED]) == 0


def test_a_replica_bounds_the_watermark_by_what_it_has_replayed() -> None:
    replayed = NOW - timedelta(seconds=100)
    clock = SourceClock(NOW, (), True, (-3600, 0), Replica(replayed))
    bound = plan_bound(clock, lag_seconds=10, low=None)
    assert bound.high == replayed - timedelta(seconds=10)
    assert bound.reach == replayed
    earlier = plan_bound(wall_clock(clock), lag_seconds=10, low=None)
    assert earlier.high == bound.high - timedelta(hours=1)
    ahead = replace(clock, replica=Replica(NOW + timedelta(seconds=5)))
    assert ahead.complete_until == NOW
