"""The session that drivers and tests share."""

from __future__ import annotations

import logging
import socket
import stat
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError


@pytest.mark.parametrize("name", ["functions", "PythonUtils", "org.apache.spark.sql"])
def test_names_that_each_job_uses_are_asked_of_the_jvm_once(
    spark: Any, name: str
) -> None:
    found = attrgetter(name)
    assert found(spark.sparkContext._jvm) is found(spark.sparkContext._jvm)


def test_lists_of_files_do_not_stay_in_the_heap(spark: Any) -> None:
    """Hudi gives this cache a new owner at each read, who alone finds what is in it. In
    an hour of commits it held half a million files, in engines and in drivers."""
    caches = spark._jvm.org.apache.spark.sql.execution.datasources.FileStatusCache
    found = caches.getOrCreate(spark._jsparkSession)
    assert found.getClass().getSimpleName() == "NoopCache$"


def test_a_connection_that_breaks_is_made_anew(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """py4j printed the Java exception that was being handled, which asks the JVM for its
    words: by the broken connection, and so on."""
    caplog.set_level(logging.INFO)
    jvm, client = spark.sparkContext._jvm, spark.sparkContext._gateway._gateway_client
    number = jvm.java.lang.Integer.parseInt
    try:
        jvm.java.util.ArrayDeque().removeFirst()
    except Py4JJavaError:
        client.get_thread_connection().socket.shutdown(socket.SHUT_RDWR)
        assert number("7") == 7
    assert not [r for r in caplog.records if r.name.startswith("py4j")]


def test_the_jvm_sets_the_modes_of_local_files_itself(
    spark: Any, tmp_path: Path
) -> None:
    """Hadoop would start a process for each file and each folder, and wait for it."""
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    made = tmp_path / "folder" / "file"
    path = hadoop.Path(str(made))
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "io.sluice.lake.LocalFiles"
    files.create(path).close()
    mode = stat.S_IMODE(made.stat().st_mode)
    assert str(files.getFileStatus(path).getPermission()) == stat.filemode(mode)[1:]
    files.setPermission(path, hadoop.permission.FsPermission("1640"))
    assert stat.S_IMODE(made.stat().st_mode) == 0o1640


def test_folders_are_listed_as_hadoop_lists_them(spark: Any, tmp_path: Path) -> None:
    """But for checksums, which it leaves out, too."""
    for name in ("a", "b c%:=#\u00fc", ".hidden", ".a.crc", "x.crc"):
        (tmp_path / name).write_text(name)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "gone").symlink_to("nothing")
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    path = hadoop.Path(tmp_path.as_uri())
    ours, theirs = path.getFileSystem(conf), hadoop.LocalFileSystem()
    theirs.initialize(hadoop.Path("file:///").toUri(), conf)

    def listed(files: Any, at: Any) -> list[tuple[Any, ...]]:
        return sorted(
            (f.getPath().toString(), f.getLen(), f.isDirectory(), f.getBlockSize(),
             f.getModificationTime(), f.getAccessTime())
            for f in files.listStatus(at)
        )  # fmt: skip

    found = listed(ours, path)
    assert found == listed(theirs, path)
    assert len(found) == 6
    file = hadoop.Path(path, "a")
    assert listed(ours, file) == listed(theirs, file)
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        ours.listStatus(hadoop.Path(path, "nowhere"))


def test_hadoop_carries_no_settings_of_yarn_and_mapreduce(spark: Any) -> None:
    """All that it has goes along with each stage, and is written and read each time."""
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    jvm = spark.sparkContext._jvm
    # the class that brings them in
    jvm.org.apache.hadoop.mapred.JobConf()
    for name in ("yarn.resourcemanager.hostname", "mapreduce.task.io.sort.mb"):
        assert conf.get(name) is None
    assert conf.get("io.file.buffer.size") is not None
