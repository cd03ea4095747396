"""TSA-GA: turbo decoding with a prior that is carried from round to round, and chains learned on the way."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from airfeel import _checks
from airfeel.beliefs.chains import AmplitudeMessage, Belief, ChainParams, carry, stationary
from airfeel.ranges import Checked, Count, Several
from airfeel.receivers import em, scale
from airfeel.receivers.base import Estimate, Info, Precision, Reception, Tolerance, require_size
from airfeel.receivers.em import PastRound
from airfeel.receivers.problem import orthonormal, pose
from airfeel.receivers.scale import Scaled
from airfeel.receivers.turbo_cs import decode


@dataclass(frozen=True, slots=True, eq=False)
class TSAGAState:
    """What TSA-GA knows between two rounds.

    All amplitudes are in units of ``scale``, a power of two near the level of the received signal; it is 0
    as long as nothing was received. ``chain`` holds the parameters for the next round, ``belief`` what is
    believed before it, ``window`` the last rounds as EM reads them, newest last.
    """

    size: int
    round: int = 0
    scale: float = 0.0
    chain: ChainParams | None = None
    belief: Belief | None = None
    window: tuple[PastRound, ...] = ()

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
            window=tuple(each.scaled(factor, dtype) for each in self.window),
        )


@dataclass(frozen=True, slots=True)
class TSAGA(Checked):
    """The receiver of the paper, Algorithm 1 with the real-time learning of Algorithm 2, made robust.

    It differs from the paper in two ways that :meth:`paper` undoes: the message to the amplitude, and doubt.

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
        Stop the turbo iteration after so many rounds (six times as many for a matrix whose rows are not
        orthonormal), or when tau, the variance of the pseudo-observation z, changes by less than this share
        of itself.
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
    max_iterations: Count = 25
    variance: float | None = None
    amplitude_message: AmplitudeMessage = "joint"
    tolerance: Tolerance = 5e-3
    window: Several = 5
    learn_from: Count = 10
    precision: Precision | None = None
    doubt: bool = True

    def __post_init__(self) -> None:
        """Refuse parameters outside their range."""
        Checked.__post_init__(self)
        ChainParams(self.activity, self.p01, self.beta, 1.0 if self.variance is None else self.variance)

    @classmethod
    def paper(cls, activity: float, **options: Any) -> "TSAGA":
        """Return Algorithm 1 to the letter: the paper's message to the amplitude, and no doubt.

        >>> TSAGA.paper(0.2).amplitude_message
        'expansion'
        """
        return cls(activity, **{"amplitude_message": "expansion", "doubt": False, **options})

    def init(self, size: int) -> TSAGAState:
        """Return the state before the first round."""
        return TSAGAState(_checks.integer("size", size, at_least=1))

    def _in_own_units(
        self, state: TSAGAState, reception: Reception
    ) -> tuple[Scaled, ChainParams, Belief, tuple[PastRound, ...], bool] | None:
        """Return y and what is remembered in units of the level of y, and whether all had to be forgotten.

        At the start there is nothing to remember but the initial parameters; without any level, nothing.
        """
        require_size(state.size, reception)
        loudness = scale.level(reception.observation)
        if state.chain is None and loudness == 0 and self.variance is None:
            return None
        # Two roots: the product of what is tiny would be zero.
        unit = scale.follow(
            state.scale, loudness or math.sqrt(self.activity) * math.sqrt(self.variance or 0.0)
        )
        heard = scale.apply(reception, unit, self.precision)
        dtype = heard.observation.dtype
        restarted = False  # where the level changed so much, at once or in steps, that memory says nothing
        if state.chain is not None and state.scale not in (0.0, unit):
            factor = state.scale / unit
            near = 1 / scale.BREAK < factor < scale.BREAK
            restarted = not (near and 1 / scale.WIDEST < state.chain.variance * factor**2 < scale.WIDEST)
        known = self.init(state.size) if restarted else state.scaled(unit, dtype)
        if known.chain is not None and known.belief is not None:
            return heard, known.chain, known.belief, known.window, False
        variance = heard.amplitude_power(self.activity)  # gamma from the power above the noise (Section VII)
        if self.variance is not None:
            variance = max(float(heard.width(self.variance)), scale.TINY)
        chain = ChainParams(self.activity, self.p01, self.beta, variance)
        return heard, chain, Belief(stationary(chain, state.size, dtype)), (), restarted

    def receive(self, state: TSAGAState, reception: Reception) -> tuple[Estimate, TSAGAState]:
        """Recover one round from its reception and everything received before: Algorithm 1, line by line.

        The call is pure: the same state and reception give the same bytes, and neither is changed.
        """
        reception, pace, longer = orthonormal(reception)
        own = self._in_own_units(state, reception)
        if own is None:
            # Zeros before anything else was received: there is no level to think in yet.
            zero = np.zeros(state.size, reception.observation.dtype)
            silence = Estimate(zero, zero.copy(), Info(0, "silent", 0.0))
            return silence, replace(state, round=state.round + 1)
        heard, chain, belief, window, restarted = own
        # Line 2: y = A x + n. Lines 3-8: from the prior (43) on, iterate.
        problem, doubted = pose(reception.operator, heard), chain if self.doubt else None
        options = {"limit": longer * self.max_iterations, "tolerance": self.tolerance, "pace": pace}
        found = decode(belief.prior, problem, chain=doubted, **options)
        prior, post, z, tau = found.prior, found.post, found.z, found.tau
        # Line 9: the estimate.
        how = found.iterations, found.status, float(tau.mean()), chain, restarted, found.surprised
        estimate = Estimate(*post.moments(), Info(*how))
        # Line 14, which the next ones need already: the chains that lead into the next round.
        switches = self.support_chain, self.amplitude_chain
        if self.learn:
            window = (*window, PastRound(prior, z, tau, post.support))[-self.window :]
            if state.round + 1 >= self.learn_from and len(window) > 1:  # the first rounds know too little
                chain = em.learn(window, chain, self.amplitude_message, *switches)
        # Lines 10-13: what the round tells about support and amplitude, carried into the next one.
        belief = Belief(prior, belief.idle)
        belief = carry(belief, post, z, tau, chain, self.amplitude_message, *switches)
        after = TSAGAState(state.size, state.round + 1, heard.scale, chain, belief, window)
        return heard.restored(estimate), after
