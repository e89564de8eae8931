"""MariaDB and MySQL: SQL, connections, readers, signs."""
