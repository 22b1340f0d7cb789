"""Verification: reads everything again, computes the state in every way, compares the results, and changes nothing."""

from offsetlog.verify.directory import Verification, verify

__all__ = ["Verification", "verify"]
