"""Static files have names of their content, are kept for good and come compressed."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from frontend import static_files
from frontend.static_files import HashedFiles, collect

LINK = re.compile(r'(?:href|src)="(/static/[^"]+)"')
IMPORT = re.compile(r'(?:from|import)\s*"(\./[^"]+)"')
HASHED = re.compile(r"\.[0-9a-f]{12}\.\w+$")
MOST = 16


@pytest.fixture
def files(world, browse, settings, tmp_path):
    """All files that a page asks for, with what its modules import."""
    settings.STATIC_ROOT = tmp_path
    collect()
    client = browse("root")

    def read(page: str) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        wanted = LINK.findall(client.get(page).content.decode())
        for url in wanted:
            if url not in found:
                found[url] = body_of(client, url)
                folder = url.rpartition("/")[0]
                imported = IMPORT.findall(found[url].decode())
                wanted += [f"{folder}/{name[2:]}" for name in imported]
        return found

    return read


def body_of(client: Client, url: str) -> bytes:
    reply = client.get(url)
    assert reply.status_code == 200, url
    assert "immutable" in reply["Cache-Control"], url
    small = client.get(url, headers={"Accept-Encoding": "gzip"})
    is_small = len(small.getvalue()) < 300
    assert is_small or small["Content-Encoding"] == "gzip", url
    return reply.getvalue()


@pytest.mark.parametrize("page", ["/", "/sql", "/tables", "/api/v1/docs"])
def test_files_of_a_page_are_few_and_kept_for_good(files, page):
    found = files(page)
    assert all(HASHED.search(url) for url in found)
    assert 5 < len(found) < MOST


def test_a_manifest_cut_short_by_a_kill_is_written_anew(
    world, browse, settings, tmp_path
):
    settings.STATIC_ROOT = tmp_path
    (tmp_path / HashedFiles.manifest_name).write_text('{"paths": {')
    collect()
    links = LINK.findall(browse("root").get("/").content.decode())
    assert all(HASHED.search(url) for url in links)


def test_after_a_failed_collection_no_page_names_files_of_a_former_one(
    world, browse, settings, tmp_path, monkeypatch
):
    settings.STATIC_ROOT = tmp_path
    collect()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(static_files, "call_command", fail)
    collect()
    links = LINK.findall(browse("root").get("/").content.decode())
    assert not any(HASHED.search(url) for url in links)


def test_without_a_collection_files_have_their_plain_names(world, browse):
    links = LINK.findall(browse("root").get("/").content.decode())
    assert "/static/frontend/css/base.css" in links


def test_who_brings_a_token_to_the_page_of_rest_is_led_to_the_log_in(client) -> None:
    reply = client.get("/api/v1/docs", headers={"Authorization": "Bearer slt_x"})
    assert (reply.status_code, reply["Location"][:7]) == (302, "/login?")
