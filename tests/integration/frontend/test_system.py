"""Which processes an installation has, as far as that is on record."""

from __future__ import annotations

import os
from datetime import timedelta

from django.utils import timezone

from core.processes.identity import write_identity
from frontend.reading.processes import processes
from ingest.models import DriverIncarnation, SourceFollower
from ingest.models.alerts import Presence
from tests.integration.frontend.reading import html_of


def test_processes_are_shown_with_what_is_known_of_them(
    world, browse, settings, tmp_path
):
    """Those of this home by their pid files, others by what they wrote last."""
    settings.SLUICE_HOME = tmp_path
    for folder in ("run", "logs"):
        (tmp_path / folder).mkdir()
    write_identity(tmp_path / "run" / "web.pid.json", os.getpid(), "web")
    write_identity(tmp_path / "run" / "worker.pid.json", 2**22 + 1, "worker")
    (tmp_path / "logs" / "web.log").touch()
    now = timezone.now()
    Presence.objects.all().delete()
    Presence.objects.create(seen_at=now - timedelta(hours=1))
    reader = SourceFollower.objects.create(
        datasource=world.source, observed="following", host="far", pid=7,
        heartbeat_at=now, rows_per_second=12.0,
    )  # fmt: skip
    of = {one.name: one for one in processes()}
    assert (of["web"].state, of["worker"].state, of["tick"].state) == (
        "READY", "STOPPED", "silent",
    )  # fmt: skip
    assert (of["followers"].beat, of["tick"].pid) == (reader.written_at, None)
    read = of[f"follower-{world.source.pk}"]
    assert (read.state, read.pid, read.host) == ("following", 7, "far")
    assert read.does == "reads the log of shop, 12 rows a second"
    shown = html_of(browse("root").get("/system"))
    assert str(tmp_path / "logs" / "web.log") in shown
    assert "starts what is due" in shown


def test_the_driver_that_runs_is_shown_once(world, browse, settings, tmp_path):
    """Among the processes; a table beside them has those that ended."""
    settings.SLUICE_HOME = tmp_path
    now = timezone.now()
    ended = {"started_at": now, "ended_at": now, "pid": 4_194_001}
    DriverIncarnation.objects.create(**ended, facts={"spark": "of-before"})
    row = DriverIncarnation.objects.create(
        started_at=now, heartbeat_at=now, pid=4_194_002, facts={"spark": "of-now"}
    )
    of = {one.name: one for one in processes()}
    assert (of["driver"].state, of["driver"].pid) == ("STARTING", row.pid)
    DriverIncarnation.objects.filter(pk=row.pk).update(ready_at=now)
    assert {one.name: one for one in processes()}["driver"].state == "READY"
    shown = html_of(browse("root").get("/system"))
    assert shown.count("4194002") == shown.count("4194001") == 1
    assert "of-before" in shown
    assert "of-now" in shown
