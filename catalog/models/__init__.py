"""What exists and who may touch it. Facts and constraints only; no remote calls."""

from __future__ import annotations

from catalog.models.access import (
    ApiToken,
    AuditEntry,
    Grant,
    LoginFailure,
    PolicyVersion,
)
from catalog.models.identity import DirectoryGroup, ExternalIdentity
from catalog.models.preferences import Preferences
from catalog.models.request import IdempotencyKey
from catalog.models.saved_query import SavedQuery
from catalog.models.search import SearchTerm
from catalog.models.source import Datasource
from catalog.models.table import Column, Database, SchemaVersion, Table

__all__ = [
    "ApiToken",
    "AuditEntry",
    "Column",
    "Database",
    "Datasource",
    "DirectoryGroup",
    "ExternalIdentity",
    "Grant",
    "IdempotencyKey",
    "LoginFailure",
    "PolicyVersion",
    "Preferences",
    "SavedQuery",
    "SchemaVersion",
    "SearchTerm",
    "Table",
]
