"""The Spark driver: snapshots, syncs and maintenance of lake tables.

A process of its own that gets JobSpecs on a pipe and answers with JobReports. It
must not know Django, the metadata database or Celery.
"""

from __future__ import annotations
