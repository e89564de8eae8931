"""REST of SQL statements, below /api/v1; the gateway process runs them."""
