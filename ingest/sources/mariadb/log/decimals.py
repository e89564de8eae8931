"""DECIMAL as the binary log has it: nine digits in four bytes, the first bit for the
sign, all bits of what is below zero the other way round. Pure.
"""

from __future__ import annotations

# Bytes of so many digits that are no whole nine.
_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)

Groups = tuple[tuple[int, int], ...]


def decimal_groups(precision: int, scale: int) -> Groups:
    """(bytes, digits) of its parts."""
    (nines, whole), (parts, rest) = divmod(precision - scale, 9), divmod(scale, 9)
    ends = (_BYTES[whole], whole), (_BYTES[rest], rest)
    groups = ends[0], *[(4, 9)] * (nines + parts), ends[1]
    return tuple(group for group in groups if group[0])


def decimal_bytes(groups: Groups) -> int:
    return sum(size for size, _ in groups)


def unscaled(data: bytes, groups: Groups) -> int:
    """Without its point."""
    bits = 8 * decimal_bytes(groups)
    if bits != 8 * len(data):
        raise ValueError(f"a DECIMAL of {len(data)} bytes")
    is_positive = data[0] & 128
    number = int.from_bytes(data, "big")
    if not is_positive:
        number ^= (1 << bits) - 1
    number &= (1 << bits - 1) - 1
    found = 0
    for size, digits in groups:
        bits -= 8 * size
        found = found * 10**digits + (number >> bits & (1 << 8 * size) - 1)
    return found if is_positive else -found


def plain_text(number: int, scale: int) -> str:
    """With all digits of its fraction."""
    digits = f"{abs(number):0{scale + 1}}"
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else sign + digits
