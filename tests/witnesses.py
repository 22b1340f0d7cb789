"""Directories without the witnesses that a store keeps, as if another program had written them."""

from __future__ import annotations

from pathlib import Path

from offsetlog.directory import checkpoint_record
from offsetlog.directory.log_directory import PROPERTIES


def forget_witnesses(path: Path) -> None:
    """Takes away the manifests and the record of checkpoints, and what `offsetlog.properties` says of them."""
    for manifest in path.glob("*/offsetlog.manifest"):
        manifest.unlink()
    (path / checkpoint_record.NAME).unlink(missing_ok=True)
    properties = path / PROPERTIES
    if properties.exists():
        lines = properties.read_text().splitlines(keepends=True)
        properties.write_text("".join(line for line in lines if not line.startswith(("existing=", "check="))))
