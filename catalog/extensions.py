"""Where packages above the catalog add to what it says, without being known to it.

Filled once at start (`AppConfig.ready` of the package above), read afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import (
    CharField,
    Expression,
    JSONField,
    Model,
    QuerySet,
    UUIDField,
    Value,
)
from prometheus_client.core import Metric

from catalog.access.policy import Principal, Securable
from catalog.access.table_rights import HeldRule
from catalog.models import Column, Datasource, Table


@dataclass(slots=True)
class Extensions:
    """annotations  name -> SQL expression on Table, so that facts cost no statement:
                 `onboarding` (id of the request that carries it),
                 `lake_table` ("database.table" of the lake table it feeds) and
                 `sync` (JSON of the sync that a source's table feeds)
    blockers     what still needs a datasource, as texts; empty = it may be deleted
    releases     deletes finished rows that only keep a datasource from being deleted
    storage      why the lake's object store cannot be used now, "" = it can
    altered      told, within its transaction, of source tables that a discovery found
                 with other columns than before, gone, or back
    secrets      models with rows whose `secret` is encrypted, as a datasource's is
    gauges       more of what /metrics says, read when asked
    alert_targets  the kinds of targets that messages of alerts can go to, as set up
    actions      what can be requested for a lake table, as /config lists it
    actions_of   which of them the caller may request for a table now, and why not
    live_table   a source's table and its columns, as an engine of SQL reads them
    live_access  how an engine reaches a source, with its password
    live_end     ends statements at a source that a dead engine has left, by their mark
    rules        refuses a rule whose expression an engine cannot apply; told by whom
    """

    annotations: dict[str, Callable[[], Expression]] = field(default_factory=dict)
    blockers: list[Callable[[Datasource], list[str]]] = field(default_factory=list)
    releases: list[Callable[[Datasource], None]] = field(default_factory=list)
    storage: Callable[[], str] = str
    altered: list[Callable[[QuerySet[Table]], None]] = field(default_factory=list)
    secrets: list[type[Model]] = field(default_factory=list)
    gauges: list[Callable[[], Iterator[Metric]]] = field(default_factory=list)
    alert_targets: Callable[[], list[str]] = list
    actions: Callable[[], list[dict[str, object]]] = list
    actions_of: Callable[[Principal, int, Securable], list[dict[str, object]]] = (
        lambda who, table_id, table: []
    )
    live_table: Callable[[Table, list[Column]], dict[str, Any]] = lambda table, c: {}
    live_access: Callable[[Datasource], dict[str, Any] | None] = lambda source: None
    live_end: Callable[[Datasource, str], None] = lambda source, mark: None
    rules: Callable[[HeldRule, str], None] = lambda rule, by: None


def _nothing() -> Extensions:
    return Extensions(
        annotations={
            "onboarding": lambda: Value(None, output_field=UUIDField(null=True)),
            "capture": lambda: Value(None, output_field=CharField(null=True)),
            "lake_table": lambda: Value(None, output_field=CharField(null=True)),
            "sync": lambda: Value(None, output_field=JSONField(null=True)),
        }
    )


registered = _nothing()
