"""Register, change and remove datasources. Makes no connection; that is discovery.

Privileges are the caller's business (`catalog.access.enforcement`), except that
nobody may touch the lake's own row here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from catalog import extensions
from catalog.access import audit
from catalog.kinds import TLS, Kind, checked_options, kind_named
from catalog.models import Datasource
from catalog.names import check_datasource_name
from catalog.networks import check_host
from catalog.secrets import encrypt
from core.errors import InvalidRequest, NotFound, StaleState


@dataclass(frozen=True, slots=True)
class NewDatasource:
    """What POST /datasources takes. `port` 0 = the kind's default.

    database  may be empty where the kind does not need one
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


def create_datasource(new: NewDatasource, *, by: str) -> Datasource:
    """The stored row. InvalidRequest names every wrong field; name_taken is one."""
    check_datasource_name(new.name)
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
    )
    _check(row, kind)
    try:
        with transaction.atomic():
            row.save()
            audit.record(
                "datasource.create", on=row.name, actor=by, kind=row.kind, host=row.host
            )
    except IntegrityError:
        raise InvalidRequest(
            f"there is already a datasource '{new.name}'",
            code="name_taken",
            hint="names differ by more than upper and lower case",
        ) from None
    return row


def update_datasource(
    name: str, change: DatasourceChange, *, by: str, expected_version: int | None = None
) -> Datasource:
    """Apply a change. StaleState `precondition_failed` when somebody was faster.

    A new host, port or database without the password again is refused: a stored
    password must not be sent to a server that its giver did not name.
    """
    with transaction.atomic():
        row = _locked(name, expected_version)
        kind = kind_named(row.kind)
        changed = _apply(row, change)
        if changed & {"host", "port", "database"} and change.password is None:
            raise InvalidRequest(
                "a datasource that points elsewhere needs its password again",
                code="password_required",
                hint="send `password` together with the new address",
                facts={"errors": [{"pointer": "/password", "detail": "required"}]},
            )
        if change.password is not None:
            row.secret = encrypt(change.password)
        _check(row, kind)
        row.version += 1
        row.tested_at, row.test_result = None, None
        row.save()
        audit.record(
            "datasource.update",
            on=name,
            actor=by,
            fields=sorted(changed),
            changed_credentials=change.password is not None,
        )
    return row


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
        raise NotFound(f"there is no datasource {name}", code="datasource_not_found")
    require_a_source(row)
    if expected_version is not None and row.version != expected_version:
        raise StaleState(
            f"datasource {name} is at version {row.version}, not {expected_version}",
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
    return changed


def _check(row: Datasource, kind: Kind) -> None:
    """Typed fields and the network policy; all faults of plain fields at once."""
    faults = [
        {"pointer": f"/{name}", "detail": "required"}
        for name in ("host", "database", "username")
        if not getattr(row, name) and (name != "database" or kind.needs_database)
    ]
    faults += [
        {"pointer": f"/{name}", "detail": "contains a control character"}
        for name in ("host", "database", "username")
        if any(ord(c) < 32 for c in getattr(row, name))
    ]
    if not 1 <= row.port <= 65_535:
        faults.append({"pointer": "/port", "detail": "1 to 65535"})
    if row.tls not in TLS:
        faults.append({"pointer": "/tls", "detail": "one of " + ", ".join(TLS)})
    if faults:
        raise InvalidRequest(
            "the datasource is not complete or not right",
            code="invalid_datasource",
            hint="see GET /api/v1/datasources/kinds",
            facts={"errors": faults},
        )
    row.host = check_host(row.host, settings.SLUICE_SOURCE_NETWORKS_DENIED)
    row.options = checked_options(kind, row.options)


def _in_use(name: str, blockers: list[str]) -> InvalidRequest:
    shown = blockers[:20]
    return InvalidRequest(
        f"datasource {name} is in use by {len(blockers)} onboarded table(s)",
        code="in_use",
        hint="remove them first: " + ", ".join(shown),
        facts={"blockers": shown},
    )
