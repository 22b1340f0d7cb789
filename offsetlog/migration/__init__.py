"""Moves committed offsets between ZooKeeper and log directories, never back unless that was asked for."""
