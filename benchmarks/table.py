"""Formats a report as text."""

from __future__ import annotations

from benchmarks.results import Figure, Report


def amount(value: float) -> str:
    """Formats a figure with at least three significant digits and a letter for thousands, millions or billions."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.2f} {letter}"
    return f"{value:.1f} " if abs(value) >= 10 else f"{value:.3g} "


def _ratio(first: Figure, other: Figure) -> str:
    if other is first:
        return ""
    if other.unit != first.unit or not other.median:
        return "-"
    ratio = first.median / other.median
    return f"{ratio:.2f} x" if ratio < 100 else f"{ratio:.0f} x"


def format_report(report: Report, *, judged: bool) -> str:
    """Returns the table of one workload.  Its column of ratios compares the first line with each other line.

    Args:
        judged: whether the goals are judged, because the run had the sizes and rounds to which they apply.
    """
    lines = [f"== {report.name}: {report.title}", *(f"   {condition}" for condition in report.conditions)]
    width = max((len(figure.name) for figure in report.figures), default=0)
    for figure in report.figures:
        span = f"({amount(figure.low).strip()} - {amount(figure.high).strip()})" if figure.rounds > 1 else ""
        parts = [
            f"   {figure.name:{width}}  {amount(figure.median):>9}{figure.unit:<13} {span:24}",
            f"{_ratio(report.figures[0], figure):>9}",
            f"  {figure.rounds} x {figure.operations:,}" if figure.operations else "",
            f"  {figure.digest[:12]}" if figure.digest else "",
            f"  {figure.note}" if figure.note else "",
        ]
        lines.append("".join(parts).rstrip())
    if report.facts:
        lines.append("   seen: " + "; ".join(f"{name} {value:,}" for name, value in report.facts.items()))
    for goal in report.goals:
        verdict = ("met" if goal.met else "MISSED") if judged else "not judged"
        lines.append(f"   goal {goal.text}: {amount(goal.actual).strip()}: {verdict}")
    if report.profile:
        lines += ["   profile:", *(f"     {line}" for line in report.profile.splitlines())]
    lines.append(f"   ({report.seconds:.1f} s)")
    return "\n".join(lines)
