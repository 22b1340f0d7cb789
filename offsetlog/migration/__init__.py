"""Moves committed offsets between ZooKeeper and log directories; lowers an offset only if that is requested."""
