"""Air that changes from round to round, as the planner sees it: drawn from the channel itself."""

from collections.abc import Iterator

import numpy as np

from airfeel import _checks
from airfeel.radio.link import Channel, Link
from airfeel.theory.planner import LinkDraws

DRAWS = 8  # of all rounds; the chains that are sampled are shared out among them
SILENT = 1000  # rounds in a row in which nobody can send, after which there is no link


def draw_air(
    channel: Channel, devices: int, symbols: int, rounds: int, seed: int = 0, draws: int = DRAWS
) -> LinkDraws:
    """Draw what a channel does to equal devices with equal gradients under the policy "equal".

    The device with the largest cost spends P and all are scaled as it is; who cannot send is missing in the
    sum. A round in which nobody can send is none for the receiver, and is left out.
    """
    found = np.empty((3, draws, rounds))
    for draw in range(draws):
        heard = _heard(channel, devices, symbols, seed + draw)
        for t in range(rounds):
            found[:, draw, t] = next(heard)
    return LinkDraws(*found)


def _heard(channel: Channel, devices: int, symbols: int, seed: int) -> Iterator[tuple[float, float, float]]:
    """Yield noise, share that was sent and factor that arrives, of rounds in which anybody can send."""
    silent, round = 0, 0
    while silent < SILENT:
        round += 1
        link = channel.link(devices, symbols, seed, round)
        _require_flat(link)
        if link.active.any():
            silent = 0
            cost = float(link.cost[link.active].max())
            yield cost, float(link.active.mean()), float(link.gain[link.active].real.sum()) / devices
        else:
            silent += 1
    raise ValueError(f"no device could send in {SILENT} rounds: there is no link to predict")


def _require_flat(link: Link) -> None:
    """Refuse links that differ from symbol to symbol."""
    parts = link.active, link.cost, link.gain
    if any(np.ndim(part) > 1 for part in parts) or np.any(np.imag(link.gain)):
        rule = "must have one value per device: links that differ from symbol to symbol are not predicted"
        raise _checks.reject("link", f"shape {np.shape(link.cost)}", rule)
