"""Carry a round into the next prior (33)-(42), and keep what learning the chains will need."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from airfeel.beliefs import chains
from airfeel.beliefs.chains import Amplitude, Chain, Message
from airfeel.beliefs.spike_slab import SpikeSlab, log_odds, sigmoid

Array = NDArray[Any]

MESSAGES = ("joint", "moments", "expansion")


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """What is believed about every coefficient before a round.

    ``prior`` is all the decoder sees: the support, and the amplitude should the coefficient be active.
    ``idle`` is the amplitude should it be inactive; None where the amplitude is taken to be independent of
    the support.
    """

    prior: SpikeSlab
    idle: Amplitude | None = None

    def scaled(self, factor: float, dtype: Any) -> "Belief":
        """Return the belief about ``factor`` times the signal, in another precision."""
        idle = None if self.idle is None else self.idle.scaled(factor, dtype)
        return Belief(self.prior.scaled(factor, dtype), idle)


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """A finished round as the two chains see it.

    ``support`` is P(s = 1) given all rounds so far and ``likelihood`` the evidence pd of this round alone;
    ``amplitude`` and ``message`` are the same for the amplitude. ``square`` is E[r^2] given s = 1 and all
    rounds so far.
    """

    support: Array
    likelihood: Array
    amplitude: Amplitude
    message: Message
    square: Array

    def scaled(self, factor: float, dtype: Any) -> "Evidence":
        """Return the evidence about ``factor`` times the signal, in another precision."""
        return Evidence(
            self.support.astype(dtype),
            self.likelihood.astype(dtype),
            self.amplitude.scaled(factor, dtype),
            self.message.scaled(factor, dtype),
            (self.square * factor**2).astype(dtype),
        )


def gather_evidence(
    prior: SpikeSlab, post: SpikeSlab, ratio: Array, z: Array, tau: Array, message: str
) -> Evidence:
    """Return what a round tells the chains, from its prior, (z, tau) and what :func:`posterior` made of them.

    Given z, the amplitude is a mixture. ``message`` chooses how it becomes Gaussian: ``"expansion"`` is the
    paper's second-order expansion (34)-(37); ``"moments"`` and ``"joint"`` keep mean and variance of the
    exact posterior pi N(m1, v1) + (1 - pi) N(mu, v).
    """
    if message == "expansion":
        about_r = chains.expansion_message(log_odds(prior.support), z, tau)
        amplitude = chains.absorb(prior, about_r)
    else:
        about_r = chains.expected_message(post.support, z, tau)
        amplitude = chains.mix(post.support, post, prior)
    square = post.variance + post.mean**2
    return Evidence(post.support, sigmoid(ratio.copy()), amplitude, about_r, square)


def carry_apart(belief: Belief, post: SpikeSlab, chain: Chain) -> Belief:
    """Return the belief before the next round, active and inactive coefficients kept apart (``"joint"``).

    The decoder only asks for the amplitude of an active coefficient. Most of those were active before, so
    their amplitude was observed; the support chain mixes the two kinds. In tracking this is the
    interacting-multiple-model filter.
    """
    support = chains.predict_support(post.support, chain)
    idle = belief.idle or Amplitude(belief.prior.mean, belief.prior.variance)
    into_active, into_idle = chains.came_from_active(post.support, support, chain)
    now = chains.predict_amplitude(chains.mix(into_active, post, idle), chain)
    rest = chains.predict_amplitude(chains.mix(into_idle, post, idle), chain)
    return Belief(SpikeSlab(support, now.mean, now.variance), rest)


def carry(evidence: Evidence, chain: Chain, support_chain: bool, amplitude_chain: bool) -> Belief:
    """Return the belief before the next round (39)(41)(42); a chain switched off forgets everything."""
    fresh = chains.stationary(chain, evidence.support.shape, evidence.support.dtype)
    support, amplitude = fresh.support, Amplitude(fresh.mean, fresh.variance)
    if support_chain:
        support = chains.predict_support(evidence.support, chain)
    if amplitude_chain:
        amplitude = chains.predict_amplitude(evidence.amplitude, chain)
    return Belief(SpikeSlab(support, amplitude.mean, amplitude.variance))
