"""Spark settings for reading the lake, which drivers and engines share. Pure."""

from __future__ import annotations

from collections.abc import Mapping

# Made at once for each log file that is read, however small it is; with Hudi's 16 MiB,
# eight files take 500 MiB of everybody's heap. What a block holds is read past it.
LOG_BUFFER = {"hoodie.memory.dfs.buffer.max.size": str(128 << 10)}

READ_SETTINGS: Mapping[str, str] = {
    # large values: a batch lies in memory whole, twice while it grows
    "spark.sql.parquet.columnarReaderBatchSize": "1024",
    # our log files hold none: looking for them reads one more column, and rewrites
    # each of their records for it
    "hoodie.merge.use.record.positions": "false",
    # "lazy", the default, compares folders with a condition by code of its own: it
    # fails at the folder of NULL (<, >, BETWEEN), and with several partition columns
    # takes n <> 3 for n = 3. This lists all folders, and Spark compares
    "hoodie.datasource.read.file.index.listing.mode": "eager",
    # to the list of values that a file has of a column, -0.0 is another one than 0.0:
    # it would pass over rows that are equal to what is asked for
    "spark.hadoop.parquet.filter.dictionary.enabled": "false",
    # by statistics that we have not; it would warn of that at each read
    "hoodie.enable.data.skipping": "false",
    # Hudi puts each list of a table's files into a cache of Spark's that all sessions
    # share and nobody asks again: up to 250 MB of the heap, the newest of them
    "spark.sql.hive.filesourcePartitionFileCacheSize": "0",
    **LOG_BUFFER,
}
