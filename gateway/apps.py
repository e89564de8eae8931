from __future__ import annotations

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "gateway"

    def ready(self) -> None:
        from catalog.extensions import registered
        from gateway.client import gauges

        registered.gauges.append(gauges)
