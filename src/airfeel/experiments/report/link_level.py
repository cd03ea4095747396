"""What a run's P amounts to on its link: the SNR of a device per symbol, in dB."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from airfeel.experiments.campaigns.collect import Collected
from airfeel.experiments.runs.reading import FinishedRun
from airfeel.radio.units import RadioUnits
from airfeel.units import decibel

TITLE = "SNR per symbol (dB)"
_RADIO = "radio."


def snr_db(run: FinishedRun) -> float | None:
    """Return P / (s sigma_e^2), or what the radio in units says; None where the run tells neither."""
    settings, symbols = run.settings, _symbols(run.rows)
    if symbols <= 0:  # nothing went through the air
        return None
    radio = {key.removeprefix(_RADIO): value for key, value in settings.items() if key.startswith(_RADIO)}
    if "path_loss_db" in radio:
        try:
            return RadioUnits(**radio).snr_db
        except (ValueError, TypeError):  # a file may hold anything
            return None
    power, noise = _positive(settings.get("uplink.power")), _positive(settings.get("channel.noise_var", 1.0))
    return decibel(power / (symbols * noise)) if power and noise else None


def links_table(collected: Collected) -> list[list[str]]:
    """Return P and SNR of every curve and variant; nothing where no run tells."""
    rows = []
    for line in collected.lines:
        run = next(iter(line.runs.values()))
        found = snr_db(run)
        if found is not None:
            power = run.settings.get("uplink.power", "")
            rows.append([line.curve, line.variant, str(power), f"{found:.1f}"])
    return [["curve", "variant", "uplink.power", TITLE], *rows] if rows else []


def _symbols(rows: Sequence[Any]) -> float:
    """Return how many symbols a round takes in which anything is sent."""
    counts = [0.0, *(float(row.get("symbols") or 0) for row in rows)]
    return max(after - before for before, after in pairwise(counts))


def _positive(value: Any) -> float:
    """Return a number, 0 for what is none: a file may hold anything."""
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else 0.0
