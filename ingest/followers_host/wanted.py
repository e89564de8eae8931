"""Which sources shall be followed, and whether something of their tables changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import connection

from ingest.models import Policy, SourceFollower
from ingest.pipelines.followers import (
    WITHOUT_PLAN,
    abandoned_followers,
    followers_of_sources,
)
from ingest.pipelines.log_tables import awaited_tables
from ingest.planning.facts import LOG


@dataclass(frozen=True, slots=True)
class Wanted:
    """is_over: nothing of it is followed any more, what was made there has to go."""

    row: SourceFollower
    is_over: bool = False


def wanted_sources() -> dict[int, Wanted]:
    """By id of the datasource, which comes with its row."""
    followed = {
        row.datasource_id: Wanted(row)
        for row in followers_of_sources()
        if row.desired == SourceFollower.RUNNING
    }
    over = {
        row.datasource_id: Wanted(row, is_over=True) for row in abandoned_followers()
    }
    return over | followed


# What `followed_tables` are made of. The database makes a digest of it: the host reads
# this every other second, of any number of tables. A shard that joins a table moves it
# in no other way than by its own row.
_MARKS = """
SELECT d.datasource_id, md5(string_agg(md5((p.id, p.state, p.load_name, p.bound,
  p.drift, p.status_reason, p.policy, lake.schema_version, shards.count)::text), ''
  ORDER BY p.id))
FROM ingest_pipeline p
JOIN catalog_table source ON source.id = p.source_table_id
JOIN catalog_database d ON d.id = source.database_id
LEFT JOIN catalog_table lake ON lake.id = p.lake_table_id
CROSS JOIN LATERAL (
  SELECT count(*) FROM ingest_shard s WHERE s.pipeline_id = p.id) shards
WHERE d.datasource_id = ANY(%s) AND p.capture = %s AND p.state <> ALL(%s)
GROUP BY 1
"""


def table_marks(sources: Collection[int]) -> dict[int, Any]:
    """By id of the datasource what changes when its `followed_tables` do: a fraction
    of their cost."""
    pks = list(sources)
    awaited = sorted(awaited_tables())
    found: dict[int, list[Any]] = {source: [awaited] for source in pks}
    given = Policy.objects.filter(datasource__in=pks).order_by("pk")
    for source, policy in given.values_list("datasource", "given"):
        found[source].append(policy)
    with connection.cursor() as cursor:
        cursor.execute(_MARKS, [pks, LOG, list(WITHOUT_PLAN)])
        for source, digest in cursor.fetchall():
            found[source].append(digest)
    return found
