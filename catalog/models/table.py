"""Databases, tables, columns and schema versions, of sources and of the lake."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex, OpClass
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Upper

from catalog.models.source import Datasource
from core.sentence_field import SentenceField


class Database(models.Model):
    """The middle level: a MySQL database, a PostgreSQL schema, a lake database."""

    datasource = models.ForeignKey(
        Datasource, on_delete=models.CASCADE, related_name="databases"
    )
    name = models.CharField(max_length=200)
    discovered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["datasource", "name"], name="one_database_per_name"
            )
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return f"{self.datasource.name}.{self.name}"


class Table(models.Model):
    """A table at a source, or in the lake (then with its pinned identity).

    name           name in its datasource (for a lake table: the derived lake name)
    source_name    for a lake table "schema.table" of its source, else = name
    path           lake tables: where the data lies; derived, never given by users
    identity       lake tables: pinned write identity (ingest.lake.hudi), JSON
    schema_version counts up with every change of columns
    status         shown state with its reason
    owner          who answers for it, "user:ann" or "group:bi"; gives no right
    tags           words that tables are found by, sorted
    last_commit_*  cache of the lake's own commit metadata
    """

    SOURCE, LAKE = "source", "lake"

    # one_table_per_name serves as the index of this key
    database = models.ForeignKey(
        Database, on_delete=models.CASCADE, related_name="tables", db_index=False
    )
    name = models.CharField(max_length=300)
    source_name = models.CharField(max_length=600)
    kind = models.CharField(max_length=10, default=SOURCE)
    comment = models.TextField(blank=True)
    record_key = models.JSONField(default=list, blank=True)
    cursor = models.CharField(max_length=300, blank=True)
    partition_by = models.JSONField(default=list, blank=True)
    buckets = models.PositiveIntegerField(default=0)
    path = models.CharField(max_length=1000, blank=True)
    identity = models.JSONField(default=dict, blank=True)
    schema_version = models.PositiveIntegerField(default=1)
    schema_fingerprint = models.CharField(max_length=64, blank=True)
    estimated_rows = models.BigIntegerField(default=0)
    estimated_bytes = models.BigIntegerField(default=0)
    status = models.CharField(max_length=20, default="DISCOVERED")
    status_reason = SentenceField(blank=True)
    is_queryable = models.BooleanField(default=False)
    caught_up_at = models.DateTimeField(null=True, blank=True)
    last_commit_instant = models.CharField(max_length=30, blank=True)
    last_commit_position = models.JSONField(null=True, blank=True)
    last_commit_epoch = models.BigIntegerField(null=True, blank=True)
    last_commit_at = models.DateTimeField(null=True, blank=True)
    owner = models.CharField(max_length=160, default="", db_default="", blank=True)
    tags = ArrayField(
        models.CharField(max_length=50), default=list, db_default=[], blank=True
    )
    seen_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["database", "name"], name="one_table_per_name"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "id"]),
            GinIndex(
                OpClass(Upper("name"), name="gin_trgm_ops"), name="table_name_trigram"
            ),
            models.Index(
                OpClass(Upper("name"), name="text_pattern_ops"),
                name="table_name_prefix",
            ),
            models.Index(
                F("database"),
                OpClass(F("name"), name="varchar_pattern_ops"),
                name="table_name_prefix_in_database",
            ),
            GinIndex(
                OpClass(Upper("comment"), name="gin_trgm_ops"),
                condition=~Q(comment=""),
                name="table_comment_trigram",
            ),
            # What GetTables walks along, without looking at the rows themselves.
            models.Index(
                F("database"),
                OpClass(F("name"), name="varchar_pattern_ops"),
                include=["id"],
                condition=Q(is_queryable=True) & ~Q(path=""),
                name="queryable_in_order",
            ),
            # The lake's tables by what its list is sorted and filtered by.
            models.Index(
                fields=["name", "id"], condition=Q(kind="lake"), name="lake_by_name"
            ),
            models.Index(fields=["status", "name", "id"], name="table_by_status"),
            models.Index(
                fields=["caught_up_at", "id"],
                condition=Q(kind="lake"),
                name="lake_by_lag",
            ),
            models.Index(
                F("last_commit_at").desc(nulls_last=True),
                F("id").desc(),
                condition=Q(kind="lake"),
                name="lake_by_commit",
            ),
            GinIndex(fields=["tags"], condition=Q(kind="lake"), name="lake_by_tag"),
            models.Index(
                fields=["owner", "name"], condition=Q(kind="lake"), name="lake_by_owner"
            ),
        ]
        ordering: ClassVar = ["name", "id"]

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"


class Column(models.Model):
    """One column; see catalog.schema.types.Column for the meaning of the fields."""

    # one_column_per_position serves as the index of this key
    table = models.ForeignKey(
        Table, on_delete=models.CASCADE, related_name="columns", db_index=False
    )
    position = models.PositiveIntegerField()
    name = models.CharField(max_length=300)
    source_name = models.CharField(max_length=300)
    # without a limit: an enum's type is the list of its values
    source_type = models.TextField()
    type = models.CharField(max_length=100, blank=True)
    nullable = models.BooleanField(default=True)
    key = models.PositiveIntegerField(default=0)
    comment = models.TextField(blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["table", "position"], name="one_column_per_position"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["name", "table"], name="column_by_name"),
            GinIndex(
                OpClass(Upper("comment"), name="gin_trgm_ops"),
                condition=~Q(comment=""),
                name="column_comment_trigram",
            ),
        ]
        ordering: ClassVar = ["position"]

    def __str__(self) -> str:
        return self.name


class SchemaVersion(models.Model):
    """The columns a table had from `since` on, as JSON of catalog.schema.types."""

    table = models.ForeignKey(
        Table, on_delete=models.CASCADE, related_name="schema_versions"
    )
    version = models.PositiveIntegerField()
    since = models.DateTimeField(auto_now_add=True)
    columns = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["table", "version"], name="one_schema_per_version"
            )
        ]
        ordering: ClassVar = ["version"]


class SearchTerm(models.Model):
    """A column name, or a word out of table names or comments, that occurs here.

    Millions of columns share few names, so a fuzzy search reads this small table and
    goes on with what it found. Triggers fill it (migrations 0004 and 0006). Rows are
    hints: they may be there twice, and stay when the last column of that name goes.
    """

    COLUMN, WORD, COMMENT = "column", "word", "comment"

    of = models.CharField(max_length=10)
    text = models.TextField()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["of", "text"], name="search_term"),
            GinIndex(OpClass("text", name="gin_trgm_ops"), name="search_term_trigram"),
        ]
