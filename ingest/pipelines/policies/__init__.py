"""Settings that a table inherits from its database and source."""
