"""Catalogs of any size for the bench, made inside the database in bulk.

Half of the tables lie in the lake and are fed by the other half, at nine sources. One
database of the lake and one of a source hold a tenth of all tables each, others one.
A third of the tables and two of eight columns have a comment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

COLUMNS = 8
JOBS = 100_000
GRANTS = 1_000
RESTRICTED, ADMIN = "ann", "root"
LOADED = ("catalog_table", "catalog_column", "ingest_pipeline", "core_job")

_WORDS = """
CREATE TEMP TABLE word AS SELECT row_number() OVER () - 1 AS n, w FROM unnest(ARRAY[
 'account','address','article','audit','balance','basket','batch','billing','booking',
 'branch','budget','campaign','carrier','cashflow','catalog','channel','claim','click',
 'contract','coupon','credit','customer','delivery','device','discount','document',
 'employee','event','exchange','forecast','fulfilment','inventory','invoice','journal',
 'ledger','listing','location','loyalty','margin','market','measure','member','message',
 'meter','mortgage','notice','offer','order','parcel','partner','payment','payroll',
 'picking','policy','position','price','product','profile','purchase','quota','rating',
 'receipt','refund','region','return','review','route','salary','schedule','segment',
 'session','shipment','status','stock','store','supplier','survey','tariff','ticket',
 'transfer','vehicle','vendor','visit','voucher','warehouse','warranty','worker','zone'
]) AS w;
CREATE TEMP TABLE words AS SELECT array_agg(w ORDER BY n) AS w FROM word
"""
_PLACES = """
INSERT INTO catalog_datasource (name, kind, host, port, database, username, secret, tls,
  options, version, created_at, updated_at, discovered_at, table_count)
SELECT 'src' || n, 'postgresql', 'db', 5432, 'app', 'u', '', 'off', '{{}}', 1, now(),
  now(), now(), {tables} / 18 FROM generate_series(1, 9) n;
INSERT INTO catalog_database (datasource_id, name)
SELECT s.id, CASE WHEN n = 0 THEN 'big' ELSE 'db' || lpad(n::text, 4, '0') END
FROM catalog_datasource s, generate_series(0, greatest(4, {tables} / 20000)) n
ORDER BY s.id, n;
CREATE TEMP TABLE place AS SELECT d.id, s.name AS source,
  row_number() OVER (PARTITION BY s.id ORDER BY d.id) - 1 AS n,
  count(*) OVER (PARTITION BY s.id) AS all_of_it
FROM catalog_database d JOIN catalog_datasource s ON s.id = d.datasource_id
"""
# The last database of a place gets one table only, the first a fifth of the lake's and
# of the first source's.
_TABLES = """
INSERT INTO catalog_table (id, database_id, name, source_name, kind, comment, record_key,
  cursor, partition_by, buckets, path, identity, schema_version,
  schema_fingerprint, estimated_rows, estimated_bytes, status, status_reason,
  is_queryable, caught_up_at, last_commit_instant, last_commit_at, created_at)
SELECT g, p.id, name, CASE WHEN is_lake THEN 'public.' || name ELSE name END,
  CASE WHEN is_lake THEN 'lake' ELSE 'source' END,
  CASE WHEN g % 3 = 0 THEN 'Daily ' || w[(g * 7) % 88 + 1] || ' per ' ||
    w[(g * 11) % 88 + 1] || ', kept for ' || g % 900 || ' days' ELSE '' END,
  '["id"]', '', '[]', CASE WHEN is_lake THEN 4 ELSE 0 END,
  CASE WHEN is_lake THEN '/lake/x/' || name ELSE '' END, '{{}}', 1, '', g % 100000, g,
  CASE WHEN NOT is_lake THEN 'DISCOVERED' WHEN g % 50000 = 0 THEN 'FAILED'
    WHEN g % 10 = 0 THEN 'PAUSED' ELSE 'LIVE' END, '', is_lake,
  CASE WHEN is_lake THEN now() - g * interval '1 ms' END, '',
  CASE WHEN is_lake AND g % 4 = 0 THEN now() - g * interval '1 ms' END, now()
FROM (SELECT g, g % 2 = 0 AS is_lake,
    w[(g / 2) % 88 + 1] || '_' || w[(g / 176) % 88 + 1] || '_' || (g + 1) / 2 AS name,
    w,
    CASE WHEN g % 2 = 0 THEN 'lake' WHEN g % 10 = 1 THEN 'src1'
      ELSE 'src' || g % 9 + 1 END AS source
  FROM generate_series(1, {tables}) g, words) t
JOIN place p ON p.source = t.source AND p.n = CASE
  WHEN g % 10 IN (1, 2) THEN 0
  WHEN g = 4 THEN p.all_of_it - 1
  ELSE 1 + (g / 10) % (p.all_of_it - 2) END
ORDER BY g
"""
_COLUMNS = """
INSERT INTO catalog_column (table_id, position, name, source_name, source_type, type,
  nullable, key, comment)
SELECT g, c, name, name, kind, kind, c > 1, CASE WHEN c = 1 THEN 1 ELSE 0 END, comment
FROM (SELECT g, c,
    CASE WHEN c IN (3, 6) THEN 'The ' || w[(g * 13 + c) % 88 + 1] || ' of its ' ||
      w[(g * 17 + c) % 88 + 1] || ', by rule ' || g % 700 ELSE '' END AS comment,
    CASE WHEN c % 2 = 1 THEN 'bigint' ELSE 'string' END AS kind,
    CASE c WHEN 1 THEN 'id' WHEN 2 THEN 'updated_at'
      ELSE w[(g * c) % 88 + 1] || '_' || (ARRAY['no', 'code', 'name', 'at', 'amount',
        'count', 'kind', 'note', 'flag', 'ref'])[(g + c) % 10 + 1] END AS name
  FROM generate_series(1, {tables}) g, generate_series(1, {columns}) c, words) x
ORDER BY g, c
"""
_FEEDS = """
INSERT INTO ingest_onboarding (id, datasource_id, request, requested_by, created_at,
  approved_at, approved_by)
SELECT gen_random_uuid(), id, '{{}}', 'root', now(), now(), 'root'
FROM catalog_datasource WHERE name <> 'lake';
INSERT INTO ingest_pipeline (onboarding_id, source_table_id, lake_table_id,
  capture, plan, state, status_reason, resume_event, consistency, bound, position,
  failures, drop_data, created_at, updated_at, {extra_names})
SELECT o.id, l.id - 1, l.id, 'timestamp',
  jsonb_build_object('database', 'x', 'name', l.name), 'LIVE', '', '', '', '', '', 0,
  false, now(), now(), {extra_values}
FROM catalog_table l JOIN catalog_table s ON s.id = l.id - 1
JOIN catalog_database d ON d.id = s.database_id
JOIN ingest_onboarding o ON o.datasource_id = d.datasource_id WHERE l.kind = 'lake'
"""
_JOBS = """
INSERT INTO core_job (id, kind, subject, subject_id, exclusive_key, lane, state, reason,
  payload, handle, cursor, phase, done, unit, error_code, error_message, error_hint,
  attempts, max_attempts, cancel_requested, requested_by, request_id, created_at,
  finished_at, share_key, weight)
SELECT gen_random_uuid(), 'sync', 't' || g, ((g * 2) % {tables} + 2)::text, '', 'syncs',
  CASE WHEN g % 5000 = 0 THEN 'QUEUED' ELSE 'SUCCEEDED' END, '', '{{}}', '{{}}', '{{}}',
  '', 0, '', '', '', '', 1, 3, '', '', '', now() - g * interval '1 s', now(),
  '', 1
FROM generate_series(1, {jobs}) g
"""
# What triggers collect, which a bulk load passes by.
_TERMS = """
INSERT INTO catalog_searchterm ("of", text)
SELECT DISTINCT 'column', name FROM catalog_column
UNION ALL SELECT DISTINCT 'word', regexp_split_to_table(name, '[^[:alpha:]]+')
FROM catalog_table
UNION ALL SELECT DISTINCT 'comment', regexp_split_to_table(lower(comment),
  '[^[:alpha:]]+')
FROM (SELECT comment FROM catalog_table WHERE id % 10 = 3
  UNION ALL SELECT comment FROM catalog_column WHERE position = 3 AND table_id % 10 = 1) x;
DELETE FROM catalog_searchterm WHERE length(text) < 3
"""
_GRANTS = """
INSERT INTO catalog_grant (principal_kind, principal_name, privilege, datasource,
  database, "table", granted_by, granted_at)
SELECT 'user', '{user}', 'select', s.name, d.name, t.name, 'root', now()
FROM (SELECT DISTINCT n * greatest(2, {tables} / {grants}) AS id
      FROM generate_series(1, {grants}) n) wanted
JOIN catalog_table t ON t.id = wanted.id
JOIN catalog_database d ON d.id = t.database_id
JOIN catalog_datasource s ON s.id = d.datasource_id;
INSERT INTO catalog_grant (principal_kind, principal_name, privilege, datasource,
  database, "table", granted_by, granted_at)
SELECT 'user', '{user}', 'select', 'lake', name, '', 'root', now() FROM
  (SELECT DISTINCT name FROM catalog_database WHERE name IN ('db0001', 'db0002')) d
"""

# Catalogs made by other SQL are other catalogs.
DIGEST = hashlib.sha256(
    "".join(
        (_WORDS, _PLACES, _TABLES, _COLUMNS, _TERMS, _FEEDS, _JOBS, _GRANTS)
    ).encode()
).hexdigest()[:8]


def fill(dsn: str, tables: int) -> None:
    """Fill a migrated, empty catalog with so many tables, and analyse it."""
    facts = {"tables": tables, "columns": COLUMNS, "user": RESTRICTED, "grants": GRANTS}
    with psycopg.connect(dsn, autocommit=True) as link:
        link.execute("SET session_replication_role = replica")  # no foreign key checks
        link.execute("SET maintenance_work_mem = '512MB'")
        link.execute("SET work_mem = '256MB'")
        with _unindexed(link):
            for script in (_WORDS, _PLACES, _TABLES, _COLUMNS, _TERMS):
                link.execute(script.format(**facts))
            link.execute("ANALYZE catalog_table")
            link.execute(_pipelines(link))
            link.execute(_JOBS.format(jobs=min(JOBS, tables), **facts))
        link.execute("ANALYZE")
        link.execute(_GRANTS.format(**facts))
        for name in ("catalog_table", "ingest_pipeline"):
            link.execute(
                f"SELECT setval(pg_get_serial_sequence('{name}', 'id'), max(id)) FROM {name}"
            )
        link.execute("VACUUM ANALYZE")


def _pipelines(link: psycopg.Connection[tuple[str, ...]]) -> str:
    """The pipelines' statement with a zero or "" for every further required column."""
    rows = link.execute(
        "SELECT column_name, data_type FROM information_schema.columns WHERE "
        "table_name = 'ingest_pipeline' AND is_nullable = 'NO' AND column_default"
        " IS NULL AND is_identity = 'NO'"
    ).fetchall()
    extra = {
        str(name): "0" if "int" in str(kind) else "'{}'" if kind == "jsonb"
        else "false" if kind == "boolean" else "''"
        for name, kind in rows
        if str(name) not in _FEEDS
    }  # fmt: skip
    text = _FEEDS.format(
        extra_names=", ".join(extra), extra_values=", ".join(extra.values())
    )
    return text.replace(", )", ")").replace("now(), \nFROM", "now()\nFROM")


@contextmanager
def _unindexed(link: psycopg.Connection[tuple[str, ...]]) -> Iterator[None]:
    """Loading first and indexing then takes a third of the time."""
    constraints = link.execute(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) "
        "FROM pg_constraint WHERE contype = 'u' AND conrelid::regclass::text = ANY(%s)",
        [list(LOADED)],
    ).fetchall()
    for table, name, _ in constraints:
        link.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    indexes = link.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s) "
        "AND indexname NOT LIKE '%%_pkey'",
        [list(LOADED)],
    ).fetchall()
    for name, _ in indexes:
        link.execute(f"DROP INDEX {name}")
    yield
    for table, name, definition in constraints:
        link.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
    for _, definition in indexes:
        link.execute(definition)
