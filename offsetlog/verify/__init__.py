"""Verification: reads everything again, computes the state in every way, and compares the results; changes nothing."""

from offsetlog.verify.directory import Verification, verify

__all__ = ["Verification", "verify"]
