"""The JVM beneath a session, which is our child.

Whether it lives, and the outcome and words for what it throws; exceptions of Python are
`ingest.sources.failures`'. It must not know jobs.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from core.sentences import Sentence
from ingest.contract.job import DRIVER_DIED, JVM_ENDED
from ingest.sources import failures
from ingest.sources.failures import Failure, failure, known_failure, source_failure

_OUT_OF_MEMORY = frozenset({3, 52})
# How long before its end a dying JVM may reach us as an exception.
GRACE_SECONDS = 0.5


class Jvm:
    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._child: Any = gateway.proc

    @property
    def is_alive(self) -> bool:
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
        `ExitOnOutOfMemoryError`, or Spark's own."""
        return self._child.poll() in _OUT_OF_MEMORY

    def kill(self) -> None:
        """At once: one that saw its Python end would close in order, and give a commit
        the time to finish."""
        self._child.kill()


_FIRST_LINES = 600
_MOST_CAUSES = 20
# By the class, which comes first: the words behind it may be a source's.
_BROKEN_JVM = re.compile(
    r"java\.lang\.(?:ExceptionInInitializerError: Exception java\.lang\.)?"
    r"VirtualMachineError\b"
)


def failure_of(error: BaseException) -> Failure:
    text = _java_text(error)
    if text is not None:
        return _java_failure(error, text)
    if isinstance(error, Py4JNetworkError):
        return failure("transient", DRIVER_DIED, JVM_ENDED, Sentence(""))
    return failures.failure_of(error)


def breaks_jvm(error: BaseException) -> bool:
    """Whether the JVM cannot serve further jobs after this error.

    A class whose initialisation met a full code cache stays broken as long as the JVM
    lives: whatever needs it fails, attempt after attempt, until the driver is
    restarted. Only HotSpot itself throws this class, which is abstract; its subclasses
    (no memory, no stack) have other names.
    """
    return any(_BROKEN_JVM.match(java.shown) for java in _java_chain(error))


@dataclass(frozen=True, slots=True)
class _Thrown:
    """A Java exception: as its toString shows it, and what there is to say of it."""

    shown: str
    words: str


def _java_text(error: BaseException) -> str | None:
    """All messages of a Java exception and its causes, or None for other ones."""
    if not isinstance(error, (Py4JJavaError, PySparkException)):
        return None
    words = [java.words for java in _java_chain(error)]
    try:
        return "\n".join([str(error)[:_FIRST_LINES], *words])
    except Py4JError:
        return "\n".join([type(error).__name__, *words])


def _java_chain(error: BaseException) -> list[_Thrown]:
    """The Java exception behind a Python one, and its causes; each is asked over a
    connection to the JVM, which may break: then what was told by then."""
    found: list[_Thrown] = []
    if not isinstance(error, (Py4JJavaError, PySparkException)):
        return found
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    try:
        while java is not None and len(found) < _MOST_CAUSES:
            shown = java.toString()
            said = java.getMessage() or java.getClass().getSimpleName()
            found.append(_Thrown(shown, f"{_sql_state(java)}{said}"))
            java = java.getCause()
    except Py4JError:
        pass
    return found


def _sql_state(java: Any) -> str:
    try:
        return f"[SQLSTATE {java.getSQLState()}] "
    except Exception:  # noqa: BLE001 - most Java exceptions have no such method
        return ""


def _java_failure(error: BaseException, text: str) -> Failure:
    if known := known_failure(text):
        return known
    found = text.rpartition("[SQLSTATE ")[2]
    if found and "[SQLSTATE " in text:
        state, _, rest = found.partition("] ")
        return source_failure(state, rest.splitlines()[0] if rest else state)
    if "PSQLException" in text:
        line = next(x for x in text.splitlines() if "PSQLException" in x)
        return source_failure("", line.partition("PSQLException:")[2].strip())
    return failure(
        "transient",
        "spark_failed",
        Sentence("Spark failed at this job in a way that Sluice does not know"),
        Sentence("it is tried again; the driver's log has the trace, by the job's id"),
    )
