"""The engine process: Spark with a Thrift Server and the Guard. Never imports Django."""
