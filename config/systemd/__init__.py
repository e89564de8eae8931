"""Units of systemd for a home: rendered from the commands that the supervisor runs."""
