"""The stores that are compared, with the same Python objects as input: offsetlog, LMDB, RocksDB and SQLite."""
