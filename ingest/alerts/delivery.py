"""Delivering: claim what is due, send it, record what came of it.

A claim is a lease: the delivery's next try and its target's are set behind the longest
attempt. Who dies in between leaves both to the next one, who sends the same message
under the same key again; who wakes up late records nothing. To one target one message
goes at a time, and to many targets at once, so that those that do not answer hold up no
other. Only sending has threads of its own: claims and answers are the caller's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from queue import Empty, SimpleQueue
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import close_old_connections, connections, transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import override

from catalog.compiled import AnyRow
from catalog.secrets import decrypt
from core.errors import SluiceError
from core.sentences import Sentence
from ingest.alerts import chat, mail, messages, webhook
from ingest.alerts.rules import (
    LONGEST_KEPT,
    PAUSED_WAIT,
    Answer,
    has_given_up,
    is_to_pause,
    wait_after,
)
from ingest.maintenance.descriptions import span
from ingest.models.alerts import AlertDelivery, AlertTarget

log = logging.getLogger(__name__)
AT_ONCE = 32
PERIOD_SECONDS = 2.0
AWAY_SECONDS = 3.0

LEASE = timedelta(seconds=45)
# One mail tells many: a source that goes away takes all its tables along.
HOLDS: Final = {AlertTarget.EMAIL: 50, AlertTarget.WEBHOOK: 1}
HARD_AFTER: Final = 5
# Codes of SMTP from here on are for good.
REFUSED: Final = 500


@dataclass(frozen=True, slots=True)
class Claim:
    """Deliveries of one target that this process may send now, with their fences."""

    target: AlertTarget
    deliveries: tuple[AlertDelivery, ...]


def deliver_due(*, limit: int = 50) -> int:
    """Send what is due, at most so many messages; how many."""
    answers: SimpleQueue[tuple[Claim, Answer]] = SimpleQueue()
    sent = under_way = 0
    while True:
        while under_way < AT_ONCE and sent < limit and (claim := take()):
            threading.Thread(
                target=lambda mine: answers.put((mine, attempt(mine))),
                args=(claim,),
                daemon=True,
            ).start()
            sent, under_way = sent + 1, under_way + 1
        if not under_way:
            return sent
        with suppress(Empty):
            # what becomes due meanwhile does not wait for the slowest
            record(*answers.get(timeout=PERIOD_SECONDS))
            under_way -= 1


_is_any_due = AnyRow(lambda: AlertDelivery.objects.filter(next_try_at__lte=Now()))


def take() -> Claim | None:
    """The oldest messages of a target that nobody sends to; None = none."""
    if not _is_any_due():
        return None
    now = timezone.now()
    waiting = AlertDelivery.objects.filter(target=OuterRef("pk"), next_try_at__lte=now)
    with transaction.atomic():
        target = (
            AlertTarget.objects.select_for_update(skip_locked=True)
            .filter(Q(retry_at=None) | Q(retry_at__lte=now))
            .filter(Exists(waiting))
            .order_by(F("retry_at").asc(nulls_first=True), "pk")
            .first()
        )
        if target is None:
            return None
        old = target.deliveries.filter(
            next_try_at__isnull=False, created_at__lt=now - LONGEST_KEPT
        )
        old.update(next_try_at=None, gave_up_at=now)
        most = HOLDS.get(target.kind, chat.HOLDS)
        due = _for_one_message(list(_in_turn(target, now)[:most]))
        if not due:
            return None
        _lease(target, due, now + LEASE)
    return Claim(target, tuple(due))


def _in_turn(target: AlertTarget, now: datetime) -> QuerySet[AlertDelivery]:
    """In order; one that keeps being refused does not hold up those behind it."""
    is_hard = When(attempts__gte=HARD_AFTER, then=F("attempts"))
    due = target.deliveries.filter(next_try_at__lte=now)
    return due.order_by(Case(is_hard, default=0), "id")


def _for_one_message(due: list[AlertDelivery]) -> list[AlertDelivery]:
    """Those of a page that go together: what keeps being refused for good goes alone,
    for it may be what the others were refused with."""
    if due and _is_refused(due[0]):
        return due[:1]
    return [row for row in due if not _is_refused(row)]


def _is_refused(row: AlertDelivery) -> bool:
    return row.attempts >= HARD_AFTER and (row.last_code or 0) >= REFUSED


def _lease(target: AlertTarget, due: list[AlertDelivery], until: datetime) -> None:
    target.retry_at = target.sending_until = until
    target.save(update_fields=["retry_at", "sending_until"])
    for row in due:
        row.attempts += 1
        row.next_try_at = until
    AlertDelivery.objects.bulk_update(due, ["attempts", "next_try_at"])


def attempt(claim: Claim) -> Answer:
    """Send it; what fails is an answer, too."""
    try:
        with override(claim.target.language or settings.LANGUAGE_CODE):
            bodies = [messages.told(row.body) for row in claim.deliveries]
            if claim.target.kind == AlertTarget.EMAIL:
                return _mail(claim, bodies)
            if claim.target.kind == AlertTarget.WEBHOOK:
                return _webhook(claim, *bodies)
            return _chat(claim, bodies)
    except SluiceError as error:
        return Answer(error=error.message)
    except Exception:
        # unrecorded, it would come again each time its lease ends, and show nothing
        log.exception("a message to %s could not be made", claim.target)
        return Answer(error=Sentence("a defect of Sluice: its log has the trace"))


def _webhook(claim: Claim, body: messages.Body) -> Answer:
    (row,) = claim.deliveries
    return webhook.send(
        claim.target.address,
        decrypt(claim.target.secret),
        {"delivery": str(row.key), "target": claim.target.name, **body},
        at=int(timezone.now().timestamp()),
        egress=egress(),
    )


def _chat(claim: Claim, bodies: Sequence[messages.Body]) -> Answer:
    kind = claim.target.kind
    return webhook.to_chat(
        kind,
        decrypt(claim.target.secret),
        chat.payload(kind, bodies),
        at=int(timezone.now().timestamp()),
        egress=egress(),
    )


def egress() -> webhook.Egress:
    return webhook.Egress(
        allowed=tuple(settings.SLUICE_ALERT_NETWORKS_ALLOWED),
        denied=tuple(settings.SLUICE_SOURCE_NETWORKS_DENIED),
    )


def _mail(claim: Claim, bodies: Sequence[messages.Body]) -> Answer:
    if settings.SLUICE_SMTP is None:
        return Answer(error=Sentence("no mail server is set: SLUICE_SMTP_URL"))
    message = mail.compose(
        sender=settings.SLUICE_SMTP_FROM,
        to=claim.target.address,
        subject=messages.subject(bodies),
        text=messages.text(bodies),
        key=_mail_key(row.key for row in claim.deliveries),
    )
    return mail.send(message, settings.SLUICE_SMTP)


def _mail_key(keys: Iterable[UUID]) -> str:
    """Another one when a repetition tells of more: a mailbox that drops what it has
    seen would drop the new alert along."""
    return str(uuid5(NAMESPACE_OID, " ".join(sorted(map(str, keys)))))


def record(claim: Claim, answer: Answer) -> bool:
    """Write down how the attempt went; False when somebody else has it by now."""
    now = timezone.now()
    with transaction.atomic():
        target = AlertTarget.objects.select_for_update().filter(pk=claim.target.pk)
        held = target.first()
        is_mine = held is not None and held.retry_at == claim.target.retry_at
        if held is None or not is_mine:
            log.warning("an attempt at %s ended after its time", claim.target)
            return False
        _note_target(held, answer, now)
        for row in claim.deliveries:
            _note_delivery(row, held, answer, now)
    return True


def _note_target(target: AlertTarget, answer: Answer, now: datetime) -> None:
    target.sending_until = None
    if answer.is_delivered:
        target.failures, target.failing_since, target.retry_at = 0, None, None
        target.paused_at, target.paused_reason = None, ""
    else:
        target.failures += 1
        target.failing_since = target.failing_since or now
        if target.paused_at is None and is_to_pause(target.failing_since, now):
            target.paused_at = now
            failing = span((now - target.failing_since).total_seconds())
            target.paused_reason = Sentence(
                "nothing arrived for %(span)s; last: %(error)s. It is tried once an"
                " hour and continues automatically when that arrives",
                span=failing,
                error=answer.error,
            )
        wait = PAUSED_WAIT if target.paused_at else wait_after(target.failures)
        target.retry_at = now + timedelta(seconds=wait)
    target.save()


def _note_delivery(
    row: AlertDelivery, target: AlertTarget, answer: Answer, now: datetime
) -> None:
    changes: dict[str, object] = {
        "last_at": now,
        "last_code": answer.code,
        "last_error": answer.error,
        "next_try_at": None,
    }
    if answer.is_delivered:
        changes["delivered_at"] = now
    elif has_given_up(row.attempts, row.created_at, now):
        changes["gave_up_at"] = now
    else:
        changes["next_try_at"] = target.retry_at
    AlertDelivery.objects.filter(
        pk=row.pk, attempts=row.attempts, delivered_at=None, gave_up_at=None
    ).update(**changes)


class DeliveryWorker:
    """A thread that delivers: start() once; stop() ends it after the attempts that
    run, if those end soon. What is due is in the database. Beside the tick, not in
    it: a receiver that takes its time must not hold up syncs."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="delivery", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, seconds: float) -> None:
        """What is cut off is sent again by whoever starts next."""
        self._stop.set()
        self._thread.join(seconds)

    def _work(self) -> None:
        while not self._stop.wait(self._round()):
            pass
        connections.close_all()

    @staticmethod
    def _round() -> float:
        close_old_connections()
        try:
            deliver_due()
        except DatabaseError as error:
            log.warning("deliveries wait for the metadata database: %s", error)
            connections.close_all()
            return AWAY_SECONDS
        except Exception:
            # one message that cannot be made must not end all later ones
            log.exception("a delivery failed inside Sluice")
            return AWAY_SECONDS
        return PERIOD_SECONDS
