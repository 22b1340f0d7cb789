"""The stubs beside the extensions say what the extensions are, by mypy's stubtest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import offsetlog._native

ALLOWLIST = Path(__file__).parent / "stubtest_allowlist.txt"
CONFIGURATION = Path(__file__).parent.parent / "pyproject.toml"
PACKAGE = Path(offsetlog._native.__file__).parent
EXTENSIONS = sorted({f"offsetlog._native.{path.name.partition('.')[0]}" for path in PACKAGE.glob("*.so")})


def test_there_are_extensions():
    assert "offsetlog._native.status" in EXTENSIONS


@pytest.mark.ci
def test_stubs_agree_with_the_extensions(tmp_path):
    # stubtest reads the stubs where the package is.  It finds an installed wheel by itself; with site-packages as its
    # working directory, or on its path, every library there would be a module of the user's.
    environment = dict(os.environ)
    if "site-packages" not in PACKAGE.parts:
        environment["MYPYPATH"] = str(PACKAGE.parent.parent)
    call = [sys.executable, "-m", "mypy.stubtest", *EXTENSIONS, "--allowlist", str(ALLOWLIST)]
    call += ["--mypy-config-file", str(CONFIGURATION), "--ignore-unused-allowlist", "--concise"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
