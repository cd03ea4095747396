"""Data drawn from the paper's own signal model (17)-(19), and measures of how well it was recovered."""

from dataclasses import dataclass

import numpy as np

import airfeel as af
from airfeel.streams import stream


@dataclass(frozen=True)
class Model:
    """A stationary signal model and the link through which it is seen; noise relative to the signal."""

    size: int = 7850
    ratio: float = 0.1
    activity: float = 0.05
    p01: float = 0.01
    beta: float = 0.01
    variance: float = 1.0
    snr_db: float = 20.0

    @property
    def rows(self):
        return round(self.ratio * self.size)

    @property
    def noise_var(self):
        """Signal power per measurement is lambda gamma, as the rows of A have unit norm."""
        return self.activity * self.variance * 10 ** (-self.snr_db / 10)

    def known(self, **options):
        """The receiver that knows the parameters."""
        return af.TSAGA(
            activity=self.activity, p01=self.p01, beta=self.beta, variance=self.variance, **options
        )


def sample_chains(model, rounds, rng, count=None):
    """Return supports and amplitudes, each (rounds, count), drawn from the stationary chains."""
    count = model.size if count is None else count
    p10 = model.activity * model.p01 / (1 - model.activity)
    innovation_var = (2 - model.beta) * model.variance / model.beta
    support = np.empty((rounds, count), bool)
    amplitude = np.empty((rounds, count))
    support[0] = rng.random(count) < model.activity
    amplitude[0] = np.sqrt(model.variance) * rng.standard_normal(count)
    for t in range(1, rounds):
        u = rng.random(count)
        support[t] = np.where(support[t - 1], u >= model.p01, u < p10)
        omega = np.sqrt(innovation_var) * rng.standard_normal(count)
        amplitude[t] = (1 - model.beta) * amplitude[t - 1] + model.beta * omega
    return support, amplitude


def receptions(model, signals, seed, **options):
    """Return one reception per round: new rows and new noise each time."""
    heard = []
    for t, x in enumerate(signals):
        operator = af.PartialDCT(model.size, model.rows, seed=1000 * seed + t, **options)
        noise = np.sqrt(model.noise_var) * stream(seed, "test noise", t).standard_normal(model.rows)
        heard.append(af.Reception(operator @ x + noise, operator, model.noise_var))
    return heard


@dataclass(frozen=True)
class Trace:
    """A receiver's way through a stream of receptions."""

    error: np.ndarray
    power: np.ndarray
    variance: np.ndarray
    infos: list

    @property
    def nmse_db(self):
        """NMSE of every round in dB."""
        return 10 * np.log10(self.error / self.power)


def estimates(receiver, heard):
    """Return what a receiver finds, reception after reception."""
    state, found = receiver.init(heard[0].operator.shape[1]), []
    for reception in heard:
        estimate, state = receiver.receive(state, reception)
        found.append(estimate)
    return found


def run(receiver, heard, signals):
    """Feed receptions one by one; keep squared error, signal power and claimed variance of every round."""
    found = estimates(receiver, heard)
    error = [np.sum((estimate.mean - x) ** 2) for estimate, x in zip(found, signals, strict=True)]
    variance = [estimate.variance.sum() for estimate in found]
    power = [np.sum(x**2) for x in signals]
    return Trace(np.array(error), np.array(power), np.array(variance), [estimate.info for estimate in found])


def stream_of(model, seed, rounds=60, **options):
    """Return receptions, signals, supports and amplitudes of one seed."""
    support, amplitude = sample_chains(model, rounds, stream(seed, "test model"))
    signals = support * amplitude
    return receptions(model, signals, seed, **options), signals, support, amplitude


def realised(support, amplitude, first, last):
    """Return what lambda, p01, beta and gamma were in rounds ``first`` to ``last`` (counted from 1).

    beta comes from the steps of coefficients active in two rounds: E[(r_t - r_t-1)^2] = 2 beta gamma.
    """
    s, r = support[first - 1 : last], amplitude[first - 1 : last]
    both = s[1:] & s[:-1]
    gamma = np.mean(r[s] ** 2)
    return {
        "activity": s.mean(),
        "p01": np.sum(s[:-1] & ~s[1:]) / np.sum(s[:-1]),
        "beta": np.mean((r[1:] - r[:-1])[both] ** 2) / (2 * gamma),
        "variance": gamma,
    }
