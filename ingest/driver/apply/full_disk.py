"""Which disk is full, when a write says only that one is.

Hadoop tells "No space left on device" often without a path. It must not know jobs.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import SluiceError, TransientError
from core.sentences import Sentence, as_sentence, joined
from ingest.contract.job import ErrorFact, JobSpec, fact_of
from ingest.lake.place import place_at

FULL = "storage_full"
# A disk with more than this is not the full one: the smallest write that fails is one
# block, the largest a file that is taken away again after it failed.
NEARLY_FULL = 16 * 2**20


def named(error: ErrorFact, spec: JobSpec, *, scratch: str = "") -> ErrorFact:
    """The error with the full disk in its words; as it is for every other error.

    scratch  where Spark keeps what it shuffles and spills
    """
    if error.code != FULL:
        return error
    free = dict(_free(spec, scratch))
    full = {path: left for path, left in free.items() if left < NEARLY_FULL}
    if not full:
        # what failed was removed since; the one with the least room is meant
        full = dict(sorted(free.items(), key=lambda item: item[1])[:1])
    which = joined(
        Sentence("%(path)s has %(bytes)s bytes free", path=path, bytes=f"{left:,}")
        for path, left in full.items()
    )
    return fact_of(
        TransientError(
            "%(error)s (%(where)s)",
            path=next(iter(full)),
            error=as_sentence(error.message),
            where=which,
            code=error.code,
            hint="free space on the file system of %(path)s; then retry",
        )
    )


def room(spec: JobSpec, scratch: str) -> int:
    """Bytes that are free where there is least; 0 = nobody knows."""
    return min((left for _, left in _free(spec, scratch)), default=0)


def _free(spec: JobSpec, scratch: str) -> Iterator[tuple[str, int]]:
    """Where a job writes, and how much is free there: lake, staging and scratch."""
    for path in (spec.table.path, spec.table.staging, spec.lake):
        try:
            left = place_at(path).free_bytes()
        except SluiceError:
            continue
        if left is not None:
            yield path, left
    local = os.environ.get("SPARK_LOCAL_DIRS", "")
    for folder in dict.fromkeys((scratch, local, tempfile.gettempdir())):
        if folder and Path(folder).exists():
            yield folder, shutil.disk_usage(folder).free
