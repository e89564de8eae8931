"""Change events, epochs and the SQL that reads a source, as values.

Pure: no connection, no files, no clock. It must not know Hudi or Spark.
"""

from __future__ import annotations
