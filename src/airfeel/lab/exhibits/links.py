"""What a run's P amounts to on its link: the SNR of a device per symbol, in dB."""

import math
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from airfeel.lab.exhibits import EXHIBITS, TextTable
from airfeel.lab.store import FinishedRun, Row
from airfeel.lab.table import Line, RunSelection
from airfeel.radio.cell import Cell
from airfeel.radio.units import RadioUnits
from airfeel.units import decibel

POWER = "uplink.power"
TITLE = "SNR per symbol (dB)"
NOTE = (
    "SNR of a device that spends P in a round, at the path loss to which P belongs; "
    "in a cell also from the faintest to the loudest device, without fading."
)
_RADIO, _CHANNEL = "radio.", "channel."
_MOST = 1_000_000  # devices whose places are drawn again


def snr_db(run: FinishedRun) -> float | None:
    """Return P / (s sigma_e^2), or what the radio in units says; None where the run tells neither."""
    settings, totals = run.settings, [0.0, *(float(total or 0) for total in run.rows.values("symbols"))]
    symbols = max(after - before for before, after in pairwise(totals))  # of a round with anything to send
    if symbols <= 0:  # nothing went through the air
        return None
    if radio := _section(settings, _RADIO):
        try:
            return _radio_snr_db(radio, run.rows[-1])
        except (ValueError, TypeError):  # a file may hold anything
            return None
    power, noise = _positive(settings.get(POWER)), _positive(settings.get("channel.noise_var", 1.0))
    return decibel(power / (symbols * noise)) if power and noise else None


def level(runs: Iterable[FinishedRun]) -> str:
    """Return the SNR of runs that differ in their seed alone, with that of their devices in a cell."""
    every = list(runs)
    found = snr_db(every[0])
    if found is None:
        return ""
    paths = [gain for run in every for gain in _paths_db(run.settings)]
    return f"{found:.1f}" + (
        f" (devices {found + min(paths):.1f} to {found + max(paths):.1f})" if paths else ""
    )


def told(lines: Iterable[Line], shown: RunSelection) -> str:
    """Return the SNR of some curves in words, empty where none of them tells: SNR -5.0 to -2.0 dB."""
    found = [snr_db(next(iter(shown.lines[line].values()))) for line in lines]
    words = list(dict.fromkeys(f"{value:.1f}" for value in sorted(v for v in found if v is not None)))
    return f"SNR {' to '.join(dict.fromkeys([words[0], words[-1]]))} dB" if words else ""


def with_level(name: str, lines: Iterable[Line], shown: RunSelection) -> str:
    """Return the name of a plot or a variant with the SNR of its curves."""
    words = told(lines, shown)
    return f"{name} ({words})" if name and words else name or words


@EXHIBITS.register("links", place=60)
def links(shown: RunSelection) -> Iterator[TextTable]:
    """P and SNR of every curve and variant, where runs tell."""
    if shown.experiment is not None:
        rows = [
            [curve, variant, str(next(iter(runs.values())).settings.get(POWER, "")), found]
            for (curve, variant), runs in shown.lines.items()
            if (found := level(runs.values()))
        ]
        yield TextTable("Links", [["curve", "variant", POWER, TITLE], *rows], NOTE, "settings")


def _section(settings: Any, prefix: str) -> dict[str, Any]:
    return {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}


def _radio_snr_db(radio: dict[str, Any], last: Row) -> float | None:
    """Return the SNR of a radio in units; a path loss that the channel knows shows in what joules were."""
    if "path_loss_db" in radio:
        return RadioUnits(**radio).snr_db
    units = RadioUnits(**radio, path_loss_db=0.0)
    energy, joules = (_positive(last.get(key)) for key in ("energy", "joules"))
    return units.snr_db - decibel(joules / units.joules(energy)) if energy and joules else None


def _paths_db(settings: Any) -> list[float]:
    """Return by how much the devices of a cell are above the path loss to which P belongs; else nothing."""
    devices, seed = settings.get("devices.count"), settings.get("seed")
    if settings.get("channel.kind") != "cell" or not (
        type(devices) is type(seed) is int and devices <= _MOST
    ):
        return []
    options = {key: value for key, value in _section(settings, _CHANNEL).items() if key != "kind"}
    try:
        cell = Cell(**options)
        return [float(gain) for gain in decibel(cell.path_gains(devices, seed) / cell.reference_gain)]
    except (ValueError, TypeError, OverflowError):  # a file may hold anything
        return []


def _positive(value: Any) -> float:
    """Return a number, 0 for what is none: a file may hold anything."""
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else 0.0
