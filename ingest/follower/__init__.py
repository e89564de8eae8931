"""The process that reads one source's log into the lake, without Django and Spark."""
