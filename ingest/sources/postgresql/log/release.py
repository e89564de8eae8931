"""Giving back what following a log has made at the source."""

from __future__ import annotations

import psycopg

from core.errors import TransientError
from ingest.sources.port import LogNames, SourceAccess
from ingest.sources.postgresql.connection import DIALECT
from ingest.sources.postgresql.log.control import open_control
from ingest.sources.postgresql.log.slot import drop_slot


def release_log(access: SourceAccess, names: LogNames) -> None:
    """Drop the slot, then the publication, if they are there and ours to drop.
    TransientError `slot_in_use` while another reader has the slot."""
    with open_control(access) as control:
        is_there = control.slot(names.slot) is not None
        if is_there and not drop_slot(control.connection, names.slot):
            raise TransientError(
                "the slot %(slot)s at the source is in use and was not dropped",
                slot=names.slot,
                code="slot_in_use",
                hint="it is tried again; end what reads it",
            )
        try:
            control.run(f"DROP PUBLICATION IF EXISTS {DIALECT.name(names.publication)}")
        except psycopg.errors.InsufficientPrivilege:
            return  # an administrator made it; it costs the source nothing
