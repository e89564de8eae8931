"""Which processes of this installation become units, and what each may write."""

from __future__ import annotations

import sys
from pathlib import Path

from django.conf import settings

from config.supervisor.stack import ROOT, Options, Ports, Servers, Stack
from config.systemd.units import Install, Service

WHAT = {
    "web": "pages and REST",
    "gateway": "HiveServer2 gateway and its query engines",
    "driver": "driver host and its Spark drivers",
    "followers": "host of what follows the logs of sources",
    "worker": "short tasks",
    "tick": "what time brings about",
}
NO_SERVERS = Servers(metadata=None, redis=None, demo=None)


def services(*, web_bind: str) -> list[Service]:
    """The supervisor's own commands, with the servers elsewhere; migration first.

    web_bind: where the reverse proxy finds the web process, which speaks no TLS; what
    SLUICE_BIND opens is the gateway.
    """
    ports = Ports(
        settings.SLUICE_WEB_PORT,
        settings.SLUICE_GATEWAY_PORT,
        settings.SLUICE_GATEWAY_HTTP_PORT,
        claims=(),
    )
    options = Options(Path(settings.SLUICE_HOME), has_demo=False, web_bind=web_bind)
    specs = [role.make() for role in Stack(options, NO_SERVERS, ports, jars="").roles()]
    lake = _local_lake()
    migrate = [sys.executable, "manage.py", "migrate", "--no-input"]
    return [
        Service("prepare", "migrates the metadata database", migrate, is_once=True),
        *(
            Service(
                name=spec.name,
                what=WHAT[spec.name],
                command=list(spec.command),
                stop_seconds=spec.stop_grace_seconds,
                # engines read the lake, nothing of the gateway writes there
                writes=() if spec.name == "gateway" else lake,
                reads=lake if spec.name == "gateway" else (),
            )
            for spec in specs
        ),
    ]


def installation(*, user: str, environment_file: Path) -> Install:
    home = Path(settings.SLUICE_HOME)
    return Install(
        root=ROOT,
        home=home,
        user=user,
        environment_file=environment_file,
        environment={
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "SLUICE_HOME": str(home),
            "SLUICE_GATEWAY_HTTP_PORT": str(settings.SLUICE_GATEWAY_HTTP_PORT),
            "SLUICE_GATEWAY_PORT": str(settings.SLUICE_GATEWAY_PORT),
            "SLUICE_WEB_PORT": str(settings.SLUICE_WEB_PORT),
        },
    )


def _local_lake() -> tuple[Path, ...]:
    lake: str = settings.SLUICE_LAKE_URI
    return () if "://" in lake else (Path(lake),)
