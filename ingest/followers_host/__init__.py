"""The host of followers: one process for each source whose log is read."""
