"""How numbers, sizes, times and states read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from core.jobs import JOB
from frontend.templatetags import figures
from frontend.templatetags.icons import PATHS, icon
from frontend.templatetags.states import LOOKS, look_of
from ingest.models.states import PIPELINE

DASH = "\N{EN DASH}"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, DASH),
        (0, "1 ms"),
        (0.04, "40 ms"),
        (0.4, "0.4 s"),
        (5, "5 s"),
        (5.0, "5.0 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7_300, "2 h 1 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration(seconds, text):
    assert figures.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, DASH), ("", DASH), (0, "0"), (1234567, "1,234,567"), (2.25, "2.2")],
)
def test_figure_never_shows_zero_for_unknown(value, text):
    assert figures.figure(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (7, "7 B"),
        (-5_000_000, "-5 MB"),
        (1_500, "1.5 kB"),
        (8_000_000_000_000_000, "8000 TB"),
    ],
)
def test_size(value, text):
    assert figures.size(value) == text


@pytest.mark.parametrize(
    ("done", "total", "text"), [(1, 3, "33 %"), (9, 3, "100 %"), (1, None, "")]
)
def test_percent(done, total, text):
    assert figures.percent(done, total) == text


def test_times_are_in_the_readers_zone_and_tell_utc_on_hover():
    at = datetime(2026, 8, 22, 14, 3, 22, 123456, tzinfo=UTC)
    with timezone.override(ZoneInfo("Asia/Shanghai")):
        assert ">2026-08-22 22:03:22<" in figures.instant(at)
        assert ">22:03:22<" in figures.clock(at.isoformat())
        assert 'title="2026-08-22 14:03:22 UTC"' in figures.clock(at)
    assert figures.instant("no time") == DASH


@pytest.mark.parametrize("state", [*JOB.states, *PIPELINE.states])
def test_every_state_has_colour_icon_and_word(state):
    look = look_of(state)
    assert state in LOOKS
    assert look.icon in PATHS
    assert look.word
    assert look.tone in {"ok", "info", "warn", "bad", "idle"}


def test_an_unknown_state_is_shown_by_its_own_word():
    assert look_of("NEW_ONE").word == "new_one"


def test_icons_are_hidden_from_screen_readers():
    assert 'aria-hidden="true"' in icon("check")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, DASH),
        (-90, ">due, waiting<"),
        (80.5, ">in 1 min<"),
        (3_599.5, ">in 1 h<"),
        (7_300, ">in 2 h<"),
        (86_000, ">in 1 d<"),
        (7 * 86_400 - 0.5, ">in 7 d<"),
        (6.4 * 86_400, ">in 6 d<"),
    ],
)
def test_what_is_due_is_never_in_the_past(seconds, text):
    wait = None if seconds is None else timedelta(seconds=seconds)
    assert text in figures.due(wait and timezone.now() + wait)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("shop.agents changed at the source", "shop.agents changed at the source"),
        ("order_items: it failed", "order_items: it failed"),
        ("waiting for a place", "Waiting for a place"),
        ("", ""),
    ],
)
def test_a_sentence_keeps_the_name_that_it_begins_with(text, shown):
    assert figures.sentence(text) == shown


def test_a_long_name_breaks_behind_its_parts() -> None:
    found = figures.breakable("lake.shop.first_<b>")
    assert found == "lake.<wbr>shop.<wbr>first_<wbr>&lt;b&gt;"


def test_where_a_sync_went() -> None:
    before, after = "lsn:7374893290034028614:1:16/B374D120", "lsn:7374893290034028614"
    position = {"from": before, "to": f"{after}:1:16/B374D848:B374D800-64A-2FC-828C1A"}
    assert figures.span(position) == "…28614:1:16/B374D120 → …28614:1:16/B374D848"
