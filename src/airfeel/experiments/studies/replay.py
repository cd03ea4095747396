"""Send the recorded aggregates of a run over another link, and see what its receiver makes of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel.experiments.studies.promise import Margin, Promise
from airfeel.receivers.base import Reception
from airfeel.schemes.compressed import Compressed, shared_seed
from airfeel.streams import stream
from airfeel.theory.planner import LinkBudget
from airfeel.theory.prediction import late
from airfeel.units import decibel

Array = NDArray[np.floating[Any]]

# How much worse or better than promised a training at the link may be. On MNIST it was up to 0.4 dB worse at
# a worse link than the run's, and up to 0.5 dB better at a better one, which makes training calmer.
WORSE_DB, BETTER_DB = 0.5, 0.7


@dataclass(frozen=True, slots=True, eq=False)
class RecordedUplink:
    """What went over the ``link`` of a run: aggregates (rounds, N), and the noise sigma^2 that each met."""

    rounds: Sequence[int]
    aggregates: Array
    noise_var: Array
    link: LinkBudget
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class ByReplay:
    """The real receiver on a run's own aggregates, at the noise that they would have over another link.

    Nothing is assumed about the gradients, and the receiver learns its chains anew for every link. What
    remains is that training itself changes a little with the errors of its link; the margin is what the run
    measured above its replay at its own link.
    """

    sent: RecordedUplink
    scheme: Compressed
    margin: Margin = field(default_factory=lambda: Margin(0.0, 0.0))

    @property
    def basis(self) -> str:
        """Say on what the forecast rests."""
        return "by a replay of the run's recorded aggregates"

    def steady_db(self, link: LinkBudget) -> float:
        """Return the NMSE in steady state, in dB."""
        return self._steady(self.replay(link)[0])

    def promise(self, link: LinkBudget) -> Promise:
        """Return the replay with the margin."""
        nmse, believed = self.replay(link)
        steady = self._steady(nmse)
        return Promise(
            rounds=list(self.sent.rounds),
            nmse_db=decibel(nmse) + self.margin.db,
            believed_db=decibel(believed),
            steady_db=steady,
            best_db=steady - BETTER_DB,
            worst_db=steady + WORSE_DB,
            margin=f"Margin {round(self.margin.db, 1) + 0.0:+.1f} dB over a replay of the run's recorded "
            f"aggregates (spread {self.margin.spread:.1f} dB from round to round), measured at "
            f"the run's own link; training itself changes with the link, so expect at most "
            f"{WORSE_DB} dB more and {BETTER_DB} dB less.",
        )

    def for_map(self) -> "ByReplay":
        """Return this: a replay takes as long as any."""
        return self

    def replay(self, link: LinkBudget) -> tuple[Array, Array]:
        """Return NMSE per round, actual and believed by the receiver."""
        receiver = self.scheme.receiver()
        state = receiver.init(link.size)
        found = []
        for x, reception in self._receptions(link):
            estimate, state = receiver.receive(state, reception)
            power = float(np.sum(x**2))
            believed = np.nan if estimate.variance is None else float(np.sum(estimate.variance, dtype=float))
            found.append((float(np.sum((estimate.mean - x) ** 2)) / power, believed / power))
        actual, believed_nmse = np.array(found).T
        return actual, believed_nmse

    def _receptions(self, link: LinkBudget) -> Iterator[tuple[Array, Reception]]:
        """Yield x and what is heard of it; rows and signs are those that training at this link would draw."""
        sent = self.sent
        scale = sent.link.snr / link.snr  # of sigma^2 relative to the signal in a measurement
        for round, x, noise_var in zip(sent.rounds, sent.aggregates, sent.noise_var, strict=True):
            operator = self.scheme.operator(link.size, link.rows, shared_seed(sent.seed, round))
            noise = stream(sent.seed, "replay noise", round).standard_normal(link.rows)
            here = float(noise_var * scale)
            yield x, Reception(operator @ x + np.sqrt(here) * noise, operator, here)

    def _steady(self, nmse: Array) -> float:
        return decibel(float(np.mean(late(nmse)))) + self.margin.db


def learn(sent: RecordedUplink, scheme: Compressed, measured_db: Array) -> ByReplay:
    """Return the replay with the margin that the run's own link tells."""
    bare = ByReplay(sent, scheme)
    return ByReplay(sent, scheme, Margin.learn(measured_db, bare.replay(sent.link)[0]))
