"""What of a PostgreSQL server may end following its log."""

from __future__ import annotations

from catalog.sources.postgresql.log import doubts_of


def test_what_may_end_following_it_is_said_with_what_mends_it() -> None:
    assert doubts_of("on", "0") == ()
    durable, kept = doubts_of("off", "1d")
    assert "ALTER SYSTEM SET fsync = on;" in durable
    assert "idle_replication_slot_timeout is 1d" in kept
    assert "ALTER SYSTEM SET idle_replication_slot_timeout = 0;" in kept
