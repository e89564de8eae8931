"""One apply of a table as the driver runs it, with a write of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingest.contract.epochs import Seal
from ingest.driver.apply.epoch_tracking import (
    EpochTable,
    Reached,
    account_for,
    epochs_to_apply,
)


def apply_epochs(
    table: EpochTable,
    reached: Reached,
    *,
    newest: int,
    write: Callable[[Sequence[Seal]], str],
) -> tuple[Seal, ...]:
    seals = epochs_to_apply(table, reached, newest=newest)
    if seals:
        account_for(table, seals, write(seals))
    return seals
