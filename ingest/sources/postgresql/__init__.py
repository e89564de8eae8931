"""PostgreSQL: SQL, connections, readers, snapshots, signs."""
