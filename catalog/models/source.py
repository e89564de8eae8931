"""Datasources: a server (or one PostgreSQL database) that Sluice reads, or the lake."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Lower

LAKE = "lake"


class Datasource(models.Model):
    """Typed fields only; users never give URLs.

    secret   encrypted password (catalog.secrets), never returned
    options  typed per kind, validated by catalog.sources.kinds
    needs_password  it had one that was lost with the metadata database
    owner, tags     as of a table
    is_recorded     the lake has a record of it that says what this row says
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=30)
    host = models.CharField(max_length=255, blank=True)
    port = models.PositiveIntegerField(default=0)
    database = models.CharField(max_length=200, blank=True)
    username = models.CharField(max_length=200, blank=True)
    secret = models.TextField(blank=True)
    needs_password = models.BooleanField(default=False)
    is_recorded = models.BooleanField(default=False)
    tls = models.CharField(max_length=10, default="off")
    options = models.JSONField(default=dict, blank=True)
    owner = models.CharField(max_length=160, default="", blank=True)
    tags = ArrayField(models.CharField(max_length=50), default=list, blank=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    tested_at = models.DateTimeField(null=True, blank=True)
    test_result = models.JSONField(null=True, blank=True)
    discovered_at = models.DateTimeField(null=True, blank=True)
    table_count = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                Lower("name"), name="one_datasource_per_folded_name"
            )
        ]
        ordering: ClassVar = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_lake(self) -> bool:
        return self.kind == LAKE

    @property
    def address(self) -> str:
        """Where it is reached, as people write it: host:port/database."""
        port = f":{self.port}" if self.port else ""
        database = f"/{self.database}" if self.database else ""
        return f"{self.host}{port}{database}"
