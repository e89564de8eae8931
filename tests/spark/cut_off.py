"""A job that somebody takes the place of in the middle of its work."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ingest.contract.job import JobReport, JobSpec
from tests.spark.lake_bench import LakeBench


def cut_off(bench: LakeBench, spec: JobSpec, pattern: str) -> JobReport:
    """The fence rises as soon as such a file is in the timeline: the job leaves its
    rubble."""
    timeline = Path(spec.table.path) / ".hoodie" / "timeline"
    before, ended = set(timeline.glob(pattern)), threading.Event()
    scope = "service" if spec.kind == "compact" else "write"

    def supersede() -> None:
        while set(timeline.glob(pattern)) == before and not ended.is_set():
            time.sleep(0.001)
        bench.take_over(spec.table, 2, scope)

    rival = threading.Thread(target=supersede)
    rival.start()
    report = bench.run(spec)
    ended.set()
    rival.join()
    assert report.outcome == "transient", report
    return report
