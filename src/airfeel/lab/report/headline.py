"""What an experiment says to somebody who has never heard of it: one sentence and a short table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airfeel.lab.collect import Collected, Line
from airfeel.lab.report.finals import WITHOUT_RADIO, cell, finals, gaps
from airfeel.lab.store import FinishedRun

Table = list[list[str]]

TASKS = {
    "mnist": "to read handwritten digits (MNIST)",
    "fashion-mnist": "to tell clothes apart (Fashion-MNIST)",
    "cifar-10": "to tell things in photographs apart (CIFAR-10)",
}
NAMES = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar-10": "CIFAR-10"}
MODELS = {
    "softmax": "softmax regression",
    "mlp": "a network with one hidden layer",
    "cnn": "a small convolutional network",
}
_NO_MEMORY = "turbo_cs"
_IN_WORDS = {_NO_MEMORY: "without memory of earlier rounds", "scheduled": "with our own scheme"}


def headline(collected: Collected) -> str:
    """Return what was trained, how many symbols that saved, and what accuracy it cost; empty without any.

    Where there are several variants, lost accuracies are means over those that a curve and training without
    radio share; reached ones are told from the worst variant to the best.
    """
    if collected.experiment.kind != "training" or not any(map(finals, collected.lines)):
        return ""
    return f"{_opening(_runs(collected))}: {_outcomes(collected)}."


def loose_headline(groups: Sequence[tuple[str, Sequence[FinishedRun]]]) -> str:
    """Return what single runs trained, and the test accuracy of the best few."""
    ends = {label: _last(runs) for label, runs in groups}
    best = sorted((label for label in ends if ends[label] is not None), key=lambda label: -(ends[label] or 0))
    said = [f"{100 * (ends[label] or 0):.1f} % with {label}" for label in best[:3]]
    shown = [run for label, runs in groups if label in best for run in runs]
    return f"{_opening(shown)}: test accuracy {_listed(said)}." if said else ""


def trained(collected: Collected) -> str:
    """Return in plain sentences what an experiment trained, and how a round goes."""
    return told(_runs(collected)) if collected.experiment.kind == "training" else ""


def told(runs: Sequence[FinishedRun]) -> str:
    """Return in plain sentences what some runs trained, and how a round goes; empty where they do not say."""
    settings = [run.settings for run in runs]
    if not any("devices.count" in of for of in settings):
        return ""
    model = _words(settings, "model.kind", MODELS) or "a model"
    weights = {round(_uses(run) / ratio) for run in runs if (ratio := _ratio(run))}
    size = f" of {weights.pop():,} weights" if len(weights) == 1 else ""
    steps, data = _numbers(settings, "devices.local_steps"), _words(settings, "dataset", NAMES)
    learning = (
        f"{_numbers(settings, 'devices.count')} devices train {model}{size} on {data} for "
        f"{_numbers(settings, 'rounds')} rounds; nobody's data leave their device. In a round every device "
        f"makes {steps} gradient step{'' if steps == '1' else 's'} on its own "
        f"{_numbers(settings, 'devices.samples')} samples and sends the change"
    )
    if not any(map(_uses, runs)):
        return f"{learning}. The server gets the exact sum, changes the model and tells everybody."
    return (
        f"{learning}, all at the same time on the same channel: the air adds the signals up, and noise. The "
        "server recovers the sum, changes the model and tells everybody. With fewer symbols than weights the "
        "sum is not determined; schemes differ in how they find it all the same."
    )


def short_table(collected: Collected) -> Table:
    """Return accuracy, what was lost, symbols of a round and seeds, one row per curve and variant."""
    lost, several = gaps(collected), len({line.variant for line in collected.lines}) > 1
    rows = [["scheme", "accuracy (%)", "lost (points)", "symbols per round", "seeds"]]
    for line in collected.lines:
        values, gap = finals(line), lost.get((line.curve, line.variant))
        if values:
            found = [cell(list(values.values())), cell(list(gap.values())) if gap else "-"]
            uses = symbols(line)
            found += [f"{uses:,.0f}" if uses else "-", str(len(values))]
            rows.append([line.label if several else line.curve, *found])
    return rows


def symbols(line: Line) -> float:
    """Return how often a round uses the channel."""
    return _uses(next(iter(line.runs.values())))


def _outcomes(collected: Collected) -> str:
    """Return in words what accuracy was lost, or, with nothing to compare to, what was reached."""
    best = {line.variant: finals(line) for line in collected.lines if line.curve in WITHOUT_RADIO}
    lost = _by_curve({line: gaps(collected).get((line.curve, line.variant), {}) for line in collected.lines})
    variants = len({line.variant for line in collected.lines})
    if lost:
        over = f", means over {variants} settings" if variants > 1 else ""
        ideal = _mean(value for values in best.values() for value in values.values())
        first, *rest = ((f"{lost[curve]:z.1f}", how) for curve, how in _chosen(collected, lost).items())
        said = [" points of accuracy lost ".join(first), *map(" ".join, rest)]
        return f"{_listed(said)} (a perfect channel reaches {ideal:.1f} %{over})"
    reached = _by_curve({line: finals(line) for line in collected.lines})
    said = [f"{_span(collected, curve)} % {how}" for curve, how in _chosen(collected, reached).items()]
    return f"test accuracy {_listed(said)}" + (f" over {variants} settings" if variants > 1 else "")


def _span(collected: Collected, curve: str) -> str:
    """Return the accuracy of a curve, from its worst variant to its best."""
    ends = [finals(line) for line in collected.lines if line.curve == curve]
    means = [_mean(found.values()) for found in ends if found]
    return " to ".join(dict.fromkeys(f"{value:.1f}" for value in (min(means), max(means))))


def _chosen(collected: Collected, values: Mapping[str, float]) -> dict[str, str]:
    """Return the few curves worth a headline, in plain words: subjects and no memory, or the extremes."""
    schemes = {line.curve: next(iter(line.runs.values())).settings["scheme"] for line in collected.lines}
    chosen = [curve for curve in collected.experiment.subjects if curve in values]
    without = [curve for curve in values if schemes[curve] == _NO_MEMORY and curve not in chosen]
    ranked = sorted(values, key=values.__getitem__)
    shown = [*chosen, *without] if chosen else list(dict.fromkeys([ranked[0], ranked[-1]]))
    words = _IN_WORDS if chosen else {}
    return {curve: words.get(schemes[curve], f"with {curve}") for curve in shown}


def _opening(runs: Sequence[FinishedRun]) -> str:
    """Return who learned what over which channel, and how many symbols that saved."""
    settings = [run.settings for run in runs]
    way = "over one noisy radio channel" if any(map(_uses, runs)) else "without any radio"
    who = f"{_numbers(settings, 'devices.count')} devices together learned"
    return f"{who} {_task(settings)} {way}{_savings(runs)}"


def _savings(runs: Sequence[FinishedRun]) -> str:
    """Return how many times fewer symbols than weights were sent."""
    ratios = {run.settings.get("uplink.ratio") for run in runs if _uses(run)}
    found = sorted(1 / ratio for ratio in ratios if isinstance(ratio, int | float) and 0 < ratio < 1)
    if not found:
        return ""
    times = f"{found[0]:.3g}" if len(found) == 1 else f"{found[0]:.3g} to {found[-1]:.3g}"
    return f", sending {times} times fewer symbols than the model has weights"


def _task(settings: Iterable[Mapping[str, Any]]) -> str:
    datasets = list(dict.fromkeys(str(of.get("dataset")) for of in settings))
    return _listed([TASKS.get(name, f"from {name}") for name in datasets])


def _numbers(settings: Iterable[Mapping[str, Any]], key: str) -> str:
    """Return the values of a key over all runs, from the smallest to the largest."""
    found = sorted({value for of in settings if isinstance(value := of.get(key), int)})
    return " to ".join(map(str, dict.fromkeys(found[:1] + found[-1:]))) or "Some"


def _words(settings: Iterable[Mapping[str, Any]], key: str, names: Mapping[str, str]) -> str:
    """Return the values of a key over all runs, by a better name where there is one."""
    found = dict.fromkeys(str(value) for of in settings if (value := of.get(key)) is not None)
    return _listed([names.get(value, value) for value in found])


def _runs(collected: Collected) -> list[FinishedRun]:
    return [run for line in collected.lines for run in line.runs.values()]


def _uses(run: FinishedRun) -> float:
    """Return how often a round of a run uses the channel."""
    last = run.rows[-1]
    return float(last.get("symbols") or 0) / int(last["round"])


def _ratio(run: FinishedRun) -> float:
    """Return s/N of a run that uses the channel, else 0."""
    ratio = run.settings.get("uplink.ratio")
    return float(ratio) if _uses(run) and isinstance(ratio, int | float) else 0.0


def _last(runs: Sequence[FinishedRun]) -> float | None:
    """Return the mean of the last accuracies of some runs."""
    ends = [[row["accuracy"] for row in run.rows if row.get("accuracy") is not None][-1:] for run in runs]
    return _mean(end[0] for end in ends) if all(ends) else None


def _by_curve(values: Mapping[Line, Mapping[int, float]]) -> dict[str, float]:
    """Return the mean over variants and seeds of every curve that has any."""
    found: dict[str, list[float]] = {}
    for line, by_seed in values.items():
        found.setdefault(line.curve, []).extend(by_seed.values())
    return {curve: _mean(of) for curve, of in found.items() if of}


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" and " if len(words) > 1 else "") + words[-1] if words else ""


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
