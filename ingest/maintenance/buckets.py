"""How many buckets would fit a table as its files are now, and why. Pure.

Base files of 64 to 256 MB are read and compacted well; a bucket more than that takes
is one more file to open and to write with every commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from core.sentences import Sentence
from ingest.maintenance.descriptions import counted, sized
from ingest.maintenance.facts import MB, LakeFacts

TARGET = 128 * MB
LEAST = 64 * MB
MOST = 256 * MB
MOST_SKEW = 4.0
MOST_BUCKETS = 4096


@dataclass(frozen=True, slots=True)
class Suggestion:
    buckets: int
    reason: str


def suggest_buckets(facts: LakeFacts) -> Suggestion | None:
    """None when another number would not be better, or nothing is known yet.

    Judged by base files alone: log files are merged into them.
    """
    now = facts.buckets
    if not now or not facts.base_files:
        return None
    average = facts.base_bytes / facts.base_files
    wanted = buckets_for(facts)
    if average > MOST and wanted > now:
        return Suggestion(
            wanted,
            Sentence(
                "base files have %(average)s on average, more than %(most)s:"
                " %(wanted)s make them about %(size)s",
                average=sized(average),
                most=sized(MOST),
                wanted=counted(wanted, "bucket"),
                size=sized(expected_bytes(facts, wanted)),
            ),
        )
    if is_skewed(facts):
        return _even(facts, wanted)
    if average < LEAST and wanted < now:
        return Suggestion(
            wanted,
            Sentence(
                "base files have %(average)s on average, less than %(least)s:"
                " %(wanted)s would do, with about %(size)s each",
                average=sized(average),
                least=sized(LEAST),
                wanted=counted(wanted, "bucket"),
                size=sized(expected_bytes(facts, wanted)),
            ),
        )
    return None


def buckets_for(facts: LakeFacts) -> int:
    """The smallest number that keeps base files at the target size or below it."""
    wanted = ceil(_bytes_per_partition(facts) / TARGET)
    return min(MOST_BUCKETS, max(1, wanted))


def expected_bytes(facts: LakeFacts, buckets: int) -> int:
    """Of a base file in that many buckets, on average."""
    return int(_bytes_per_partition(facts) / buckets)


def is_skewed(facts: LakeFacts) -> bool:
    return facts.skew > MOST_SKEW and facts.base_bytes >= LEAST


def _even(facts: LakeFacts, wanted: int) -> Suggestion:
    """Only by trying is it known how keys spread; an odd number shares no pattern
    with keys that count in twos or tens."""
    now = facts.buckets
    odd = wanted + 1 - wanted % 2
    if odd == now:
        odd += 2
    return Suggestion(
        min(MOST_BUCKETS - 1, odd),
        Sentence(
            "keys fall unevenly into %(now)s, the largest has %(skew)s"
            " times the bytes of a usual one; %(odd)s suit its size, and"
            " an odd number mostly spreads keys better",
            now=counted(now, "bucket"),
            skew=f"{facts.skew:g}",
            odd=counted(odd, "bucket"),
        ),
    )


def _bytes_per_partition(facts: LakeFacts) -> float:
    return facts.base_bytes / max(1, facts.partitions)
