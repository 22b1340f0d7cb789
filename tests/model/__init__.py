"""A model of plain dicts beside the store."""
