"""The past of a store, read from its logs, and brought back from them."""
