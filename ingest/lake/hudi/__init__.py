"""What Sluice knows about Hudi as values: identity, options, timeline, position.

Pure: no Spark, no files. It must not know where a table lies or who asks.
"""

from __future__ import annotations
