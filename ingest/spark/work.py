"""How much Spark has done for a job so far: grows while anything comes of it.

Read from the figures that tasks send every ten seconds, on a cluster, too. It must not
know what the tasks do.
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# of a stage; a task that failed has done nothing
_FIGURES = (
    "numCompleteTasks",
    "inputRecords",
    "outputRecords",
    "shuffleReadRecords",
    "shuffleWriteRecords",
)


class SparkWork:
    """Of the Spark jobs under one tag."""

    def __init__(self, spark: SparkSession, tag: str) -> None:
        context: Any = spark.sparkContext._jsc
        self._context = context.sc()
        self._tag = tag
        # stage → what was done in it; Spark forgets old stages
        self._done: dict[int, int] = {}
        self._ended: set[int] = set()

    def total(self) -> int:
        """Tasks and rows; never less than before."""
        tracker = self._context.statusTracker()
        for job in tracker.getJobIdsForTag(self._tag):
            if job not in self._ended:
                self._look(tracker, job)
        return sum(self._done.values())

    def _look(self, tracker: Any, job: int) -> None:
        found = tracker.getJobInfo(job)
        if found.isEmpty():
            return
        info = found.get()
        is_running = info.status().toString() in {"RUNNING", "UNKNOWN"}
        for stage in info.stageIds():
            self._done[stage] = max(self._done.get(stage, 0), self._of_stage(stage))
        if not is_running:
            self._ended.add(job)

    def _of_stage(self, stage: int) -> int:
        try:
            found = self._context.statusStore().lastStageAttempt(stage)
        except Py4JJavaError:
            return 0  # skipped, or forgotten
        return sum(int(getattr(found, name)()) for name in _FIGURES)
