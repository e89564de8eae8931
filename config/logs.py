"""JSON logs on stderr, one object per line, with request and job ids, no secrets.

Installed once per process by `ConfigConfig.ready`; third-party handlers are left
alone. Redaction here is the last line: code must not log secrets at all.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from core import process_log
from core.context import current
from core.redaction import redact_facts, remember_secret

_QUIET = {"django.request": logging.ERROR, "django.server": logging.WARNING}


class JsonLines(process_log.JsonLines):
    """With ids of the context, and without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        shown = {k: v for k, v in self.line(record).items() if v not in ("", None)}
        # Cleaned as values: in JSON text a secret with a quote would look different.
        plain = json.loads(json.dumps(shown, default=str))
        return json.dumps(redact_facts(plain), ensure_ascii=False)

    def context(self) -> dict[str, Any]:
        now = current()
        return {
            "request_id": now.request_id,
            "job_id": now.job_id,
            "actor": now.actor,
        }


class ToStderr(logging.StreamHandler[Any]):
    """Writes to whatever `sys.stderr` is now, as a daemon may replace it."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(JsonLines())

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


def set_up() -> None:
    """Install the handler on the root logger; calling again changes nothing."""
    remember_settings()
    root = logging.getLogger()
    if any(isinstance(handler, ToStderr) for handler in root.handlers):
        return
    root.addHandler(ToStderr())
    root.setLevel(settings.SLUICE_LOG_LEVEL)
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    logging.captureWarnings(capture=True)


def remember_settings() -> None:
    """The process's own secrets are removed from every line, by value."""
    for value in _own_secrets():
        remember_secret(value)


def _own_secrets() -> Iterable[str]:
    yield str(settings.SECRET_KEY)
    yield from map(str, settings.SECRET_KEY_FALLBACKS)
    yield from settings.SLUICE_SECRETS_KEYS
    if settings.SLUICE_LDAP:
        yield settings.SLUICE_LDAP.users.bind_password
    if settings.SLUICE_OIDC:
        yield settings.SLUICE_OIDC.client_secret
    yield settings.SLUICE_SERVICE_SECRET
    yield str(settings.DATABASES["default"].get("PASSWORD") or "")
    yield urlsplit(settings.SLUICE_REDIS_URL).password or ""
