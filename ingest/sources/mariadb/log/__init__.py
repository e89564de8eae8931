"""MariaDB's binary log: its events, their values, where it is."""
