"""Sessions that apply streams, as the driver's pipe knows them: one per stream.

What a session needs of its driver is put together here. It must not know how what
waits is applied.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from core.errors import InvalidRequest
from ingest.contract.applying import ApplyReport, ApplyWork
from ingest.contract.job import JobSpec, SecretAnswer
from ingest.contract.members import value_of
from ingest.driver.apply.clocks import forget_instants_ahead, require_clock
from ingest.driver.apply.jobrun import JobRun
from ingest.driver.apply.log_session import ApplySession, Around
from ingest.driver.session import open_lake
from ingest.driver.table_services.cleaning import tidy_when_due
from ingest.driver.table_services.compaction import plan_when_due
from ingest.driver.table_services.pace import Pace
from ingest.lake.hudi.timeline import Timeline

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


class ApplySessions:
    def __init__(
        self,
        spark: SparkSession,
        *,
        secrets: Callable[[str], SecretAnswer],
        report: Callable[[ApplyReport], None],
    ) -> None:
        self._spark = spark
        self._around = Around(secrets, report, self._prepare, self._look_after)
        self._sessions: dict[str, ApplySession] = {}
        self._pace = Pace(time.monotonic)

    def set(self, work: ApplyWork) -> None:
        session = self._sessions.get(work.stream)
        if session is not None:
            session.set(work)
            return
        session = ApplySession(self._spark, work, self._around)
        self._sessions[work.stream] = session
        session.start()

    def end(self, seconds: float) -> None:
        """Gives up all tables; waits at most so long for what is being written."""
        sessions = list(self._sessions.values())
        for session in sessions:
            session.end()
        until = time.monotonic() + seconds
        while time.monotonic() < until and not all(s.is_idle for s in sessions):
            time.sleep(_POLL_SECONDS)

    def _prepare(self, run: JobRun) -> None:
        open_lake(run, self._spark)
        forget_instants_ahead(self._spark)
        require_clock(run)

    def _look_after(self, spec: JobSpec, timeline: Timeline) -> bool:
        name = f"{spec.table.database}.{spec.table.name}"
        planned: tuple[str, ...] = ()
        try:
            planned = plan_when_due(self._spark, spec, timeline, pace=self._pace)
            tidy_when_due(self._spark, spec, timeline)
        except Exception as error:
            log.warning("%s is not looked after", name, exc_info=error)
        return bool(planned)


def work_from(data: Mapping[str, Any]) -> ApplyWork:
    """From decoded JSON; InvalidRequest when its shape differs."""
    try:
        return value_of(ApplyWork, data)
    except ValueError as error:
        raise InvalidRequest(f"malformed work of a session: {error}") from error
