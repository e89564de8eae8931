"""How an S3-compatible object store is reached, and what Hadoop calls that.

Pure: lake, driver and gateway share it. It must not know requests or signatures.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEME = "s3://"


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """One store and the key that opens it.

    endpoint    https://host[:port]; "" = Amazon's, by region
    path_style  the bucket is in the path, not in the host's name
    """

    endpoint: str
    region: str
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    path_style: bool = False

    @property
    def address(self) -> str:
        return self.endpoint or f"https://s3.{self.region}.amazonaws.com"


def is_object_uri(uri: str) -> bool:
    return uri.startswith(SCHEME)


def split_uri(uri: str) -> tuple[str, str]:
    """(bucket, key) of s3://bucket/key; ValueError when there is no bucket."""
    bucket, _, key = uri.removeprefix(SCHEME).partition("/")
    if not is_object_uri(uri) or not bucket:
        raise ValueError(f"'{uri}' is not s3://bucket/prefix")
    return bucket, key.strip("/")


def hadoop_properties(access: StoreAccess) -> dict[str, str]:
    """For a JVM's Hadoop configuration. Secret: never into Spark's conf, which
    arguments, logs and SQL can show."""
    return {
        "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "fs.AbstractFileSystem.s3.impl": "org.apache.hadoop.fs.s3a.S3A",
        "fs.s3a.endpoint": access.address,
        "fs.s3a.endpoint.region": access.region,
        "fs.s3a.path.style.access": str(access.path_style).lower(),
        "fs.s3a.connection.ssl.enabled": str(
            access.address.startswith("https:")
        ).lower(),
        # nothing else on the machine may lend a key
        "fs.s3a.aws.credentials.provider": (
            "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
        ),
        "fs.s3a.access.key": access.access_key,
        "fs.s3a.secret.key": access.secret_key,
        # of each JVM's own, which goes with it
        "fs.s3a.buffer.dir": "${java.io.tmpdir}/s3a",
        # every client of a lake is new enough, and each write saves requests
        "fs.s3a.directory.marker.retention": "keep",
        # staged files count by their manifest: no reader sees a half of them
        "mapreduce.fileoutputcommitter.algorithm.version": "2",
        # with the defaults a store that is away holds a job for many minutes
        "fs.s3a.attempts.maximum": "5",
        "fs.s3a.retry.limit": "4",
        "fs.s3a.connection.establish.timeout": "5000",
        "fs.s3a.connection.timeout": "60000",
    }
