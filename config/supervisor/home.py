"""The home directory: keys made at the first run, and where each thing lies in it."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from core.files import write_private

KEY_FILES: dict[str, Callable[[], str]] = {
    "django": lambda: secrets.token_urlsafe(48),
    # a Fernet key: 32 bytes, URL-safe base64
    "secrets": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "service": lambda: secrets.token_urlsafe(32),
}


@dataclass(frozen=True, slots=True)
class Home:
    """Paths below one home directory."""

    path: Path

    @property
    def keys(self) -> Path:
        return self.path / "keys"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def connection_file(self) -> Path:
        return self.path / "connection.json"

    @property
    def ports_file(self) -> Path:
        return self.path / "ports.json"

    @property
    def supervisor_file(self) -> Path:
        return self.run / "supervisor.pid.json"

    @property
    def problem_file(self) -> Path:
        return self.run / "problem.json"

    @property
    def administrator_file(self) -> Path:
        return self.keys / "administrator.json"


def make_keys(home: Path) -> None:
    """Create directories and missing keys; existing keys are never touched."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder in ("keys", "run", "logs", "lake", "static"):
        (home / folder).mkdir(mode=0o700, exist_ok=True)
    for name, make in KEY_FILES.items():
        path = home / "keys" / name
        if not path.exists():
            write_private(path, make())
