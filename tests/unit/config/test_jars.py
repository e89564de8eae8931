"""Jars come by coordinates, are checked by SHA-256, and are fetched once."""

from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from config.toolchain.jars import PartMissing, ensure_jar
from config.toolchain.paths import Jar, pinned_jars

CONTENT = b"the bytes of a jar"


def jar(content: bytes = CONTENT) -> Jar:
    return Jar(
        group="org.example",
        artifact="part",
        version="1.0",
        sha256=hashlib.sha256(content).hexdigest(),
        why="a test",
    )


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A repository on loopback; the list collects the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path.endswith("part-1.0.jar") else 404)
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *args: object) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv(
        "SLUICE_MAVEN_URL", f"http://127.0.0.1:{server.server_port}/repo/"
    )
    monkeypatch.setenv("SLUICE_PARTS_CACHE", str(tmp_path / "parts"))
    yield asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_classifier_is_part_of_the_name() -> None:
    chosen = replace(jar(), classifier="standalone")
    path = "org/example/part/1.0/part-1.0-standalone.jar"
    assert chosen.repository_path == path


def test_only_who_runs_other_clients_fetches_theirs() -> None:
    asked = {one.artifact for one in pinned_jars("compat")}
    assert asked - {one.artifact for one in pinned_jars("s3")} == {"hive-jdbc"}


def test_a_jar_is_fetched_once(repository: list[str]) -> None:
    first = ensure_jar(jar(), lambda text: None)
    second = ensure_jar(jar(), lambda text: None)
    assert first == second
    assert first.read_bytes() == CONTENT
    assert repository == ["/repo/org/example/part/1.0/part-1.0.jar"]
    assert [path.name for path in first.parent.iterdir()] == [first.name]


def test_wrong_bytes_are_refused_and_not_kept(
    repository: list[str], tmp_path: Path
) -> None:
    with pytest.raises(PartMissing, match="SHA-256") as failure:
        ensure_jar(jar(b"other bytes"), lambda text: None)
    assert "org.example:part:1.0" in str(failure.value)
    assert not list((tmp_path / "parts").rglob("*.jar"))


def test_a_damaged_file_in_the_cache_is_fetched_again(repository: list[str]) -> None:
    path = ensure_jar(jar(), lambda text: None)
    path.write_bytes(CONTENT[:-1])
    assert ensure_jar(jar(), lambda text: None).read_bytes() == CONTENT
    assert len(repository) == 2


def test_every_pin_has_a_digest_and_a_reason() -> None:
    for one in pinned_jars():
        assert len(one.sha256) == 64
        assert one.why
