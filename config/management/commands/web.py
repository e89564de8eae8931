"""`manage.py web`: pages and REST, until it is told to stop."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from frontend import static_files


class Command(BaseCommand):
    help = "Web process: serves pages and REST"

    def add_arguments(self, parser: CommandParser) -> None:
        """Options win over settings."""
        port = settings.SLUICE_WEB_PORT
        parser.add_argument("--bind", default=f"127.0.0.1:{port}", help="host:port")
        parser.add_argument(
            "--check-config", action="store_true", help="load all of it, serve nothing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Serve until SIGTERM or SIGINT."""
        # the server's modules and all routes: no other command needs them
        from config.web_server import serve

        if not options["check_config"]:
            static_files.collect()
        from config.wsgi import application

        if options["check_config"]:
            return
        host, _, port = options["bind"].rpartition(":")
        proxy = settings.SLUICE_TRUSTED_PROXY
        serve(application, host.strip("[]"), int(port), proxy=proxy)
