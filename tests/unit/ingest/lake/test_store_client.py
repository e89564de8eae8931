"""The small client of S3: its signature, and what it makes of odd answers."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from core.errors import TerminalError, TransientError
from core.object_store import StoreAccess, hadoop_properties, split_uri
from ingest.lake.s3 import client as client_module
from ingest.lake.s3.client import StoreClient
from ingest.lake.s3.objects import ObjectPlace
from ingest.lake.s3.signing import Request, signed_headers
from tests.object_store import ObjectStore

Answer = tuple[int, bytes]


@pytest.mark.parametrize(
    "request_",
    [
        Request("GET", "s3.example.org", "/bucket/a b/ü+%41&.txt"),
        Request("GET", "b.example.org", "/", {"list-type": "2", "prefix": "a/ b=ü"}),
        Request("PUT", "h:9000", "/b/k", {}, {"If-None-Match": "*"}, b"text"),
        Request(
            "POST", "h", "/b", {"delete": ""}, {"content-md5": "x=="}, b"<Delete/>"
        ),
    ],
)
def test_the_signature_is_the_one_of_amazons_own_library(
    request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)
    ours = signed_headers(
        request_, region="eu-x-1", access_key="AKID", secret_key="sEcret/+", now=now
    )
    sent = {k: v for k, v in ours.items() if k not in {"authorization", "host"}}
    theirs = AWSRequest(
        request_.method,
        f"https://{request_.host}{request_.target}",
        headers={**sent, "X-Amz-Content-SHA256": sent.pop("x-amz-content-sha256")},
        data=request_.body,
    )
    monkeypatch.setattr("botocore.auth.get_current_datetime", lambda: now)
    theirs.context["payload_signing_enabled"] = True
    S3SigV4Auth(Credentials("AKID", "sEcret/+"), "s3", "eu-x-1").add_auth(theirs)
    assert ours["authorization"] == theirs.headers["Authorization"]


@contextmanager
def answering(answer: Callable[[str, int], Answer | None]) -> Iterator[StoreClient]:
    """A store that says what the test wants: of (method, number of the request);
    None hangs up without a word."""
    count = 0

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            nonlocal count
            count += 1
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = answer(self.command, count)
            if found is None:
                self.close_connection = True
                return
            self.send_response(found[0])
            self.send_header("Content-Length", str(len(found[1])))
            self.send_header("ETag", '"e"')
            self.end_headers()
            self.wfile.write(found[1])

        do_GET = do_PUT = do_DELETE = do_POST = answer

        def log_message(self, *args: Any) -> None:
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield StoreClient(StoreAccess(address, "r", "key", "hidden", path_style=True))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_FIRST_WAIT", 0.001)


def test_a_store_that_ignores_conditions_is_refused() -> None:
    with (
        answering(lambda method, number: (200, b"3")) as client,
        pytest.raises(TerminalError) as caught,
    ):
        ObjectPlace(client, "b", "lake/_sluice/fence/1").create("1")
    assert caught.value.code == "store_without_conditions"


def test_a_passing_fault_is_tried_again() -> None:
    faults: list[Answer | None] = [
        (503, b""),
        None,
        (409, b"<Code>OperationConflict</Code>"),
    ]

    def answer(method: str, number: int) -> Answer | None:
        return faults[number - 1] if number <= len(faults) else (200, b"whole")

    with answering(answer) as client:
        assert ObjectPlace(client, "b", "k").read() == b"whole"


def test_an_unheard_success_is_ours() -> None:
    """The first try was carried out and its answer lost: the second finds it there."""

    def answer(method: str, number: int) -> Answer | None:
        if method == "GET":
            return 200, b"ours"
        return None if number == 1 else (412, b"<Code>PreconditionFailed</Code>")

    with answering(answer) as client:
        client.proven.add("b")
        assert ObjectPlace(client, "b", "k").create("ours")
    with answering(answer) as client:
        client.proven.add("b")
        assert not ObjectPlace(client, "b", "k").create("other")


def test_a_conflict_of_a_create_is_asked_again() -> None:
    """Two writers at once: which of them made the object is not known yet."""

    def answer(method: str, number: int) -> Answer | None:
        conflict = b"<Code>ConditionalRequestConflict</Code>"
        return (409, conflict) if number == 1 else (200, b"")

    with answering(answer) as client:
        client.proven.add("b")
        assert ObjectPlace(client, "b", "k").create("ours")


def test_hadoops_markers_go_with_their_folder(object_store: ObjectStore) -> None:
    client = StoreClient(object_store.access)
    bucket, key = split_uri(object_store.new_lake())
    for marker in ("t/", "t/sub/"):
        client.put(bucket, f"{key}/{marker}", b"", {})
    folder = ObjectPlace(client, bucket, key) / "t"
    (folder / "sub" / "a").replace("1")
    assert [file.path for file in folder.files()] == ["sub/a"]
    assert folder.delete_page(1.0) == (3, True)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (
            (403, b"<Code>SignatureDoesNotMatch</Code>"),
            TerminalError,
            "lake_not_writable",
        ),
        ((404, b"<Code>NoSuchBucket</Code>"), TerminalError, "lake_bucket_missing"),
        ((501, b"<Code>NotImplemented</Code>"), TerminalError, "lake_not_writable"),
        ((503, b"<Code>SlowDown</Code>"), TransientError, "storage_failed"),
        (None, TransientError, "storage_failed"),
    ],
)
def test_refusals_in_words(
    answer: Answer | None, kind: type[Exception], code: str
) -> None:
    with answering(lambda method, number: answer) as client:
        for act in (lambda p: p.read(), lambda p: p.replace("1"), lambda p: p.names()):
            with pytest.raises(kind) as caught:
                act(ObjectPlace(client, "bucket", "k"))
            assert getattr(caught.value, "code", "") == code
            assert "hidden" not in str(caught.value)


def test_addresses() -> None:
    assert split_uri("s3://b") == ("b", "")
    assert split_uri("s3://b/x/y/") == ("b", "x/y")
    for wrong in ("s3://", "/x", "s3:///x"):
        with pytest.raises(ValueError, match="s3"):
            split_uri(wrong)
    access = StoreAccess("", "eu-x-1", "key", "hidden")
    assert access.address == "https://s3.eu-x-1.amazonaws.com"
    assert "hidden" not in repr(access)
    assert hadoop_properties(access)["fs.s3a.path.style.access"] == "false"
