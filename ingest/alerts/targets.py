"""Alert targets: made, tested, woken up and deleted by administrators, audited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from catalog.access import audit
from catalog.access.grants import parse_securable
from catalog.access.policy import Securable
from catalog.names import LAKE, join_name
from catalog.preferences import check_language
from catalog.secrets import encrypt
from core.errors import InvalidRequest, NotFound
from core.redaction import remember_secret
from core.sentences import Sentence
from ingest.alerts.chat import CHATS, SIGNED
from ingest.alerts.delivery import egress
from ingest.alerts.mail import check_address
from ingest.alerts.messages import test_body
from ingest.alerts.rules import KINDS, TEST
from ingest.alerts.webhook import chat_place, check_url
from ingest.models.alerts import AlertDelivery, AlertTarget

SHORTEST_SECRET = 16
MOST_TARGETS = 200
TARGET_KINDS = (AlertTarget.EMAIL, AlertTarget.WEBHOOK, *CHATS)


def usable_kinds() -> list[str]:
    """The kinds that a target may have here: mail needs a server."""
    return [k for k in TARGET_KINDS if k != AlertTarget.EMAIL or settings.SLUICE_SMTP]


@dataclass(frozen=True, slots=True)
class NewTarget:
    """address: of e-mail; url: of a webhook or chat; secret: of a webhook or of a chat
    that checks signatures. on "" = the whole lake; language "" = the installation's."""

    name: str
    kind: str
    address: str = ""
    url: str = ""
    secret: str = ""
    kinds: Sequence[str] = ()
    on: str = ""
    language: str = ""


def create_target(new: NewTarget, *, by: str) -> AlertTarget:
    """Store it; nothing is sent yet. InvalidRequest with pointers."""
    row = AlertTarget(
        name=_name(new.name),
        kind=new.kind,
        kinds=_kinds(new.kinds),
        language=check_language(new.language),
        created_by=by,
        **_scope(new.on),
        **_address(new),
    )
    with transaction.atomic():
        if AlertTarget.objects.count() >= MOST_TARGETS:
            raise InvalidRequest(
                "there are %(count)s alert targets already",
                count=MOST_TARGETS,
                code="too_many_targets",
                hint="delete one; a webhook can hand on to many",
            )
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            raise InvalidRequest(
                "there is an alert target '%(name)s' already",
                name=new.name,
                code="name_taken",
                facts={"errors": [{"pointer": "/name", "detail": Sentence("taken")}]},
            ) from None
        audit.record(
            "alert_target.create",
            on=row.name,
            actor=by,
            kind=row.kind,
            # the path of a webhook may be what lets people in
            host=urlsplit(row.address).hostname or row.address,
        )
    return row


def change_target(
    name: str,
    *,
    by: str,
    kinds: Sequence[str] | None = None,
    on: str | None = None,
    language: str | None = None,
) -> AlertTarget:
    """What it is told; None leaves it as it is. Where messages go stays."""
    row = target_named(name)
    changed: dict[str, Any] = {}
    if kinds is not None:
        changed["kinds"] = _kinds(kinds)
    if on is not None:
        changed |= {"database": "", "table": ""} | _scope(on)
    if language is not None:
        changed["language"] = check_language(language)
    with transaction.atomic():
        AlertTarget.objects.filter(pk=row.pk).update(**changed)
        audit.record("alert_target.update", on=row.name, actor=by, **changed)
    return target_named(row.name)


def target_named(name: str, *, for_update: bool = False) -> AlertTarget:
    rows = AlertTarget.objects.filter(name__iexact=name)
    row = (rows.select_for_update() if for_update else rows).first()
    if row is None:
        raise NotFound(
            "there is no alert target '%(name)s'",
            name=name,
            code="target_not_found",
        )
    return row


def delete_target(name: str, *, by: str) -> None:
    """With its deliveries: what was not sent yet is not sent any more."""
    row = target_named(name)
    with transaction.atomic():
        audit.record("alert_target.delete", on=row.name, actor=by)
        row.delete()


def send_test(name: str, *, by: str) -> AlertDelivery:
    """Queue a test message; it is sent within seconds, also when the target waits."""
    row = target_named(name)
    with transaction.atomic():
        _wake(row)
        delivery = AlertDelivery.objects.create(
            target=row,
            event=TEST,
            body=test_body(row.name, by),
            next_try_at=timezone.now(),
        )
        audit.record("alert_target.test", on=row.name, actor=by)
    return delivery


def resume_target(name: str, *, by: str) -> AlertTarget:
    """Try again at once, whatever failed before."""
    row = target_named(name)
    with transaction.atomic():
        _wake(row)
        AlertDelivery.objects.filter(target=row, next_try_at__isnull=False).update(
            next_try_at=timezone.now()
        )
        audit.record("alert_target.resume", on=row.name, actor=by)
    return target_named(row.name)


def _wake(row: AlertTarget) -> None:
    """While an attempt is under way, its lease stays; if it fails, the next one
    comes soon."""
    mine = AlertTarget.objects.filter(pk=row.pk)
    mine.update(failures=0, failing_since=None, paused_at=None, paused_reason="")
    idle = Q(sending_until=None) | Q(sending_until__lte=timezone.now())
    mine.filter(idle).update(retry_at=None)


def scope_text(row: AlertTarget) -> str | None:
    """`on` as it was given."""
    return join_name(LAKE, row.database, row.table) if row.database else None


def _name(text: str) -> str:
    if not text.strip() or not text.isprintable() or "/" in text or ":" in text:
        raise InvalidRequest(
            "a name has printable characters, and no / or :", pointer="/name"
        )
    return text.strip()


def _kinds(given: Sequence[str]) -> list[str]:
    unknown = sorted(set(given) - set(KINDS))
    if unknown:
        raise InvalidRequest(
            "'%(kind)s' is no kind of alert: it is one of %(kinds)s",
            kind=unknown[0],
            kinds=", ".join(KINDS),
            pointer="/kinds",
        )
    return [kind for kind in KINDS if kind in given]


def _scope(on: str) -> dict[str, str]:
    if not on:
        return {}
    securable: Securable = parse_securable(on)
    if securable.datasource != LAKE:
        raise InvalidRequest(
            "give it as lake, lake.shop or lake.shop.orders", pointer="/on"
        )
    return {"database": securable.database, "table": securable.table}


def _address(new: NewTarget) -> dict[str, str]:
    if new.kind == AlertTarget.EMAIL:
        if new.url or new.secret:
            raise InvalidRequest(
                "an e-mail target has an address, no URL and no secret", pointer="/url"
            )
        if settings.SLUICE_SMTP is None:
            raise InvalidRequest(
                "no mail server is set",
                code="no_mail_server",
                hint=Sentence("set SLUICE_SMTP_URL and SLUICE_SMTP_FROM"),
            )
        return {"address": check_address(new.address)}
    if new.address:
        raise InvalidRequest(
            "a target of this kind has a URL, and no address", pointer="/address"
        )
    if new.kind in CHATS:
        return _chat_address(new)
    if new.kind != AlertTarget.WEBHOOK:
        raise InvalidRequest(
            "'%(kind)s' is no kind of target: it is one of %(kinds)s",
            kind=new.kind,
            kinds=", ".join(TARGET_KINDS),
            pointer="/kind",
        )
    if len(new.secret) < SHORTEST_SECRET:
        raise InvalidRequest(
            "a secret has at least %(least)s characters: it signs each message",
            least=SHORTEST_SECRET,
            pointer="/secret",
        )
    remember_secret(new.secret)
    url = check_url(new.url, egress())
    return {"address": url, "secret": encrypt(new.secret)}


def _chat_address(new: NewTarget) -> dict[str, str]:
    """Only the host is kept in the open: who has the address writes to the group."""
    if new.secret and new.kind not in SIGNED:
        raise InvalidRequest(
            "a target of %(kind)s has no secret: its address is one",
            kind=new.kind,
            pointer="/secret",
        )
    if not new.secret.isprintable():
        raise InvalidRequest(
            "a secret has printable characters only", pointer="/secret"
        )
    url = check_url(new.url, egress())
    for each in filter(None, (url, new.secret)):
        remember_secret(each)
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.hostname}/…"
    return {"address": address, "secret": encrypt(chat_place(url, new.secret))}
