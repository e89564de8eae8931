"""From a source to the lake's storage: snapshots in chunks, epochs of changes."""
