"""A real Prometheus on loopback that scrapes what a test hands it. Only its two
programs are needed: Debian's package `prometheus`, with its service or without."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_for

SCRAPED = "sluice"


@dataclass(frozen=True, slots=True)
class Prometheus:
    """url: of its HTTP API."""

    url: str

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series that it finds now; AssertionError where it cannot be read."""
        body = self._get("query", query=expression)
        assert body["status"] == "success", (expression, body)
        assert not body.get("warnings"), (expression, body)
        found: list[dict[str, Any]] = body["data"]["result"]
        return found

    def until_scraped(self, times: int) -> None:
        counted = f'count_over_time(up{{job="{SCRAPED}"}}[1h])'

        def is_scraped() -> bool:
            found = self.query(counted)
            return bool(found and int(found[0]["value"][1]) >= times)

        missing = f"{times} scrapes"
        wait_for(is_scraped, lambda: (missing, self._get("targets")), pause=0.2)

    def _get(self, what: str, **query: str) -> dict[str, Any]:
        address = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(address, timeout=60) as reply:
                body: dict[str, Any] = json.load(reply)
        except urllib.error.HTTPError as refused:
            body = json.load(refused)
        return body


def promtool(*arguments: str) -> tuple[bool, str]:
    """Whether it was content, and what it said."""
    command = [_program("promtool"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


@contextmanager
def prometheus(text: bytes, rules: Path) -> Iterator[Prometheus]:
    """It scrapes `text` once a second, and evaluates `rules`."""
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as home, _told(text) as at:
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": SCRAPED, "static_configs": [{"targets": [at]}]}
            ],
        }
        file = Path(home) / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port()}"
        command = [
            _program("prometheus"),
            f"--config.file={file}",
            f"--storage.tsdb.path={home}/data",
            f"--web.listen-address={address}",
        ]
        with (Path(home) / "log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _until_ready(address, process, Path(home) / "log")
            yield Prometheus(f"http://{address}")
        finally:
            process.terminate()
            process.wait(LIMIT_SECONDS)


@contextmanager
def _told(text: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=[0.05])
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _program(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"{name} is missing: apt-get install prometheus"
    return found


def _until_ready(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def is_ready() -> bool:
        assert process.poll() is None, log.read_text()
        with (
            contextlib.suppress(OSError),
            urllib.request.urlopen(f"http://{address}/-/ready", timeout=5),
        ):
            return True
        return False

    wait_for(is_ready, log.read_text)
