"""Stores that are measured side by side, all from the same Python objects: ours, and LMDB, RocksDB and SQLite."""
