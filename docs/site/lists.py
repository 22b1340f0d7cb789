"""A hook of MkDocs: what belongs to an item of a list is indented as Python-Markdown wants it.

The pages are CommonMark, as code hosts show it: what stands below the text of an item belongs to the item, two or
three columns in. Python-Markdown wants four for each level, and shows a block of code that has fewer as a paragraph.
"""

from __future__ import annotations

import re
from typing import Any

STEP = 4
MARKER = re.compile(r"(?:[*+-]|\d+\.) {1,3}(?=\S)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Indents a page."""
    return nested(markdown)


def nested(markdown: str) -> str:
    """Returns a text of CommonMark with four columns for each level of its lists."""
    lines: list[str] = []
    widths: list[int] = []              # the column at which the text of each open item begins
    gaps: list[bool] = []               # whether it holds an empty line, so that the next item needs one before it
    in_fence, is_after_blank = False, True
    for line in markdown.split("\n"):
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        if not content:
            lines.append("")
            is_after_blank = True
            if gaps:
                gaps[-1] = True
            continue
        marker = None if in_fence else MARKER.match(content)
        may_begin = bool(widths) or is_after_blank
        # A line that is not indented goes on with the paragraph before it, unless it begins an item or follows a gap.
        while not in_fence and widths and indent < widths[-1] and (marker or is_after_blank):
            widths.pop()
            if gaps.pop() and marker and not is_after_blank:
                lines.append("")
                is_after_blank = True
        base = widths[-1] if widths else 0
        lines.append(" " * (STEP * len(widths)) + line[min(base, indent) :])
        if content.startswith("```"):
            in_fence = not in_fence
        elif marker and indent - base < STEP and may_begin:
            widths.append(indent + len(marker[0]))
            gaps.append(False)
        is_after_blank = False
    return "\n".join(lines)
