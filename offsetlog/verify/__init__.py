"""Verification: reads everything again, compares every way to a state, and changes nothing."""

from offsetlog.verify.directory import Verification, verify

__all__ = ["Verification", "verify"]
