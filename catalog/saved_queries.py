"""Saved queries: whose may be seen, kept, changed and thrown away. Runs nothing."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Left, Length
from django.db.models.lookups import GreaterThan

from catalog.access import audit
from catalog.access.policy import Principal
from catalog.models import SavedQuery
from core.errors import AccessDenied, InvalidRequest, NotFound

LONGEST_NAME, LONGEST_SQL = 200, 100_000
MOST_OF_ONE = 1_000
SHOWN_SQL = 1_000


def queries_for(principal: Principal) -> QuerySet[SavedQuery]:
    """Their own and those shared by others."""
    rows = SavedQuery.objects.select_related("owner")
    return rows.filter(Q(owner__username=principal.name) | Q(is_shared=True))


def begun_for(principal: Principal) -> tuple[QuerySet[SavedQuery], ...]:
    """Their own, and those of others, each with no more than the beginning of its text:
    `begin`, and `is_long` when there is more."""
    shown: dict[str, Any] = {
        "begin": Left("sql", SHOWN_SQL),
        "is_long": GreaterThan(Length("sql"), SHOWN_SQL),
    }
    rows = queries_for(principal).defer("sql").annotate(**shown)
    own = Q(owner__username=principal.name)
    return rows.filter(own), rows.exclude(own)


def query_for(principal: Principal, query_id: int) -> SavedQuery:
    row = queries_for(principal).filter(pk=query_id).first()
    if row is None:
        raise NotFound(
            "there is no saved query %(number)s",
            number=query_id,
            code="query_not_found",
            hint="see GET /api/v1/saved-queries",
        )
    return row


def save_query(
    principal: Principal, *, name: str, sql: str, is_shared: bool = False
) -> SavedQuery:
    """A new one. InvalidRequest for a name that its owner has already."""
    _check(name, sql)
    owner = User.objects.get(username=principal.name)
    if SavedQuery.objects.filter(owner=owner).count() >= MOST_OF_ONE:
        raise InvalidRequest(
            "you have %(most)s saved queries, which is the most",
            most=f"{MOST_OF_ONE:,}",
            code="too_many",
            hint="delete some first",
        )
    row = SavedQuery(owner=owner, name=name, sql=sql, is_shared=is_shared)
    return _stored(row, "query.save", principal)


def keep_query(
    principal: Principal, *, name: str, sql: str, is_shared: bool
) -> SavedQuery:
    """Like `save_query`; one of theirs of that name gets this text instead, and stays
    shared when it is."""
    same = SavedQuery.objects.filter(owner__username=principal.name, name=name)
    pk = same.values_list("pk", flat=True).first()
    if pk is None:
        return save_query(principal, name=name, sql=sql, is_shared=is_shared)
    shared = {"is_shared": True} if is_shared else {}
    return change_query(principal, pk, {"sql": sql, **shared})


def change_query(
    principal: Principal, query_id: int, changes: dict[str, Any]
) -> SavedQuery:
    """changes: some of name, sql, is_shared. AccessDenied unless it is theirs."""
    with transaction.atomic():
        row = locked_query(principal, query_id)
        for name, value in changes.items():
            setattr(row, name, value)
        _check(row.name, row.sql)
        return _stored(row, "query.change", principal)


def locked_query(principal: Principal, query_id: int) -> SavedQuery:
    """As it is now, until the caller's transaction ends. AccessDenied unless it is
    theirs."""
    SavedQuery.objects.select_for_update().filter(pk=query_id).first()
    return _his(principal, query_id)


def delete_query(principal: Principal, query_id: int) -> None:
    row = _his(principal, query_id)
    with transaction.atomic():
        audit.record("query.delete", on=row.name, actor=principal.name)
        row.delete()


def _his(principal: Principal, query_id: int) -> SavedQuery:
    is_admin = principal.is_admin
    row = query_for(principal, query_id)
    if row.owner.username != principal.name and not is_admin:
        raise AccessDenied(
            "'%(name)s' belongs to %(owner)s",
            name=row.name,
            owner=row.owner.username,
            hint="save it under a name of your own",
        )
    return row


def _stored(row: SavedQuery, action: str, principal: Principal) -> SavedQuery:
    try:
        with transaction.atomic():
            row.save()
            audit.record(action, on=row.name, actor=principal.name)
    except IntegrityError:
        raise _wrong(
            "/name", "there is a saved query '%(name)s' already", name=row.name
        ) from None
    return row


def _check(name: str, sql: str) -> None:
    if not name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise _wrong(
            "/name", "a name of 1 to %(most)s characters is needed", most=LONGEST_NAME
        )
    if not sql.strip() or len(sql) > LONGEST_SQL or "\0" in sql:
        raise _wrong(
            "/sql",
            "a statement of 1 to %(most)s characters is needed",
            most=f"{LONGEST_SQL:,}",
        )


def _wrong(pointer: str, message: str, **named: Any) -> InvalidRequest:
    return InvalidRequest(
        message,
        **named,
        code="invalid_query",
        hint="correct it, and save again",
        pointer=pointer,
    )
