"""What an experiment comes to in the end: accuracies and gaps to training without radio."""

import math
from collections.abc import Iterable, Mapping, Sequence

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.means import interval
from airfeel.lab.report.measures import final

WITHOUT_RADIO = ("error-free", "error_free")  # labels of the curve that others are held against
MOST_COLUMNS = 5
Table = list[list[str]]


def finals(line: Line) -> dict[int, float]:
    """Return the final accuracy, in percent, of every seed that has one."""
    found = {seed: final(line, seed) for seed in line.runs}
    return {seed: value for seed, value in found.items() if math.isfinite(value)}


def accuracy_table(collected: Collected) -> Table:
    """Return final accuracies in percent: one row per curve, one column per variant; empty without any."""
    return _grid({(line.curve, line.variant): finals(line) for line in collected.lines}, "accuracy (%)")


def gap_table(collected: Collected) -> Table:
    """Return by how many points each curve stays behind training without radio, seed by seed."""
    return _grid(gaps(collected), "gap (points)")


def mean_gap_table(collected: Collected) -> Table:
    """Return per curve the mean gap over the variants all curves share; empty where there are not several."""
    found = gaps(collected)
    curves = list(dict.fromkeys(curve for curve, _ in found))
    variants = [v for v in dict.fromkeys(v for _, v in found) if all((c, v) in found for c in curves)]
    if len(variants) < 2:
        return []
    rows = [["curve", f"mean gap over {len(variants)} variants (points)", "smallest", "largest"]]
    for curve in curves:
        by_variant = [found[curve, variant] for variant in variants]
        seeds = [seed for seed in by_variant[0] if all(seed in gap for gap in by_variant)]
        if seeds:
            means = [_mean(gap.values()) for gap in by_variant]
            over_seeds = [_mean(gap[seed] for gap in by_variant) for seed in seeds]
            rows.append([curve, cell(over_seeds), f"{min(means):.2f}", f"{max(means):.2f}"])
    return rows if len(rows) > 1 else []


def cell(values: Sequence[float]) -> str:
    """Return the mean and half the width of its 95 % interval, which a single value does not have."""
    return interval(0, values).words("z.2f")


def gaps(collected: Collected) -> dict[tuple[str, str], dict[int, float]]:
    """Return by curve and variant the gap of every seed to the curve without radio, where both exist."""
    ideal = {line.variant: finals(line) for line in collected.lines if line.curve in WITHOUT_RADIO}
    found = {}
    for line in collected.lines:
        best = ideal.get(line.variant, {})
        gap = {seed: best[seed] - value for seed, value in finals(line).items() if seed in best}
        if gap and line.curve not in WITHOUT_RADIO:
            found[line.curve, line.variant] = gap
    return found


def _grid(values: Mapping[tuple[str, str], Mapping[int, float]], unit: str) -> Table:
    """Return one row per curve; many variants become rows and the curves columns."""
    if not any(values.values()):
        return []
    curves, variants = (list(dict.fromkeys(key[place] for key in values)) for place in (0, 1))
    rows = [["curve", *(variant or unit for variant in variants)]]
    for curve in curves:
        found = [values.get((curve, variant)) for variant in variants]
        rows.append([curve, *(cell(list(value.values())) if value else "-" for value in found)])
    if len(variants) > MOST_COLUMNS:
        rows[0][0] = "variant"
        return [list(column) for column in zip(*rows, strict=True)]
    return rows


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
