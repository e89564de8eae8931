"""The long tests in slices: each commit runs one, `make test-all` runs them all.

A test's slice is told by its name and a commit's by its hash, so that the slices rotate
without anybody keeping count, and a slice can be repeated on any machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from zlib import crc32

SLICES = 48


@dataclass(frozen=True, slots=True)
class Slice:
    """Which long tests run. `number` of `count`, from 1; count 0: none, 1: all."""

    number: int
    count: int

    def takes(self, test: str) -> bool:
        """test: its name, or the one that it shares with those that it runs with."""
        return self.count > 0 and crc32(test.encode()) % self.count == self.number - 1

    def __str__(self) -> str:
        special = {0: "none", 1: "all"}
        return special.get(self.count, f"{self.number}/{self.count}")


NONE, ALL = Slice(0, 0), Slice(1, 1)


def parse(text: str) -> Slice:
    """`none`, `all` or `3/12`. ValueError for anything else."""
    if text in {"none", "all"}:
        return NONE if text == "none" else ALL
    found = re.fullmatch(r"([1-9]\d{0,2})/([1-9]\d{0,2})", text)
    if not found or int(found[1]) > int(found[2]):
        raise ValueError(f"{text!r} is no slice: none, all, or one as 3/{SLICES}")
    return Slice(int(found[1]), int(found[2]))


def slice_of_commit(commit: str) -> Slice:
    """commit: its hash in hexadecimal digits; of an unknown commit, "", the first."""
    return Slice(int(commit[:8] or "0", 16) % SLICES + 1, SLICES)
