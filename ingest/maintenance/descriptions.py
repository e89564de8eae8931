"""How what is found of lake tables is put into words. Pure."""

from __future__ import annotations


def counted(number: int, what: str) -> str:
    """`1 bucket`, `2 buckets`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def sized(size: float) -> str:
    """`7 B`, `1.5 kB`, `256 MB`: steps of a thousand."""
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{f'{size:.1f}'.removesuffix('.0')} {unit}"
