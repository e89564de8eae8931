"""`manage.py gateway`: runs the gateway process until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import uvloop
from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from core.object_store import hadoop_properties, is_object_uri
from gateway.engines.launch import EngineSpec, clean_orphans
from gateway.engines.port import EngineClient, EngineQuestions
from gateway.engines.spark_thrift import SparkEngine
from gateway.limits import GatewayLimits
from gateway.process import Gateway, GatewaySpec


class Command(BaseCommand):
    help = "HiveServer2 gateway: serves SQL clients, starts query engines on demand"

    def add_arguments(self, parser: CommandParser) -> None:
        """Options win over settings."""
        parser.add_argument("--port", type=int, default=settings.SLUICE_GATEWAY_PORT)
        parser.add_argument(
            "--warm",
            action="store_true",
            help="start the query engine now, not at the first statement",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until SIGTERM or SIGINT."""
        home = Path(settings.SLUICE_HOME)
        clean_orphans(home / "run")
        spec = GatewaySpec(
            home=home,
            host=settings.SLUICE_BIND,
            port=options["port"],
            http_port=settings.SLUICE_GATEWAY_HTTP_PORT,
            internal_file=Path(settings.SLUICE_GATEWAY_INTERNAL),
            service_secret=settings.SLUICE_SERVICE_SECRET,
            lake_root=settings.SLUICE_LAKE_URI,
            tls=_tls(),
            is_engine_warm=options["warm"],
            limits=GatewayLimits(statement_seconds=settings.SLUICE_STATEMENT_SECONDS),
        )
        uvloop.run(_serve(spec))


async def _serve(spec: GatewaySpec) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    gateway = Gateway(spec, _client)
    await gateway.start()
    try:
        await stop.wait()
    finally:
        await gateway.close()


def _client(questions: EngineQuestions) -> EngineClient:
    engine = EngineSpec(
        home=Path(settings.SLUICE_HOME),
        jars=tuple(Path(jar) for jar in settings.SLUICE_SPARK_JARS.split(":") if jar),
        memory=settings.SLUICE_ENGINE_MEMORY,
        store=_store(),
    )
    return SparkEngine(engine, questions, engine_id="main")


def _store() -> Mapping[str, str]:
    """Engines get the key only where the lake needs it."""
    access = settings.SLUICE_OBJECT_STORE
    if access is None or not is_object_uri(settings.SLUICE_LAKE_URI):
        return {}
    return hadoop_properties(access)


def _tls() -> ssl.SSLContext | None:
    if not settings.SLUICE_TLS_CERTIFICATE:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(
        settings.SLUICE_TLS_CERTIFICATE, settings.SLUICE_TLS_KEY or None
    )
    return context
