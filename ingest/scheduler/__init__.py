"""What time brings about, found in the database by a beat."""
