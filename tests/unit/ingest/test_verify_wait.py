"""A verification of a table that follows a log waits for that one, and can be stopped."""

from __future__ import annotations

from typing import cast

import pytest

from ingest.contract.job import JobSpec, SecretAnswer
from ingest.contract.table import FenceSpec, TableSpec
from ingest.driver.apply.jobrun import Interrupted, JobRun
from ingest.driver.apply.log_read import Stream
from ingest.driver.table_services.verify_log import Since, wait_applied


class _Silent:
    """Of a log that nobody reads."""

    newest = None

    def refresh(self) -> bool:
        return False


def test_a_wait_for_a_silent_log_is_stopped_at_once() -> None:
    table = TableSpec(1, "public", "o", "shop", "o", "/lake/o", "/staging/1", (), ())
    spec = JobSpec("job", 1, "verify", "verify", "/lake", table, FenceSpec("f", 1))
    run = JobRun(spec, lambda _: SecretAnswer(""))
    run.request_stop("cancel")
    with pytest.raises(Interrupted):
        wait_applied(run, Since(cast(Stream, _Silent()), 0, "lsn:1:1:0/1"))
