"""Register, change and remove datasources. Makes no connection; that is discovery.

Privileges are the caller's business (`catalog.access.enforcement`), except that
the lake's own row is not changed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from catalog import extensions
from catalog.access import audit
from catalog.labels import check_owner, check_tags
from catalog.models import Database, Datasource
from catalog.names import LAKE, check_datasource_name
from catalog.networks import check_host
from catalog.secrets import encrypt
from catalog.sources.kinds import TLS, SourceKind, checked_options
from catalog.sources.registry import kind_named
from core.errors import InvalidRequest, NotFound, StaleState
from core.sentences import Sentence, joined


@dataclass(frozen=True, slots=True)
class NewDatasource:
    """What POST /datasources takes. `port` 0 = the kind's default.

    database  may be empty where the kind does not need one
    owner     "user:ann" or "group:bi"; "" = nobody
    """

    name: str
    kind: str
    host: str
    username: str
    database: str = ""
    password: str = ""
    port: int = 0
    tls: str = "off"
    options: Mapping[str, object] = field(default_factory=dict)
    owner: str = ""
    tags: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class DatasourceChange:
    """What PATCH takes; None = leave it. `options` are merged key by key."""

    host: str | None = None
    port: int | None = None
    database: str | None = None
    username: str | None = None
    password: str | None = None
    tls: str | None = None
    options: Mapping[str, object] | None = None
    owner: str | None = None
    tags: Sequence[str] | None = None

    @property
    def has_labels_alone(self) -> bool:
        rest = replace(self, owner=None, tags=None)
        return self != rest and rest == DatasourceChange()


def drafted(new: NewDatasource) -> Datasource:
    """The row as it would be stored. InvalidRequest names every wrong field."""
    kind = kind_named(new.kind)
    row = Datasource(
        name=new.name,
        kind=kind.name,
        host=new.host,
        port=new.port or kind.default_port,
        database=new.database,
        username=new.username,
        secret=encrypt(new.password),
        tls=new.tls,
        options=new.options,
        owner=check_owner(new.owner),
        tags=check_tags(new.tags),
    )
    _gathered(
        lambda: _require_free(check_datasource_name(new.name)),
        *_checks(row, kind),
    )
    return row


def create_datasource(
    new: NewDatasource, *, by: str, test: Mapping[str, object] | None = None
) -> Datasource:
    """The stored row, with the result of a test that was made of it before."""
    row = drafted(new)
    _tested(row, test)
    try:
        with transaction.atomic():
            row.save()
            audit.record(
                "datasource.create", on=row.name, actor=by, kind=row.kind, host=row.host
            )
    except IntegrityError:
        raise _taken(new.name) from None
    return row


def update_datasource(
    name: str,
    change: DatasourceChange,
    *,
    by: str,
    expected_version: int | None = None,
    test: Mapping[str, object] | None = None,
) -> Datasource:
    """Apply a change; `test` as for `create_datasource`. StaleState
    `precondition_failed` when the row has changed since.

    A new host, port or database, or less TLS, without the password again is refused: a
    stored password must not be sent to a server that its giver did not name, nor where
    others can read it.
    """
    with transaction.atomic():
        row = _locked(name, expected_version)
        changed = _change(row, change)
        row.version += 1
        if not change.has_labels_alone:  # else it is as it was tested and recorded
            row.is_recorded = False
            _tested(row, test)
        row.save()
        audit.record(
            "datasource.update",
            on=name,
            actor=by,
            fields=sorted(changed),
            changed_credentials=change.password is not None,
        )
    return row


def drafted_change(row: Datasource, change: DatasourceChange) -> Datasource:
    """`row` as it would be after the change; nothing is stored."""
    _change(row, change)
    return row


def _change(row: Datasource, change: DatasourceChange) -> set[str]:
    """Names of the fields that really changed. InvalidRequest as for a new one."""
    protected = TLS.index(row.tls)
    changed = _apply(row, change)
    is_exposed = row.tls in TLS and TLS.index(row.tls) < protected

    def has_password() -> None:
        if change.password is not None:
            return
        if changed & {"host", "port", "database"}:
            raise _password_required(_ELSEWHERE, Sentence("the new address"))
        if is_exposed:
            raise _password_required(_LESS_PROTECTED, f"tls '{row.tls}'")

    if change.password is not None:
        row.secret = encrypt(change.password)
        row.needs_password = False
    _gathered(has_password, *_checks(row, kind_named(row.kind)))
    return changed


_ELSEWHERE = "a datasource that points elsewhere needs its password again"
_LESS_PROTECTED = "a datasource that is less protected needs its password again"


def _password_required(why: str, what: str) -> InvalidRequest:
    return InvalidRequest(
        why,
        code="password_required",
        hint=Sentence("send `password` together with %(what)s", what=what),
        facts={"errors": [{"pointer": "/password", "detail": Sentence("required")}]},
    )


def _tested(row: Datasource, test: Mapping[str, object] | None) -> None:
    row.tested_at = timezone.now() if test else None
    row.test_result = dict(test) if test else None


def delete_datasource(
    name: str, *, by: str, expected_version: int | None = None
) -> None:
    """Forget a datasource and its tables; refused while lake tables depend on it."""
    with transaction.atomic():
        row = _locked(name, expected_version)
        blockers = [
            text for find in extensions.registered.blockers for text in find(row)
        ]
        if blockers:
            raise _in_use(name, blockers)
        for release in extensions.registered.releases:
            release(row)
        try:
            row.delete()
        except ProtectedError as error:
            raise _in_use(name, [str(o) for o in error.protected_objects]) from None
        audit.record("datasource.delete", on=name, actor=by)


def require_a_source(row: Datasource) -> None:
    """InvalidRequest for the lake, which is not read from."""
    if row.is_lake:
        raise InvalidRequest(
            "the lake is a datasource of Sluice itself",
            code="lake_is_fixed",
            hint="the lake is set by SLUICE_LAKE_URI",
        )


def _locked(name: str, expected_version: int | None) -> Datasource:
    row = Datasource.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise NotFound(
            "there is no datasource %(name)s",
            name=name,
            code="datasource_not_found",
        )
    require_a_source(row)
    if expected_version is not None and row.version != expected_version:
        raise StaleState(
            "datasource %(name)s is at version %(version)s, not %(expected)s",
            name=name,
            version=row.version,
            expected=expected_version,
            code="precondition_failed",
            hint="read it again, then repeat the change with its new ETag",
            facts={"version": row.version},
        )
    return row


def _apply(row: Datasource, change: DatasourceChange) -> set[str]:
    """Set plain fields and options; the names of those that really changed."""
    changed: set[str] = set()
    for name in ("host", "port", "database", "username", "tls"):
        value = getattr(change, name)
        if value is not None and value != getattr(row, name):
            setattr(row, name, value)
            changed.add(name)
    if change.options is not None:
        row.options = {**row.options, **change.options}
        changed.add("options")
    if change.owner is not None:
        row.owner = check_owner(change.owner)
        changed.add("owner")
    if change.tags is not None:
        row.tags = check_tags(change.tags)
        changed.add("tags")
    return changed


def _gathered(*checks: Callable[[], object]) -> None:
    """Make all checks, then raise one error for all that is wrong."""
    found: list[InvalidRequest] = []
    for check in checks:
        try:
            check()
        except InvalidRequest as error:
            found.append(error)
    if not found:
        return
    if len(found) == 1:
        raise found[0]
    pointed = [e for error in found for e in cast(Any, error.facts.get("errors", []))]
    raise InvalidRequest(
        "the datasource is not complete or not right",
        code="invalid_datasource",
        hint=joined(dict.fromkeys(e.hint for e in found)),
        facts={"errors": pointed},
    )


def _require_free(name: str) -> None:
    taken = Datasource.objects.filter(name__iexact=name).first()
    if taken is not None:
        raise _taken(taken.name)


def _taken(name: str) -> InvalidRequest:
    return InvalidRequest(
        "there is already a datasource '%(name)s'",
        name=name,
        code="name_taken",
        hint="choose another name: upper and lower case make no difference",
        facts={"errors": [{"pointer": "/name", "detail": "there is one already"}]},
    )


def _checks(row: Datasource, kind: SourceKind) -> tuple[Callable[[], object], ...]:
    """Typed fields, options, and the network policy once there is a host."""

    def host() -> None:
        if row.host:
            row.host = check_host(row.host, settings.SLUICE_SOURCE_NETWORKS_DENIED)

    def options() -> None:
        row.options = checked_options(kind, row.options)

    return lambda: _check_fields(row, kind), host, options


def _check_fields(row: Datasource, kind: SourceKind) -> None:
    faults = [
        {"pointer": f"/{name}", "detail": Sentence("required")}
        for name in ("host", "database", "username")
        if not getattr(row, name) and (name != "database" or kind.needs_database)
    ]
    faults += [
        {"pointer": f"/{name}", "detail": "contains a control character"}
        for name in ("host", "database", "username")
        if any(ord(c) < 32 for c in getattr(row, name))
    ]
    if not 1 <= row.port <= 65_535:
        faults.append({"pointer": "/port", "detail": Sentence("1 to 65535")})
    if row.tls not in TLS:
        faults.append(
            {
                "pointer": "/tls",
                "detail": Sentence("one of: %(names)s", names=", ".join(TLS)),
            }
        )
    if faults:
        raise InvalidRequest(
            "the datasource is not complete or not right",
            code="invalid_datasource",
            hint="see GET /api/v1/datasources/kinds",
            facts={"errors": faults},
        )


def _in_use(name: str, blockers: list[str]) -> InvalidRequest:
    shown = blockers[:20]
    return InvalidRequest(
        "datasource %(name)s is in use by %(count)s onboarded table(s)",
        names=", ".join(shown),
        name=name,
        count=len(blockers),
        code="in_use",
        hint="remove them first: %(names)s",
        facts={"blockers": shown},
    )


def lake_datasource() -> Datasource:
    """The row of the lake, made at need."""
    row, _ = Datasource.objects.get_or_create(name=LAKE, defaults={"kind": LAKE})
    return row


def lake_database(name: str) -> Database:
    """The lake database of that (already derived) name, made at need."""
    row, _ = Database.objects.get_or_create(datasource=lake_datasource(), name=name)
    return row
