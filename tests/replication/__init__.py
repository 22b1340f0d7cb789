"""The rules of replication: each rule by itself, and three replicas under every fault at once."""
