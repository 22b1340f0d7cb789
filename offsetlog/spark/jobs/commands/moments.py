"""Moments on the command line of a job, as the source's option `at` takes them."""

from __future__ import annotations

import json
from datetime import datetime

from offsetlog.cli.moments import parse_moment
from offsetlog.errors import InvalidArgumentError


def moment_option(text: str | None) -> str | None:
    """Returns what the option `at` is given for a moment as it is typed; None for now.

    A whole number is a time in ms, and JSON names log offsets by log partition, as in the option itself.

    Raises:
        InvalidArgumentError: it is no moment.
    """
    if text is None:
        return None
    plain = text.strip()
    if plain.isascii() and plain.isdecimal():
        return plain
    if plain.startswith("{"):
        try:
            return json.dumps(json.loads(plain))
        except ValueError as failure:
            raise InvalidArgumentError(f"{text!r} is no JSON of log offsets by log partition: {failure}") from None
    moment = parse_moment(plain)
    if moment is None:
        return None
    return moment.isoformat() if isinstance(moment, datetime) else f"offset:{moment}"
