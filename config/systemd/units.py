"""Units of systemd as text, from what each process runs and may write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TARGET = "sluice.target"
PREPARE = "sluice-prepare.service"
# What JVMs and uvloop need as well: memory that is written and executed, so no
# MemoryDenyWriteExecute.
HARDENING = """\
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
LockPersonality=yes
PrivateDevices=yes
PrivateTmp=yes
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible
ProtectSystem=strict
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallErrorNumber=EPERM
SystemCallFilter=@system-service
UMask=0077
"""
# Of the home: what processes expect to be there.
FOLDERS = ("run", "logs", "static")
HOMES = (Path("/home"), Path("/root"), Path("/run/user"))


@dataclass(frozen=True, slots=True)
class Install:
    """What all units share. environment_file: settings, one `SLUICE_…=value` a line."""

    root: Path
    home: Path
    user: str
    environment_file: Path
    environment: dict[str, str]


@dataclass(frozen=True, slots=True)
class Service:
    """A process. writes, reads: places beside the home that it needs; reads win."""

    name: str
    what: str
    command: list[str]
    stop_seconds: float = 10.0
    writes: tuple[Path, ...] = ()
    reads: tuple[Path, ...] = ()
    is_once: bool = False


def unit_files(install: Install, services: Iterable[Service]) -> dict[str, str]:
    """File name → text. The target starts and stops all of them."""
    found = {f"sluice-{each.name}.service": each for each in services}
    texts = {name: _service_unit(install, each) for name, each in found.items()}
    return {TARGET: _target_unit(list(found)), **texts}


def _target_unit(names: list[str]) -> str:
    wants = " ".join(names)
    return (
        "[Unit]\nDescription=Sluice\n"
        f"Wants={wants}\n\n[Install]\nWantedBy=multi-user.target\n"
    )


def _service_unit(install: Install, service: Service) -> str:
    lines = [
        "[Unit]",
        f"Description=Sluice: {service.what}",
        f"PartOf={TARGET}",
        "Wants=network-online.target",
        "After=network-online.target",
        *_order(service),
        "",
        "[Service]",
        *_process(install, service),
        *(
            f"Environment={quoted(f'{k}={v}')}"
            for k, v in sorted(install.environment.items())
        ),
        f"EnvironmentFile={install.environment_file}",
        *_places(install, service),
        HARDENING,
        "[Install]",
        f"WantedBy={TARGET}",
    ]
    return "\n".join(lines) + "\n"


def _order(service: Service) -> list[str]:
    """A new release migrates before its processes start."""
    if service.is_once:
        return []
    return [
        f"Requires={PREPARE}",
        f"After={PREPARE}",
        "StartLimitIntervalSec=0",
    ]


def _process(install: Install, service: Service) -> Iterator[str]:
    yield "Type=oneshot" if service.is_once else "Type=exec"
    yield f"User={install.user}"
    yield f"WorkingDirectory={escaped(str(install.root))}"
    if service.is_once:
        folders = [argument(str(install.home / name)) for name in FOLDERS]
        yield f"ExecStartPre=/bin/mkdir -p {' '.join(folders)}"
    yield f"ExecStart={' '.join(argument(word) for word in service.command)}"
    if service.is_once:
        yield "RemainAfterExit=yes"
        yield "TimeoutStartSec=infinity"
        return
    yield "Restart=always"
    yield "RestartSec=2"
    # the process ends its own children; what is left after that is killed
    yield "KillMode=mixed"
    yield f"TimeoutStopSec={service.stop_seconds + 10:.0f}"
    yield "LimitNOFILE=65536"


def _places(install: Install, service: Service) -> Iterator[str]:
    writes = [install.home, *service.writes]
    yield f"ReadWritePaths={' '.join(argument(str(path)) for path in writes)}"
    if service.reads:
        yield f"ReadOnlyPaths={' '.join(argument(str(path)) for path in service.reads)}"
    below = [install.root, *writes]
    is_at_home = any(path.is_relative_to(home) for path in below for home in HOMES)
    yield f"ProtectHome={'read-only' if is_at_home else 'yes'}"


def escaped(text: str) -> str:
    """Specifiers of systemd begin with %."""
    return text.replace("%", "%%")


def quoted(text: str) -> str:
    inner = escaped(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{inner}"'


def argument(text: str) -> str:
    """One word of a command or a list: variables are not expanded in it."""
    plain = escaped(text).replace("$", "$$")
    is_simple = plain and not set(plain) & set(" \t\"'\\;")
    return plain if is_simple else quoted(text).replace("$", "$$")
