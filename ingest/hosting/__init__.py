"""What processes share that start others by rows: being woken, and handing secrets."""
