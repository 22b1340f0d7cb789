"""What Spark's executors read a log with: no store, no server, only the files and the engine's scanner."""
