"""Writes the secrets that compose.yaml mounts, once: what exists stays as it is.

`python3 docker/make_secrets.py` makes `docker/secrets/`. The folder is for its owner
only; the files in it are readable, because the user of a container is another one.
"""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "secrets"


def fernet_key() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).decode()


def texts() -> dict[str, str]:
    """A fresh value for each file. Those of one server name the same password."""
    database, redis = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    return {
        "django_key": secrets.token_urlsafe(48),
        "stored_secrets_keys": fernet_key(),
        # opens nothing: the gateway needs no stored secret, only a sound setting
        "gateway_stored_secrets_keys": fernet_key(),
        "service_secret": secrets.token_urlsafe(48),
        "database_password": database,
        "database_url": f"postgresql://sluice:{database}@postgres:5432/sluice",
        "redis_conf": f'requirepass {redis}\nsave ""\nappendonly no\ndir /tmp\n',
        "redis_url": f"redis://:{redis}@redis:6379/0",
    }


# Each pair is one password in two forms: together, or not at all.
PAIRS = (("database_password", "database_url"), ("redis_conf", "redis_url"))


def main(folder: Path = FOLDER) -> int:
    folder.mkdir(mode=0o700, exist_ok=True)
    folder.chmod(0o700)
    there = {path.name for path in folder.iterdir()}
    for pair in PAIRS:
        if len(there.intersection(pair)) == 1:
            print(f"{folder}: {' and '.join(pair)} belong together")  # noqa: T201
            return 1
    for name, text in texts().items():
        if name not in there:
            path = folder / name
            path.write_text(text)
            path.chmod(0o444)
            print(f"made {path}")  # noqa: T201
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
