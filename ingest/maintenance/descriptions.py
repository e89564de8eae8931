"""How what is found of lake tables is put into words. Pure."""

from __future__ import annotations

from core.sentences import Sentence

_COUNTED = {
    "bucket": (Sentence("1 bucket"), Sentence("%(count)s buckets")),
    "commit": (Sentence("1 commit"), Sentence("%(count)s commits")),
    "file group": (Sentence("1 file group"), Sentence("%(count)s file groups")),
    "log file": (Sentence("1 log file"), Sentence("%(count)s log files")),
    "later instant": (
        Sentence("1 later instant"),
        Sentence("%(count)s later instants"),
    ),
    "row": (Sentence("1 row"), Sentence("%(count)s rows")),
}


def counted(number: int, what: str) -> Sentence:
    """`1 bucket`, `2 buckets`."""
    one, many = _COUNTED[what]
    return one if number == 1 else Sentence(many, count=number)


def span(seconds: float) -> str:
    """Two hours as "2 h"."""
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def sized(size: float) -> str:
    """`7 B`, `1.5 kB`, `256 MB`: steps of a thousand."""
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{f'{size:.1f}'.removesuffix('.0')} {unit}"
