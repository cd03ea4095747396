"""TSA-GA: turbo decoding with a prior that is carried from round to round, and chains learned on the way."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.beliefs import temporal
from airfeel.beliefs.chains import Amplitude, ChainParams, numbers, side_by_side, stationary
from airfeel.beliefs.spike_slab import SpikeSlab, log_odds, posterior
from airfeel.beliefs.stacking import stack, unstack
from airfeel.beliefs.temporal import Belief, Evidence
from airfeel.receivers import em, scale
from airfeel.receivers.base import Estimate, Info, Reception, require_size, working_dtype
from airfeel.receivers.batch import Summary, decode_batch, in_groups
from airfeel.receivers.scale import Scaled

Array = NDArray[Any]

CLOSED_TOGETHER = 1 << 15  # coefficients; closing a round holds more arrays than decoding it


@dataclass(frozen=True, slots=True, eq=False)
class TSAGAState:
    """What TSA-GA knows between two rounds.

    All amplitudes are in units of ``scale``, a power of two near the level of the received signal; it is 0
    as long as nothing was received. ``chain`` holds the parameters for the next round, ``belief`` what is
    believed before it, ``window`` the evidence of the last rounds, newest last.
    """

    size: int
    round: int = 0
    scale: float = 0.0
    chain: ChainParams | None = None
    belief: Belief | None = None
    window: tuple[Evidence, ...] = ()

    def scaled(self, unit: float, dtype: Any) -> "TSAGAState":
        """Return the state in units of ``unit`` and another precision."""
        if self.chain is None or self.belief is None:
            return self
        factor = self.scale / unit
        if factor == 1 and self.belief.prior.mean.dtype == dtype:
            return self
        return replace(
            self,
            scale=unit,
            chain=self.chain.scaled(factor),
            belief=self.belief.scaled(factor, dtype),
            window=tuple(evidence.scaled(factor, dtype) for evidence in self.window),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Open:
    """A round about to be decoded: the reception and the belief in common units."""

    reception: Reception
    state: TSAGAState
    chain: ChainParams
    belief: Belief
    heard: Scaled
    restarted: bool


@dataclass(frozen=True, slots=True)
class TSAGA:
    """The receiver of the paper: Algorithm 1 with the real-time learning of Algorithm 2.

    Parameters
    ----------
    activity, p01, beta
        Initial parameters of the chains: lambda (the paper takes k/N), P(1 -> 0), and the amplitude's
        forgetting.
    learn
        Learn the parameters by EM from round ``learn_from`` on, over the last ``window`` rounds.
    support_chain, amplitude_chain
        Switch one chain off for the paper's ablations; without both, every round is an independent Turbo-CS.
    max_iterations, tolerance
        Stop the turbo iteration after so many rounds, or when the estimate moves less than this share of
        its norm.
    variance
        Initial gamma; estimated from the first reception when not given.
    amplitude_message
        How the mixture that describes an amplitude after a round becomes Gaussian: ``"joint"`` keeps active
        and inactive coefficients apart, ``"moments"`` matches mean and variance, ``"expansion"`` is the
        paper's (34)-(37).
    precision
        ``"float32"`` or ``"float64"`` for the work inside; None follows the observation.
    doubt
        Doubt a prior that a reception contradicts. The paper does not; then chains that move many times as
        fast as the initial parameters say are lost for good.

    Examples
    --------
    >>> import numpy as np, airfeel as af
    >>> x = np.zeros(1000); x[::50] = 1.0
    >>> operator = af.PartialDCT(size=1000, rows=300, seed=1)
    >>> receiver = af.TSAGA(activity=0.02)
    >>> reception = af.Reception(operator @ x, operator, noise_var=1e-6)
    >>> estimate, state = receiver.receive(receiver.init(1000), reception)
    >>> bool(np.abs(estimate.mean - x).max() < 0.01)
    True
    """

    activity: float
    p01: float = 0.005
    beta: float = 0.005
    learn: bool = True
    support_chain: bool = True
    amplitude_chain: bool = True
    max_iterations: int = 25
    variance: float | None = None
    amplitude_message: str = "joint"
    tolerance: float = 1e-2
    window: int = 5
    learn_from: int = 10
    precision: str | None = None
    doubt: bool = True

    def __post_init__(self) -> None:
        """Refuse parameters outside their range."""
        ChainParams(self.activity, self.p01, self.beta, 1.0 if self.variance is None else self.variance)
        _checks.integer("max_iterations", self.max_iterations, at_least=1)
        _checks.real("tolerance", self.tolerance, at_least=0)
        _checks.integer("window", self.window, at_least=2)
        _checks.integer("learn_from", self.learn_from, at_least=1)
        _checks.choice("amplitude_message", self.amplitude_message, temporal.MESSAGES)
        if self.precision is not None:
            _checks.choice("precision", self.precision, ("float32", "float64"))

    def init(self, size: int) -> TSAGAState:
        """Return the state before the first round."""
        return TSAGAState(_checks.integer("size", size, at_least=1))

    def receive(self, state: TSAGAState, reception: Reception) -> tuple[Estimate, TSAGAState]:
        """Recover one round from its reception and everything received before.

        The call is pure: the same state and reception give the same bytes, and neither is changed.
        """
        return self._receive([state], [reception])[0]

    def receive_batch(
        self, states: Sequence[TSAGAState], receptions: Sequence[Reception]
    ) -> list[tuple[Estimate, TSAGAState]]:
        """Recover one round of many independent streams of one size (seeds of a sweep, layers of a model).

        Gives what :meth:`receive` gives for each, bit for bit, in less time.
        """
        return in_groups(self._receive, states, receptions)

    def _receive(
        self, states: Sequence[TSAGAState], receptions: Sequence[Reception]
    ) -> list[tuple[Estimate, TSAGAState]]:
        rounds = [self._open(state, reception) for state, reception in zip(states, receptions, strict=True)]
        heard = [r for r in rounds if r is not None]
        closed = iter(self._close_all(heard, self._decode(heard)))
        return [
            _nothing_heard(state, reception) if r is None else next(closed)
            for r, state, reception in zip(rounds, states, receptions, strict=True)
        ]

    def _decode(self, rounds: Sequence[_Open]) -> list[Summary]:
        if not rounds:
            return []
        return decode_batch(
            [r.belief.prior for r in rounds],
            [r.reception.operator for r in rounds],
            [r.heard.observation for r in rounds],
            [r.heard.noise_var for r in rounds],
            [(r.chain.activity, r.chain.variance) for r in rounds] if self.doubt else None,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
        )

    def _open(self, state: TSAGAState, reception: Reception) -> _Open | None:
        """Bring state and reception to common units; None while nothing was ever received."""
        require_size(state.size, reception)
        dtype = working_dtype(self.precision, reception)
        loudness = scale.level(reception.observation)
        if state.chain is None and loudness == 0 and self.variance is None:
            return None
        unit = scale.follow(state.scale, loudness or math.sqrt(self.activity * (self.variance or 0.0)))
        restarted = _out_of_proportion(state, unit)
        heard = scale.apply(reception, unit, dtype)
        if restarted:
            state = TSAGAState(state.size, state.round)
        state = state.scaled(unit, dtype)
        chain = state.chain or self._initial_chain(heard)
        belief = state.belief or Belief(stationary(chain, state.size, dtype))
        return _Open(reception, replace(state, scale=unit), chain, belief, heard, restarted)

    def _initial_chain(self, heard: Scaled) -> ChainParams:
        """Take gamma from the power received above the noise (Section VII)."""
        if self.variance is not None:
            variance = max(float(scale.prior_width(self.variance, heard.scale)), scale.TINY)
            return ChainParams(self.activity, self.p01, self.beta, variance)
        return ChainParams(self.activity, self.p01, self.beta, heard.amplitude_power(self.activity))

    def _close_all(
        self, rounds: Sequence[_Open], summaries: Sequence[Summary]
    ) -> list[tuple[Estimate, TSAGAState]]:
        """Close rounds that know equally much a few at a time, on common arrays, and others one by one."""
        alike = len(rounds) > 1 and len({self._knowledge(r) for r in rounds}) == 1
        group = max(1, CLOSED_TOGETHER // rounds[0].state.size) if alike else 1
        starts = range(0, len(rounds), group)
        groups = [self._close(rounds[i : i + group], summaries[i : i + group]) for i in starts]
        return [result for results in groups for result in results]

    def _knowledge(self, r: _Open) -> tuple[Any, ...]:
        """Return what decides which arrays a round has and what is done with them."""
        return r.heard.observation.dtype, r.belief.idle is None, len(r.state.window), self._learns(r)

    def _learns(self, r: _Open) -> bool:
        """Whether a round updates the chains: not the first ones, which know too little."""
        return self.learn and r.state.round + 1 >= self.learn_from and len(r.state.window) > 0

    def _close(
        self, rounds: Sequence[_Open], summaries: Sequence[Summary]
    ) -> list[tuple[Estimate, TSAGAState]]:
        """Form the estimates, learn, and carry the rounds over."""
        z, tau = stack([s.z for s in summaries]), stack([s.tau for s in summaries])
        belief = _reconsidered(rounds, summaries)
        prior = belief.prior
        post, ratio = posterior(prior, log_odds(prior.support), z, tau)
        apart = self.amplitude_message == "joint" and self.support_chain and self.amplitude_chain
        chains, windows = [r.chain for r in rounds], [r.state.window for r in rounds]
        evidence = None
        if self.learn or not apart:
            evidence = temporal.gather_evidence(prior, post, ratio, z, tau, self.amplitude_message)
        if self.learn and evidence is not None:
            newest = unstack(evidence, len(rounds))
            windows = [(*w, e)[-self.window :] for w, e in zip(windows, newest, strict=True)]
        if self._learns(rounds[0]):
            chains = self._learn(windows, chains)
        chain = side_by_side(chains, z.dtype)
        if evidence is None or apart:
            belief = temporal.carry_apart(belief, post, chain)
        else:
            belief = temporal.carry(evidence, chain, self.support_chain, self.amplitude_chain)
        states = [
            replace(r.state, round=r.state.round + 1, chain=c, belief=b, window=w)
            for r, c, b, w in zip(rounds, chains, unstack(belief, len(rounds)), windows, strict=True)
        ]
        return list(zip(_estimates(rounds, post, summaries), states, strict=True))

    def _learn(
        self, windows: Sequence[Sequence[Evidence]], chains: Sequence[ChainParams]
    ) -> list[ChainParams]:
        switches = self.support_chain, self.amplitude_chain
        statistics = em.e_steps(windows, chains, *switches)
        return [em.m_step(found, chain, *switches) for found, chain in zip(statistics, chains, strict=True)]


def _reconsidered(rounds: Sequence[_Open], summaries: Sequence[Summary]) -> Belief:
    """Return the beliefs on common arrays, each doubted as far as its reception contradicted it."""
    belief = stack([r.belief for r in rounds])
    surprise = stack([s.surprise for s in summaries])
    if not surprise.any():
        return belief
    model = numbers(
        side_by_side([r.chain for r in rounds], surprise.dtype), lambda c: (c.activity, c.variance)
    )
    return Belief(belief.prior.doubted(surprise, *model), belief.idle)


def _estimates(rounds: Sequence[_Open], post: SpikeSlab, summaries: Sequence[Summary]) -> list[Estimate]:
    moments = unstack(Amplitude(*post.moments()), len(rounds))
    return [_estimate(*each) for each in zip(rounds, moments, summaries, strict=True)]


def _estimate(r: _Open, x: Amplitude, summary: Summary) -> Estimate:
    unit = r.heard.scale
    mean, variance = scale.restore(x.mean, x.variance, unit, r.reception.observation.dtype)
    chain = replace(r.chain, variance=scale.restore_variance(r.chain.variance, unit))
    tau = scale.restore_variance(float(np.mean(summary.tau)), unit)
    surprised = bool(summary.surprise.any())
    info = Info(summary.iterations, summary.status, tau, chain, r.restarted, surprised)
    return Estimate(mean, variance, info)


def _out_of_proportion(state: TSAGAState, unit: float) -> bool:
    """Whether the level changed so much, at once or in steps, that the memory says nothing about it."""
    if state.chain is None or state.scale in (0.0, unit):
        return False
    factor = state.scale / unit
    near = 1 / scale.BREAK < factor < scale.BREAK
    return not (near and 1 / scale.WIDEST < state.chain.variance * factor**2 < scale.WIDEST)


def _nothing_heard(state: TSAGAState, reception: Reception) -> tuple[Estimate, TSAGAState]:
    """Answer a reception of zeros before anything else was received: there is no level to think in yet."""
    zero = np.zeros(state.size, reception.observation.dtype)
    return Estimate(zero, zero.copy(), Info(0, "silent", 0.0)), replace(state, round=state.round + 1)
