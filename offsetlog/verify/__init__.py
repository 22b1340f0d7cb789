"""Verification: reads everything again, compares all ways to a state, and changes nothing."""

from offsetlog.verify.directory import Verification, verify

__all__ = ["Verification", "verify"]
