"""Gradients that somebody recorded, as an inspection takes them: a table of rounds and coefficients."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel._files import map_array
from airfeel.config import load_config
from airfeel.lab.store import RunError
from airfeel.lab.studies.recorded import FEWEST, Recorded
from airfeel.schemes.sparsification import top_k
from airfeel.units import count, from_decibel

Array = NDArray[np.floating[Any]]


def read_gradients(path: Path, ratio: float, snr_db: float, sparsity: float | None = None) -> Recorded:
    """Read gradients (T, N) from an ``.npy`` file, to be sent in ``ratio`` N symbols at this receive SNR.

    With a ``sparsity`` every row keeps its so many largest entries with error feedback, as a device does;
    without, gradients are taken as they are.
    """
    _checks.real("--snr-db", snr_db, at_least=-100, at_most=200)
    settings: dict[str, Any] = {"uplink.ratio": float(ratio)}
    if sparsity is not None:
        settings["uplink.sparsity"] = float(sparsity)
    config = load_config(None, settings)
    try:
        rows = map_array(path)
    except OSError as error:
        raise RunError(f"{path}: cannot be read ({error.strerror})") from None
    if rows.ndim != 2 or rows.dtype.kind not in "fiu" or len(rows) < FEWEST:
        rule = f"must be real numbers of at least {FEWEST} rounds (T, N), one row each"
        raise RunError(f"{path} holds {rows.dtype} of shape {rows.shape}: {rule}")
    gradients: Array = np.array(rows, dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(gradients).all(axis=1) | ~gradients.any(axis=1))
    if wrong.size:
        raise RunError(f"{path}: row {wrong[0]} must be finite, and not zero everywhere")
    if sparsity is not None:
        gradients = _sparse(gradients, count(sparsity, gradients.shape[1]))
    return Recorded(config, 1, gradients, np.full(len(gradients), 1 / from_decibel(snr_db)))


def _sparse(gradients: Array, keep: int) -> Array:
    """Return what a device with these gradients sends, with error feedback (8)-(10)."""
    memory, sent = np.zeros_like(gradients[:1]), np.empty_like(gradients)
    for row, gradient in zip(sent, gradients, strict=True):
        kept, memory = top_k(memory + gradient, keep)
        row[:] = kept[0]
    return sent
