"""Which processes make one machine's Sluice, and with what environment each starts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from config.embedded import EmbeddedPostgres, EmbeddedRedis
from config.env import boolean
from config.supervisor.home import Home
from config.supervisor.ports import Claim, choose
from core.addresses import is_loopback, reached_at
from core.errors import TerminalError
from core.files import write_private
from core.processes.child import ChildSpec

ROOT = Path(__file__).resolve().parents[2]
LOOPBACK = "127.0.0.1"
WEB_PORT, GATEWAY_PORT, GATEWAY_HTTP_PORT = 8000, 10000, 10001


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller of quickstart chose; None means the default, or the next free."""

    home: Path
    has_demo: bool = True
    web_port: int | None = None
    gateway_port: int | None = None
    gateway_http_port: int | None = None
    web_bind: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    """A part of the stack. `make` is called before every start: ports may move."""

    name: str
    make: Callable[[], ChildSpec]
    is_server: bool = False  # ends after everything that uses it


@dataclass(frozen=True, slots=True)
class Servers:
    """The embedded servers of a home; None where an outside one was named."""

    metadata: EmbeddedPostgres | None
    redis: EmbeddedRedis | None
    demo: EmbeddedPostgres | None

    def roles(self) -> list[Role]:
        pairs = [
            ("postgres", self.metadata),
            ("redis", self.redis),
            ("demo_postgres", self.demo),
        ]
        return [Role(name, one.prepare, is_server=True) for name, one in pairs if one]


def web_address() -> str:
    """Where the web process listens, which speaks no TLS. TerminalError when the home
    would be opened to others without a word that says so."""
    bind = os.environ.get("SLUICE_BIND", LOOPBACK)
    allowed = os.environ.get("SLUICE_ALLOW_PLAINTEXT", "false")
    if is_loopback(bind) or boolean(allowed):
        return bind
    if has_certificate():
        return LOOPBACK  # the certificate is the gateway's
    raise TerminalError(
        f"SLUICE_BIND={bind} would offer passwords in plain text",
        code="plaintext_refused",
        hint="set SLUICE_TLS_CERTIFICATE and SLUICE_TLS_KEY, which opens the gateway;"
        " the web process stays on loopback, for a proxy that does TLS."
        " SLUICE_ALLOW_PLAINTEXT=true opens both as they are",
    )


def has_certificate() -> bool:
    """Whether the gateway speaks TLS."""
    name = "SLUICE_TLS_CERTIFICATE"
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def servers_of(options: Options) -> Servers:
    is_named = {
        name: name in os.environ or f"{name}_FILE" in os.environ
        for name in ("SLUICE_DATABASE_URL", "SLUICE_REDIS_URL")
    }
    home = options.home
    return Servers(
        metadata=None
        if is_named["SLUICE_DATABASE_URL"]
        else EmbeddedPostgres(home, "metadata"),
        redis=None if is_named["SLUICE_REDIS_URL"] else EmbeddedRedis(home),
        demo=EmbeddedPostgres(home, "demo") if options.has_demo else None,
    )


@dataclass(frozen=True, slots=True)
class Ports:
    """`claims` are held as long as this is."""

    web: int
    gateway: int
    gateway_http: int
    claims: tuple[Claim, ...]


def choose_ports(options: Options) -> Ports:
    """TerminalError when a port that was asked for is taken. A home keeps its ports
    over stop and start: clients, tokens and bookmarks name them."""
    home = Home(options.home)
    before = _ports_of(home)
    web = choose(
        explicit=options.web_port,
        default=WEB_PORT,
        what="the web interface",
        before=before.get("web"),
    )
    gateway = choose(
        explicit=options.gateway_port,
        default=GATEWAY_PORT,
        what="the gateway",
        before=before.get("gateway"),
    )
    http = choose(
        explicit=options.gateway_http_port,
        default=GATEWAY_HTTP_PORT,
        what="the gateway over HTTP",
        before=before.get("gateway_http"),
    )
    chosen = {"web": web.port, "gateway": gateway.port, "gateway_http": http.port}
    home.ports_file.write_text(json.dumps(chosen))
    return Ports(web.port, gateway.port, http.port, claims=(web, gateway, http))


def _ports_of(home: Home) -> dict[str, int]:
    """Of the run before; {} at the first one, and when the file is damaged."""
    try:
        found = json.loads(home.ports_file.read_text())
        return {
            name: port
            for name, port in found.items()
            if isinstance(port, int) and 0 < port < 65_536
        }
    except (OSError, ValueError, AttributeError):
        return {}


class Stack:
    """The roles of one home, in the order in which they start."""

    def __init__(
        self, options: Options, servers: Servers, ports: Ports, *, jars: str
    ) -> None:
        self.home = Home(options.home)
        self.jars = jars
        self.options = options
        self.servers = servers
        self.ports = ports

    @property
    def web_url(self) -> str:
        """Where this machine reaches the web process."""
        return f"http://{reached_at(self._web_bind())}:{self.ports.web}"

    @property
    def gateway_host(self) -> str:
        """Where this machine reaches the gateway."""
        return reached_at(os.environ.get("SLUICE_BIND", LOOPBACK))

    def environment(self) -> dict[str, str]:
        """What every process of ours gets on top of the supervisor's environment."""
        return {
            "SLUICE_HOME": str(self.home.path),
            "SLUICE_WEB_PORT": str(self.ports.web),
            "SLUICE_GATEWAY_PORT": str(self.ports.gateway),
            "SLUICE_GATEWAY_HTTP_PORT": str(self.ports.gateway_http),
            # fixed at the start: an edited Java source must not change a running stack
            "SLUICE_SPARK_JARS": self.jars,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "PYTHONUNBUFFERED": "1",
            "PYTHONPATH": str(ROOT),
        }

    def write_server_addresses(self) -> None:
        """Settings read these when the environment does not name other servers."""
        if self.servers.metadata is not None:
            url = self.servers.metadata.ensure_database("sluice")
            write_private(self.home.keys / "database_url", url)
        if self.servers.redis is not None:
            write_private(self.home.keys / "redis_url", self.servers.redis.url)

    def prepare_command(self) -> ChildSpec:
        """The one-off that migrates the database and makes the administrator."""
        return self._manage("prepare")

    def roles(self) -> list[Role]:
        """Our own processes, without the servers."""
        specs = [
            self._web(),
            self._manage("gateway", grace=20.0),
            self._manage("driver", grace=30.0),
            self._manage("followers", grace=20.0),
            self._worker(),
            self._manage("tick"),
        ]
        if self.servers.demo is not None:
            specs.append(self._demo_writer())
        return [Role(spec.name, _always(spec)) for spec in specs]

    def _child(self, name: str, arguments: list[str], grace: float = 10.0) -> ChildSpec:
        return ChildSpec(
            name=name,
            command=[sys.executable, *arguments],
            environment=self.environment(),
            log=self.home.logs / f"{name}.log",
            directory=ROOT,
            stop_grace_seconds=grace,
        )

    def _manage(self, name: str, grace: float = 10.0) -> ChildSpec:
        return self._child(name, ["manage.py", name], grace)

    def _web(self) -> ChildSpec:
        bind = f"{self._web_bind()}:{self.ports.web}"
        return self._child("web", ["manage.py", "web", "--bind", bind])

    def _web_bind(self) -> str:
        return self.options.web_bind or web_address()

    def _worker(self) -> ChildSpec:
        arguments = [
            *("-m", "celery", "-A", "config.celery", "worker", "--pool", "prefork"),
            *("--concurrency", "4", "--without-gossip", "--without-mingle"),
            *("--without-heartbeat", "--loglevel", "INFO"),
            *("--hostname", "sluice@localhost"),
        ]
        return self._child("worker", arguments)

    def _demo_writer(self) -> ChildSpec:
        arguments = ["-m", "config.demo.writer", str(self.home.path)]
        return self._child("demo_writer", arguments, grace=5.0)


def _always(spec: ChildSpec) -> Callable[[], ChildSpec]:
    return lambda: spec
