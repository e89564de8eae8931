"""The lake's own small files: fences, segments, staging, and reading Hudi's
timeline without Spark.

Not pure (it touches storage), but free of Spark and Django: services and drivers
read the same truth through it, on a file system or an object store alike.
"""

from __future__ import annotations
