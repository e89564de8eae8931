"""Engines: what runs a statement. The gateway sees them only through `port`."""
