"""The engine process: Spark, its Thrift Server and the Guard. Never imports Django."""
