"""Whether the driver and the executors see the same files: asked of the master before tasks run, and by each task."""

from __future__ import annotations

import os
import re

#: `local[2]`, and the cluster of processes on one machine that Spark makes for tests.
_LOCAL = re.compile(r"local(-cluster)?(\[.*\])?")
#: Nobody on another machine reaches a master that listens on the loopback address.
_LOOPBACK = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]{1,5})?")


def is_one_machine(master: str) -> bool:
    """Tells whether all executors of a master (`yarn`, `spark://host:7077`) are on the driver's machine for sure."""
    if _LOCAL.fullmatch(master):
        return True
    servers = master.removeprefix("spark://").split(",")
    return master.startswith("spark://") and all(_LOOPBACK.fullmatch(server) for server in servers)


def this_machine() -> str:
    """Returns what two processes have in common that see the same files: the running kernel, and its mounts for them.

    Two containers differ by the mounts.  Returns "" where the system does not say it.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read(64).strip()} {os.readlink('/proc/self/ns/mnt')}"
    except OSError:
        return ""


def refusal(staging: str) -> str:
    """Returns why a write to a store does not stage in the store's directory, and how it does."""
    return (
        f"executors on other machines than the driver do not see the default staging, {staging}: set stagingLocation "
        "to a directory that all of them share, or to a URI (s3://, hdfs://); where they share the directory of the "
        f"store, stagingLocation={staging} says so"
    )
