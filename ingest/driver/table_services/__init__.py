"""What keeps a lake table healthy from inside a driver: Hudi's table services,
repairs and verification. No Django here."""
