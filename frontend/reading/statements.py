"""Statements of the SQL page and samples, asked of the gateway as the user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from catalog.access.policy import Principal
from catalog.models import Table
from core.errors import SluiceError, TransientError


@dataclass(frozen=True, slots=True)
class Sample:
    """Some rows of a table, or why there are none."""

    columns: list[dict[str, str]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    error: SluiceError | None = None


def sample_of(principal: Principal, table: Table) -> Sample:
    return Sample(error=TransientError("the gateway does not answer"))


def engines_or_error() -> tuple[list[Any], SluiceError | None]:
    return [], TransientError("the gateway does not answer")
