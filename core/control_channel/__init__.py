"""Control channels: JSON messages between two processes, over any stream."""
