"""A driver of a job's own: how much memory and how many cores, as asked and as started.

Pure. It must not know settings, jobs or processes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.errors import InvalidRequest
from core.sentences import as_sentence
from ingest.contract.job import DriverSpec

LEAST_MEGABYTES = 512
_LIKE = "expected a size like 1200m or 4g"
_MEMORY = re.compile(r"([1-9]\d{0,5})([mg])")
_FIELDS = frozenset({"memory", "cores"})


def megabytes(memory: str) -> int:
    """Of a heap like `1200m` or `4g`; ValueError for anything else."""
    found = _MEMORY.fullmatch(memory.lower())
    if found is None:
        raise ValueError(_LIKE)
    return int(found[1]) * (1024 if found[2] == "g" else 1)


def parse_driver(value: Any, at: str, *, most: DriverSpec | None) -> DriverSpec:
    """`{"memory": "4g", "cores": 4}`; what is left out is as much as may be.
    InvalidRequest with a pointer, also for more than `most`."""
    if not isinstance(value, Mapping) or set(value) - _FIELDS:
        raise _refusal(at, 'a driver is {"memory": "4g", "cores": 4}')
    memory = value.get("memory", most.memory if most else None)
    cores = value.get("cores", most.cores if most else None)
    try:
        size = megabytes(memory if isinstance(memory, str) else "")
    except ValueError as error:
        raise _refusal(
            f"{at}/memory", "memory: %(why)s", why=as_sentence(str(error))
        ) from error
    if not isinstance(cores, int) or isinstance(cores, bool) or cores < 1:
        raise _refusal(f"{at}/cores", "cores must be a whole number above zero")
    if size < LEAST_MEGABYTES:
        raise _refusal(
            f"{at}/memory", "memory must be %(least)sm at least", least=LEAST_MEGABYTES
        )
    if most and size > megabytes(most.memory):
        raise _refusal(
            f"{at}/memory", "memory may be %(memory)s at most", memory=most.memory
        )
    if most and cores > most.cores:
        raise _refusal(
            f"{at}/cores", "cores may be %(cores)s at most", cores=most.cores
        )
    return DriverSpec(str(memory).lower(), cores)


def within(driver: DriverSpec, most: DriverSpec) -> DriverSpec:
    """The same, but no more than what may be."""
    is_fit = megabytes(driver.memory) <= megabytes(most.memory)
    memory = driver.memory if is_fit else most.memory
    return DriverSpec(memory, min(driver.cores, most.cores))


def arguments_for(driver: DriverSpec | None, *, is_cluster: bool) -> list[str]:
    """For `ingest.driver.main`, after those that all drivers have: the last one counts.
    On a cluster it is the executors that work."""
    if driver is None:
        return []
    if is_cluster:
        conf = {
            "spark.executor.memory": driver.memory,
            "spark.cores.max": str(driver.cores),
        }
        return [part for k, v in conf.items() for part in ("--conf", f"{k}={v}")]
    return ["--master", f"local[{driver.cores}]", "--memory", driver.memory]


def _refusal(pointer: str, message: str, **named: Any) -> InvalidRequest:
    return InvalidRequest(message, **named, pointer=pointer, code="invalid_driver")
