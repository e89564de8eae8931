"""Table actions: what users can request for a lake table, in one list."""
