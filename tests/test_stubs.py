"""The stubs beside the extensions say what the extensions are, by mypy's stubtest."""

from __future__ import annotations

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


@pytest.mark.slow
def test_stubs_agree_with_the_extensions():
    # stubtest of mypy reads the stubs where the package is, source tree or installed wheel.
    call = [sys.executable, "-m", "mypy.stubtest", *EXTENSIONS, "--allowlist", str(ALLOWLIST)]
    call += ["--mypy-config-file", str(CONFIGURATION), "--ignore-unused-allowlist", "--concise"]
    done = subprocess.run(call, capture_output=True, text=True, cwd=PACKAGE.parent.parent, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
