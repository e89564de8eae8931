"""HiveServer2 and REST interfaces to the engine. Must not know ingest or frontend."""
