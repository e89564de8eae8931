"""Records a release: `python -m tests.former.record CHECKOUT` writes `recorded.tar.xz`.

CHECKOUT is a work tree of the release with its `.venv`. Its own product runs, lives
through `story`, is asked for all that it answers, and is stopped; kept are dumps of its
database and of its source, its lake, its keys, the rows of each lake table by
its own gateway, and its answers. Paths of the machine are told as FORMER_HOME.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from config.embedded import EmbeddedPostgres
from tests.former import RECORDED
from tests.former.restored import FORMER_HOME, program
from tests.former.story import (
    INTERRUPTED,
    PEOPLE,
    READER,
    READER_PASSWORD,
    TABLES,
    Story,
    addresses,
)
from tests.product import Product
from tests.receivers import web_receiver

# What a user who is no administrator asks for: enough to see what is decided for each.
_DECIDED = re.compile(r"/[a-z-]+(\?.*)?|/(tables|datasources|users)/\w+|.*effective.*")


def main(checkout: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-former-") as folder:
        home, kept = Path(folder) / "home", Path(folder) / "kept"
        kept.mkdir()
        server = EmbeddedPostgres(Path(folder), "former")
        server.start()
        try:
            facts = run_product(checkout, home, server, kept)
            for database in ("sluice", "shop"):
                dump(server, database, kept / f"{database}.sql", home)
        finally:
            server.destroy()
        facts["commit"] = _said("git", "-C", str(checkout), "rev-parse", "HEAD")
        names = ("django", "secrets")
        facts["keys"] = {n: (home / "keys" / n).read_text().strip() for n in names}
        (kept / "facts.json").write_text(_without(home, json.dumps(facts, indent=1)))
        pack(home / "lake", kept, home)


def run_product(
    checkout: Path, home: Path, server: EmbeddedPostgres, kept: Path
) -> dict[str, Any]:
    url = server.ensure_database("sluice")
    server.ensure_database("shop")
    manage = _manage(checkout, home, url)
    manage("quickstart", "--home", str(home), "--no-demo", "--detach")
    try:
        product = Product(home, {})
        product.reload()
        with (
            psycopg.connect(server.address.url("shop"), autocommit=True) as source,
            web_receiver() as hook,
        ):
            source.execute(
                f"CREATE ROLE {READER} LOGIN PASSWORD '{READER_PASSWORD}'"
                " IN ROLE pg_read_all_data"
            )
            host, port = server.address.host, server.address.port
            story = Story(product.api, source, host, port, hook.url)
            story.tell()
            facts = ask_all(product)
            with story.held_verification(INTERRUPTED) as facts["interrupted"]:
                manage("quickstart", "--stop", "--home", str(home))
            return facts
    finally:
        manage("quickstart", "--stop", "--home", str(home))


def ask_all(product: Product) -> dict[str, Any]:
    """Its answers, to the administrator and to a user, and the rows of its lake."""
    connection = product.connection
    tokens = {"admin": connection["token"]}
    for name, password in PEOPLE.items():
        tokens[name] = token_of(connection["web_url"], name, password)
    rows = {name: rows_of(product, name) for name in TABLES}
    paths = addresses(product.api)
    answers: dict[str, Any] = {}
    for name, token in tokens.items():
        product.connection = {**connection, "token": token}
        asked = paths if name == "admin" else filter(_DECIDED.fullmatch, paths)
        replies = {path: product.api.call("GET", path) for path in asked}
        answers[name] = {p: [r.status, r.body] for p, r in replies.items()}
    return {
        "passwords": {**PEOPLE, connection["username"]: connection["password"]},
        "administrator": connection["username"],
        "tokens": tokens,
        "rows": rows,
        "answers": answers,
    }


def token_of(web: str, name: str, password: str) -> str:
    """One that the user makes after logging in, as a browser does."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{web}/login").read()

    def sign() -> str:
        return next(str(c.value) for c in jar if c.name == "csrftoken")

    form = {"username": name, "password": password, "csrfmiddlewaretoken": sign()}
    browser.open(f"{web}/login", urllib.parse.urlencode(form).encode()).read()
    body = json.dumps({"name": "script", "expires_in_days": None}).encode()
    headers = {"Content-Type": "application/json", "X-CSRFToken": sign()}
    request = urllib.request.Request(f"{web}/api/v1/tokens", body, headers)
    return str(json.loads(browser.open(request).read())["token"])


def rows_of(product: Product, name: str) -> dict[str, Any]:
    """Columns as SQL of text, and the rows that the gateway has of them."""
    table = product.api.table(f"lake.shop.{name}")
    schema = product.api.get(f"/tables/{table['id']}/schema")
    columns = [
        f"hex(`{c['name']}`)" if c["type"] == "binary" else f"string(`{c['name']}`)"
        for c in schema["columns"]
    ]
    with product.hive() as link, link.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(columns)} FROM lake.shop.{name}")
        rows = [list(row) for row in cursor.fetchall()]
    return {"columns": columns, "rows": sorted(rows, key=repr)}


def dump(server: EmbeddedPostgres, database: str, path: Path, home: Path) -> None:
    url = server.address.url(database)
    options = ("--no-owner", "--no-privileges", "--dbname", url)
    path.write_text(_without(home, _said(program("pg_dump"), *options)))


def pack(lake: Path, kept: Path, home: Path) -> None:
    for file in filter(Path.is_file, lake.rglob("*")):
        if str(home).encode() in file.read_bytes():
            raise SystemExit(f"{file} names the home, and cannot be moved")
    with tarfile.open(RECORDED, "w:xz", preset=9) as archive:
        archive.add(lake, "lake", filter=_anonymous)
        for file in sorted(kept.iterdir()):
            archive.add(file, file.name, filter=_anonymous)
    print(f"{RECORDED}: {RECORDED.stat().st_size:,} bytes")  # noqa: T201


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def _without(home: Path, text: str) -> str:
    return text.replace(str(home), FORMER_HOME)


def _manage(checkout: Path, home: Path, url: str) -> Callable[..., str]:
    kept = {k: v for k, v in os.environ.items() if not re.match("SLUICE_|DJANGO_", k)}
    chosen = {
        "SLUICE_HOME": str(home),
        "SLUICE_DATABASE_URL": url,
        "SLUICE_ALERT_NETWORKS_ALLOWED": "127.0.0.0/8",
    }
    if cache := os.environ.get("SLUICE_PARTS_CACHE"):
        chosen["SLUICE_PARTS_CACHE"] = cache

    def manage(*arguments: str) -> str:
        python = str(checkout / ".venv" / "bin" / "python")
        command = [python, str(checkout / "manage.py"), *arguments]
        return _said(*command, cwd=checkout, env=kept | chosen)

    return manage


def _said(*command: str, **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
