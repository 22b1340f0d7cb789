"""ZooKeeper: real ensembles of Spark's own jars, and connections that are cut."""
