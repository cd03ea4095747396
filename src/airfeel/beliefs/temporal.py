"""Carry a round into the next prior (33)-(42), with one of three messages to the amplitude."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from airfeel.beliefs import chains
from airfeel.beliefs.chains import Amplitude, ChainParams, Message
from airfeel.beliefs.spike_slab import SpikeSlab

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


def tell_amplitude(
    prior: SpikeSlab, post: SpikeSlab, z: Array, tau: Array, message: str
) -> tuple[Message, Amplitude]:
    """Return what a round tells about every amplitude, and what is then believed about it.

    Given z, the amplitude is a mixture. ``message`` chooses how it becomes Gaussian: ``"expansion"`` is the
    paper's second-order expansion (34)-(37); ``"moments"`` and ``"joint"`` keep mean and variance of the
    exact posterior pi N(m1, v1) + (1 - pi) N(mu, v).
    """
    if message == "expansion":
        told = chains.expansion_message(prior.support, z, tau)
        return told, chains.absorb(prior, told)
    return chains.expected_message(post.support, z, tau), chains.mix(post.support, post, prior)


def carry(
    belief: Belief,
    post: SpikeSlab,
    z: Array,
    tau: Array,
    chain: ChainParams,
    message: str,
    support_chain: bool = True,
    amplitude_chain: bool = True,
) -> Belief:
    """Return the belief before the next round (39)(41)(42); a chain switched off forgets everything."""
    if message == "joint" and support_chain and amplitude_chain:
        return carry_apart(belief, post, chain)
    fresh = chains.stationary(chain, post.support.shape, post.support.dtype)
    support, amplitude = fresh.support, Amplitude(fresh.mean, fresh.variance)
    if support_chain:
        support = chains.predict_support(post.support, chain)
    if amplitude_chain:
        _, known = tell_amplitude(belief.prior, post, z, tau, message)
        amplitude = chains.predict_amplitude(known, chain)
    return Belief(SpikeSlab(support, amplitude.mean, amplitude.variance))


def carry_apart(belief: Belief, post: SpikeSlab, chain: ChainParams) -> Belief:
    """Return the belief before the next round, active and inactive coefficients kept apart (``"joint"``).

    The decoder only asks for the amplitude of an active coefficient. Most of those were active before, so
    their amplitude was observed; the support chain mixes the two kinds. In tracking this is the
    interacting-multiple-model filter.
    """
    support = chains.predict_support(post.support, chain)
    idle = belief.idle or Amplitude(belief.prior.mean, belief.prior.variance)
    into_active, into_idle = chains.came_from_active(post.support, chain)
    now = chains.predict_amplitude(chains.mix(into_active, post, idle), chain)
    rest = chains.predict_amplitude(chains.mix(into_idle, post, idle), chain)
    return Belief(SpikeSlab(support, now.mean, now.variance), rest)
