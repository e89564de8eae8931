"""One Hudi commit per table, from inside a driver: epochs in, rows and position out."""
