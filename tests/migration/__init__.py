"""Migrations: the rules, and real moves between ensembles and directories."""
