"""HiveServer2 and REST doors to the engine. Must not know ingest or frontend."""
