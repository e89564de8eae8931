"""What exists and who may touch it. Facts and constraints only; no remote calls."""

from __future__ import annotations

from catalog.models.access import (
    AccessRule,
    ApiToken,
    AuditEntry,
    Grant,
    LoginFailure,
    PolicyVersion,
)
from catalog.models.source import Datasource
from catalog.models.table import Column, Database, SchemaVersion, SearchTerm, Table
from catalog.models.user import (
    DirectoryGroup,
    ExternalIdentity,
    FormerUser,
    IdempotencyKey,
    Invitation,
    Preferences,
    SavedQuery,
)

__all__ = [
    "AccessRule",
    "ApiToken",
    "AuditEntry",
    "Column",
    "Database",
    "Datasource",
    "DirectoryGroup",
    "ExternalIdentity",
    "FormerUser",
    "Grant",
    "IdempotencyKey",
    "Invitation",
    "LoginFailure",
    "PolicyVersion",
    "Preferences",
    "SavedQuery",
    "SchemaVersion",
    "SearchTerm",
    "Table",
]
