"""Which turns of a session plan a compaction; a table of cases, no Spark."""

from __future__ import annotations

from ingest.driver.table_services.pace import EACH_SECONDS, Pace


def test_one_table_plans_at_a_time_whoever_comes_first() -> None:
    now = [100.0]
    pace = Pace(lambda: now[0])
    assert pace.is_open
    assert pace.take()
    assert not pace.is_open
    assert not pace.take()
    now[0] += EACH_SECONDS - 0.1
    assert not pace.take()
    now[0] += 0.1
    assert pace.is_open
    assert pace.take()
    # time that nobody took is not saved up
    now[0] += 100 * EACH_SECONDS
    assert [pace.take(), pace.take()] == [True, False]
