"""System checks: a wrong setting stops the start with an id and what to do.

Run by every management command and by `manage.py check`; they connect to nothing.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from cryptography.fernet import Fernet
from django.apps import AppConfig
from django.conf import settings
from django.core.checks import ERROR, CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from config.cluster import leaves_the_machine
from core.addresses import is_loopback
from core.object_store import StoreAccess, is_object_uri

SHORTEST_SECRET = 32
EXAMPLES = frozenset({"changeme", "secret", "insecure", "example", "sluice"})


@register("sluice")
def check_settings(
    app_configs: Sequence[AppConfig] | None, **_: Any
) -> list[CheckMessage]:
    """All checks of Sluice's own settings."""
    parts = (_secrets_keys, _signing_key, _networks, _tls, _logins, _cluster, _lake)
    return [message for part in parts for message in part()]


def require_sound_settings() -> None:
    """For processes that no management command starts: refuse to go on."""
    faults = [m for m in check_settings(None) if m.level >= ERROR]
    if faults:
        raise ImproperlyConfigured("\n".join(str(fault) for fault in faults))


def _secrets_keys() -> Iterator[CheckMessage]:
    if not settings.SLUICE_SECRETS_KEYS:
        yield Error(
            "there is no key for stored secrets",
            hint="set SLUICE_SECRETS_KEYS (or its _FILE) to one or more Fernet keys; "
            'make one with: python -c "from cryptography.fernet import Fernet; '
            'print(Fernet.generate_key().decode())"',
            id="sluice.E001",
        )
    for number, key in enumerate(settings.SLUICE_SECRETS_KEYS, start=1):
        try:
            Fernet(key)
        except ValueError:
            yield Error(
                f"key {number} of SLUICE_SECRETS_KEYS is not a Fernet key",
                hint="a Fernet key is 32 bytes in URL-safe base64: 44 characters",
                id="sluice.E002",
            )


def _signing_key() -> Iterator[CheckMessage]:
    key = str(settings.SECRET_KEY)
    weak = len(key) < SHORTEST_SECRET or any(word in key.lower() for word in EXAMPLES)
    if weak and not settings.DEBUG:
        yield Error(
            "SLUICE_SECRET_KEY is short or looks like an example",
            hint=f"give at least {SHORTEST_SECRET} random characters",
            id="sluice.E003",
        )
    if key in settings.SLUICE_SECRETS_KEYS or key == settings.SLUICE_SERVICE_SECRET:
        yield Error(
            "one secret is used for two purposes",
            hint="SLUICE_SECRET_KEY, SLUICE_SECRETS_KEYS and SLUICE_SERVICE_SECRET "
            "must differ",
            id="sluice.E004",
        )


def _networks() -> Iterator[CheckMessage]:
    for text in settings.SLUICE_SOURCE_NETWORKS_DENIED:
        try:
            ipaddress.ip_network(text)
        except ValueError:
            yield Error(
                f"'{text}' in SLUICE_SOURCE_NETWORKS_DENIED is not a network",
                hint="write CIDR, for example 10.0.0.0/8",
                id="sluice.E005",
            )


def _tls() -> Iterator[CheckMessage]:
    if bool(settings.SLUICE_TLS_CERTIFICATE) != bool(settings.SLUICE_TLS_KEY):
        yield Error(
            "SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY belong together",
            hint="set both, or neither",
            id="sluice.E006",
        )
    if settings.DEBUG:
        yield Warning(
            "DEBUG shows internals to anyone who can reach the web port",
            hint="unset SLUICE_DEBUG",
            id="sluice.W001",
        )


def _cluster() -> Iterator[CheckMessage]:
    master, host = settings.SLUICE_SPARK_MASTER, settings.SLUICE_DRIVER_HOST
    if leaves_the_machine(master, host) and not settings.SLUICE_SPARK_SECRET:
        yield Error(
            "drivers and executors would send passwords of sources in clear",
            hint="set SLUICE_SPARK_SECRET (or its _FILE) here and "
            "spark.authenticate.secret with the same value at the cluster",
            id="sluice.E009",
        )


def _lake() -> Iterator[CheckMessage]:
    lake: str = settings.SLUICE_LAKE_URI
    if not is_object_uri(lake):
        if "://" in lake or not lake.startswith("/"):
            yield Error(
                f"SLUICE_LAKE_URI={lake} is no place for a lake",
                hint="give an absolute path, or s3://bucket/prefix",
                id="sluice.E010",
            )
        return
    access: StoreAccess | None = settings.SLUICE_OBJECT_STORE
    if access is None:
        yield Error(
            f"there is no key for the lake at {lake}",
            hint="set SLUICE_S3_ACCESS_KEY and SLUICE_S3_SECRET_KEY (or their _FILE)",
            id="sluice.E011",
        )
        return
    address = urlsplit(access.address)
    if address.scheme == "http" and not is_loopback(address.hostname or ""):
        yield Warning(
            "rows travel to and from the lake's object store in clear",
            hint="give SLUICE_S3_ENDPOINT an https address",
            id="sluice.W002",
        )


def _logins() -> Iterator[CheckMessage]:
    pairs = (
        ("sluice.E007", settings.SLUICE_LDAP),
        ("sluice.E008", settings.SLUICE_OIDC),
    )
    for name, spec in pairs:
        for text, hint in spec.problems() if spec else ():
            yield Error(text, hint=hint, id=name)
