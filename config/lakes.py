"""Settings of the lake: where it lies and, on an object store, what opens it."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from config.env import boolean, read
from core.object_store import StoreAccess, is_object_uri, split_uri


def lake_uri(home: Path) -> str:
    """An absolute path, or s3://bucket/prefix."""

    def parse(text: str) -> str:
        uri = text.removeprefix("file://").replace("s3a://", "s3://", 1).rstrip("/")
        if is_object_uri(uri):
            split_uri(uri)
        return uri

    return read(
        "LAKE_URI",
        "root of the lake: an absolute path, or s3://bucket/prefix",
        parse,
        default=str(home / "lake"),
    )


def lake_lock() -> str:
    """host:port[,host:port]/folder of a ZooKeeper; "" = locks within one driver."""

    def parse(text: str) -> str:
        if not text:
            return ""
        service = text.removeprefix("zookeeper://")
        hosts, _, folder = service.partition("/")
        ports = [part.rpartition(":")[2] for part in hosts.split(",")]
        if service == text or not hosts or not all(p.isdigit() for p in ports):
            raise ValueError("expected zookeeper://host:port[,host:port][/folder]")
        return f"{hosts}/{folder.strip('/') or 'sluice'}"

    return read(
        "LAKE_LOCK",
        "lock of tables onboarded from now on, shared by several drivers: "
        "zookeeper://host:port/folder; empty = a driver's own",
        parse,
    )


def object_store() -> StoreAccess | None:
    """None without a key. Whether a lake needs it is checked in `config.checks`."""
    endpoint = read(
        "S3_ENDPOINT", "address of an S3-compatible store; empty = Amazon's", _address
    )
    region = read("S3_REGION", "region of it", default="us-east-1")
    key = read("S3_ACCESS_KEY", "access key of the lake's object store", is_secret=True)
    secret = read("S3_SECRET_KEY", "secret key that belongs to it", is_secret=True)
    path_style = read(
        "S3_PATH_STYLE",
        "whether the bucket is in the path, not in the host's name; by "
        "default so with SLUICE_S3_ENDPOINT",
        boolean,
        default="true" if endpoint else "false",
    )
    if not key or not secret:
        return None
    return StoreAccess(endpoint, region, key, secret, path_style)


def _address(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in {"http", "https"} or not parts.hostname):
        raise ValueError("expected https://host[:port]")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("only https://host[:port][/path]")
    return text.rstrip("/")
