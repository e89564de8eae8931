"""What a type of a ledger becomes in the lake."""

from __future__ import annotations

_TYPES = {"id": "bigint", "amount": "decimal(38,2)", "moment": "timestamp"}


def lake_type(source_type: str) -> str:
    return _TYPES.get(source_type, "")


def cannot_hold(source_type: str, lake: str) -> str:
    return "amounts beyond 36 digits" if source_type == "amount" else ""
