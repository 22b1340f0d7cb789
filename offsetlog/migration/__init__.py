"""Moves committed offsets between ZooKeeper and log directories; none is lowered unless requested."""
