"""Finds out whether driver and executors see the same files: from the master's name, and in each task."""

from __future__ import annotations

import os
import re

#: `local[2]`, and `local-cluster`, the cluster of processes on one machine that Spark has for tests.
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")
#: A master on the loopback address cannot be reached from another machine.
_LOOPBACK = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]{1,5})?")


def is_one_machine(master: str) -> bool:
    """Returns whether all executors of a master (`yarn`, `spark://host:7077`) are certainly on the driver's machine."""
    if _LOCAL.fullmatch(master):
        return True
    servers = master.removeprefix("spark://").split(",")
    return master.startswith("spark://") and all(_LOOPBACK.fullmatch(server) for server in servers)


def this_machine() -> str:
    """Returns an id that is equal for processes that see the same files: their machine's boot and mount namespace.

    Two containers have different mount namespaces.  Returns "" if the system does not report the boot or the namespace.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read(64).strip()} {os.readlink('/proc/self/ns/mnt')}"
    except OSError:
        return ""


def refusal(staging: str) -> str:
    """Returns the error text for a write whose executors cannot see the default staging directory."""
    return (
        f"executors on other machines do not see the driver's default staging directory, {staging}: set "
        "stagingLocation to a directory that driver and executors share, or to a URI (s3://, hdfs://). If driver "
        f"and executors share the directory of the store, set stagingLocation={staging}"
    )
