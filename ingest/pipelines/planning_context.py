"""What holds while tables of one source are planned: space, and the policies in force.

Read once per request and asked once per table; what is the same of many tables is made
once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from catalog.models import Database, Datasource
from ingest.pipelines import table_facts as reading
from ingest.pipelines.policies.policy import Effective
from ingest.pipelines.policies.schedule import every_seconds_of, translatable
from ingest.pipelines.policies.store import Policies
from ingest.planning.facts import Capture, Conditions


class Circumstances:
    """Of one request on `source`."""

    def __init__(self, source: Datasource) -> None:
        self._policies = Policies([source.pk])
        self._free_bytes = reading.free_bytes()
        self._found: dict[tuple[int, str], Effective] = {}

    def policy_of(self, database: Database, own: Mapping[str, Any]) -> Effective:
        """For a table of this database with its own settings."""
        key = database.pk, json.dumps(own, sort_keys=True)
        if key not in self._found:
            self._found[key] = self._policies.of_database(database, own)
        return self._found[key]

    def under(self, policy: Effective, capture: Capture) -> Conditions:
        return Conditions(
            capture=capture,
            every_seconds=every_seconds_of(policy.schedule),
            when=translatable(policy.schedule),
            lag_seconds=policy.lag_seconds,
            lag_is_chosen=policy.is_chosen("lag_seconds"),
            free_bytes=self._free_bytes,
            lock="zookeeper" if settings.SLUICE_LAKE_LOCK else "",
        )
