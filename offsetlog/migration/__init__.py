"""Moves committed offsets between ZooKeeper and log directories; lowers an offset only if the caller requests it."""
