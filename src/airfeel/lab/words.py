"""What runs say to somebody who has never heard of them: sentences and a short table; tables as text."""

import re
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from airfeel._checks import listed, visible
from airfeel.lab.exhibits.finals import cell
from airfeel.lab.store import FinishedRun
from airfeel.lab.table import BySeed, Line, RunSelection
from airfeel.registry import DATASETS

_NUMBER = re.compile(r"[-−+±]?[\d.]|-?$")


def headline(shown: RunSelection) -> str:
    """Return the experiment's title, or what single runs are, and what accuracy came out; empty without any.

    Where there are several variants, lost accuracies are means over those that a curve and training without
    radio share; reached ones are told from the worst variant to the best.
    """
    if not shown.is_training or not any(shown.ends("final").values()):
        return ""
    title = shown.experiment.title if shown.experiment else ""
    return f"{title}: {_outcomes(shown)}" if title else _outcomes(shown).capitalize()


def opening(shown: RunSelection) -> str:
    """Return who learned what over which channel, and how many symbols that saved."""
    if not shown.is_training or not any(shown.ends("final").values()):
        return ""
    runs = shown.every
    settings = [run.settings for run in runs]
    way = "over one noisy radio channel" if any(map(_uses, runs)) else "without any radio"
    ratios = {_ratio(run) for run in runs}
    times = [f"{1 / ratio:.3g}" for ratio in sorted(ratios, reverse=True) if 0 < ratio < 1]
    span = " to ".join(dict.fromkeys(times[:1] + times[-1:]))
    saved = f", sending {span} times fewer symbols than the model has weights" if times else ""
    tasks = []
    for name in dict.fromkeys(str(of.get("dataset")) for of in settings):
        built_in = DATASETS.is_built_in(name)  # whose part begins with what it is about
        tasks.append(
            f"{DATASETS.get(name).summary.partition(',')[0]} ({name})" if built_in else f"from {name}"
        )
    devices = _numbers(settings, "devices.count")
    return f"{devices} devices together learned {listed(tasks)} {way}{saved}."


def trained(shown: RunSelection) -> str:
    """Return in plain sentences what was trained, and how a round goes; empty where runs do not say."""
    runs = shown.every
    settings = [run.settings for run in runs]
    if not shown.is_training or not any("devices.count" in of for of in settings):
        return ""
    model, data = (listed(_values(settings, key)) for key in ("model.kind", "dataset"))
    weights = {round(_uses(run) / ratio) for run in runs if (ratio := _ratio(run))}
    size = f" of {weights.pop():,} weights" if len(weights) == 1 else ""
    steps = _numbers(settings, "devices.local_steps")
    learning = (
        f"{_numbers(settings, 'devices.count')} devices train a model ({model or 'softmax'}){size} on {data} "
        f"for {_numbers(settings, 'rounds')} rounds; nobody's data leave their device. In a round every "
        f"device makes {steps} gradient step{'' if steps == '1' else 's'} on its own "
        f"{_numbers(settings, 'devices.samples')} samples and sends the change"
    )
    if not any(map(_uses, runs)):
        return f"{learning}. The server gets the exact sum, changes the model and tells everybody."
    return (
        f"{learning}, all at the same time on the same channel: the air adds the signals up, and noise. The "
        "server recovers the sum, changes the model and tells everybody. With fewer symbols than weights the "
        "sum is not determined; schemes differ in how they find it all the same."
    )


def short_table(shown: RunSelection) -> list[list[str]]:
    """Return accuracy, what was lost, symbols of a round and seeds, one row per curve and variant."""
    lost = shown.gaps()
    rows = [["scheme", "accuracy (%)", "lost (points)", "symbols per round", "seeds"]]
    for line, values in shown.ends("final").items():
        if values:
            uses = _uses(next(iter(shown.lines[line].values())))
            found = [cell(values.values()), cell(lost[line].values()) if line in lost else "-"]
            name = ", ".join(filter(None, line if len(shown.variants) > 1 else line[:1]))
            rows.append([name, *found, f"{uses:,.0f}" if uses else "-", str(len(values))])
    return rows


def word_columns(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Return for every column whether it holds words; the first names the row and counts as such.

    >>> word_columns([["curve", "accuracy", "verdict"], ["A-DSGD", "77.9 ± 0.2", "yes"], ["x", "-", ""]])
    [True, False, True]
    """
    columns = zip(*rows[1:], strict=True)
    found = [place == 0 or not all(map(_NUMBER.match, column)) for place, column in enumerate(columns)]
    return found or [True] * len(rows[0])


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in aligned columns, each row one line whatever its cells hold."""
    rows = [[visible(one) for one in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = word_columns(rows)
    lines = (
        [
            one.ljust(width) if is_left else one.rjust(width)
            for one, width, is_left in zip(row, widths, left, strict=True)
        ]
        for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)


def _outcomes(shown: RunSelection) -> str:
    """Return in words what accuracy was lost, or, with nothing to compare to, what was reached."""
    finals = shown.ends("final")
    lost, variants = _by_curve(shown.gaps()), len(shown.variants)
    if lost:
        over = f", means over {variants} settings" if variants > 1 else ""
        ideal = fmean(v for line, of in finals.items() if line[0] == shown.ideal for v in of.values())
        ranked = sorted(lost, key=lost.__getitem__)
        first, *rest = _chosen(shown, ranked)
        said = [f"{_points(lost[first], 'no')} points of accuracy lost with {first}"]
        said += [f"{_points(lost[curve], 'none')} with {curve}" for curve in rest]
        return f"{listed(said)} (a perfect channel reaches {ideal:.1f} %{over})."
    reached = _by_curve(finals)
    ranked = sorted(reached, key=reached.__getitem__, reverse=True)
    said = []
    for curve in _chosen(shown, ranked):
        means = sorted(fmean(of.values()) for line, of in finals.items() if line[0] == curve and of)
        span = " to ".join(dict.fromkeys(f"{value:.1f}" for value in (means[0], means[-1])))
        said.append(f"{span} % with {curve}")
    return f"test accuracy {listed(said)}" + (f" over {variants} settings." if variants > 1 else ".")


def _points(lost: float, nothing: str) -> str:
    """Return how much was lost; whoever is ahead, or level to the last digit shown, has lost nothing."""
    return f"{lost:.1f}" if lost >= 0.05 else nothing


def _chosen(shown: RunSelection, ranked: Sequence[str]) -> list[str]:
    """Return the few of ranked curves worth a headline: subjects, or the best, and the worst."""
    if shown.experiment is None:
        return list(ranked[:3])
    chosen = [curve for curve in shown.subjects if curve in ranked]
    return list(dict.fromkeys([*(chosen or ranked[:1]), ranked[-1]]))


def _numbers(settings: Iterable[Mapping[str, Any]], key: str) -> str:
    """Return the values of a key over all runs, from the smallest to the largest."""
    found = sorted({value for of in settings if isinstance(value := of.get(key), int)})
    return " to ".join(map(str, dict.fromkeys(found[:1] + found[-1:]))) or "Some"


def _values(settings: Iterable[Mapping[str, Any]], key: str) -> list[str]:
    return list(dict.fromkeys(str(value) for of in settings if (value := of.get(key)) is not None))


def _uses(run: FinishedRun) -> float:
    """Return how often a round of a run uses the channel."""
    last = run.rows[-1]
    return float(last.get("symbols") or 0) / int(last["round"])


def _ratio(run: FinishedRun) -> float:
    """Return s/N of a run that uses the channel, else 0."""
    ratio = run.settings.get("uplink.ratio")
    return float(ratio) if _uses(run) and isinstance(ratio, int | float) else 0.0


def _by_curve(values: Mapping[Line, BySeed]) -> dict[str, float]:
    """Return the mean over variants and seeds of every curve that has any."""
    found: dict[str, list[float]] = {}
    for (curve, _), of in values.items():
        found.setdefault(curve, []).extend(of.values())
    return {curve: fmean(of) for curve, of in found.items() if of}
