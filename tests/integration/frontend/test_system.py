"""Which processes an installation has, as far as that is on record."""

from __future__ import annotations

import os
from datetime import timedelta

from django.utils import timezone

from core.processes.identity import write_identity
from frontend.reading.processes import processes
from ingest.models import SourceFollower
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
