"""The JVM beneath a session: our child, or our parent when `spark-submit` came first.

It must not know jobs.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from pyspark.sql import SparkSession

# Noted while it surely lives; later the answer may be whoever adopted us.
_PARENT = os.getppid()


_OUT_OF_MEMORY = frozenset({3, 52})
# How long before its end a dying JVM may reach us as an exception.
GRACE_SECONDS = 0.5


class Jvm:
    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._child: Any = gateway.proc

    @property
    def is_alive(self) -> bool:
        if self._child is None:
            return os.getppid() == _PARENT
        return self._child.poll() is None

    def is_gone(self, *, grace: float = GRACE_SECONDS) -> bool:
        """Whether it has ended, or does so within `grace` seconds: one that dies
        reaches us as foreign exceptions of any class."""
        until = time.monotonic() + grace
        while self.is_alive:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        return True

    @property
    def has_run_out_of_memory(self) -> bool:
        """Whether that is why it ended, by its exit code: that of
        `ExitOnOutOfMemoryError`, or Spark's own. Not known under `spark-submit`."""
        return self._child is not None and self._child.poll() in _OUT_OF_MEMORY

    def kill(self) -> None:
        """At once. Under `spark-submit` this is the end of the whole process group,
        this process included: a JVM that saw its Python end would close in order, and
        give a commit the time to finish."""
        if self._child is None:
            os.killpg(os.getpgrp(), signal.SIGKILL)
        else:
            self._child.kill()
