"""Carrying a round over, against the exact filter: a mixture over all 2^T histories of the support."""

from typing import get_args

import numpy as np
import pytest

from airfeel.beliefs import chains
from airfeel.beliefs.chains import Belief, ChainParams, stationary
from airfeel.beliefs.spike_slab import SpikeSlab, posterior
from airfeel.streams import stream
from modeldata import Model, sample_chains
from oracles import exact_filter

SLOW = Model(activity=0.1, p01=0.05, beta=0.05)
FAST_SUPPORT = Model(activity=0.2, p01=0.3, beta=0.01)
FAST_AMPLITUDE = Model(activity=0.2, p01=0.05, beta=0.5)
MODELS = {"slow": SLOW, "fast support": FAST_SUPPORT, "fast amplitude": FAST_AMPLITUDE}


def observe(model, rounds, draws, tau, seed=0):
    """Scalar chains seen in noise: z, shape (rounds, draws), and the truth."""
    rng = stream(seed, "scalar chains")
    support, amplitude = sample_chains(model, rounds, rng, count=draws)
    x = support * amplitude
    return x + np.sqrt(tau)[:, None] * rng.standard_normal(x.shape), x


def filter_with(message, model, z, tau):
    """P(s_T = 1) and E[x_T] as the receiver would have them, with one of its amplitude messages."""
    chain = ChainParams(model.activity, model.p01, model.beta, model.variance)
    belief = Belief(stationary(chain, z.shape[1]))
    for z_t, tau_t in zip(z, tau, strict=True):
        post = posterior(belief.prior, z_t, np.asarray(tau_t))
        belief = chains.carry(belief, post, z_t, np.asarray(tau_t), chain, message=message)
    return post.support, post.moments()[0]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("noise", [0.01, 0.1, 0.5])
def test_joint_message_is_nearest_to_the_exact_filter(model, noise):
    gap = dict.fromkeys(get_args(chains.AmplitudeMessage), 0.0)
    for rounds in (2, 3, 4, 5):
        tau = np.full(rounds, noise)
        z, _ = observe(model, rounds, 4000, tau, seed=rounds)
        exact = exact_filter(model.activity, model.p01, model.beta, model.variance, z, tau)[1]
        for message in get_args(chains.AmplitudeMessage):
            gap[message] += np.mean((filter_with(message, model, z, tau)[1] - exact) ** 2) / 4
    print(f"{model}, tau {noise}: mean squared distance from the exact posterior mean {gap}")
    assert gap["joint"] < min(gap["moments"], gap["expansion"])


@pytest.mark.parametrize("message", ["joint", "moments"])
def test_exact_where_nothing_has_to_be_merged(message):
    # Amplitudes that forget at once leave an ordinary hidden Markov chain of the support.
    forgetful = Model(activity=0.2, p01=0.1, beta=1.0)
    tau = np.array([0.1, 0.5, 0.2, 0.05])
    z, _ = observe(forgetful, 4, 500, tau)
    exact_support, exact = exact_filter(0.2, 0.1, 1.0, 1.0, z, tau)
    support, mean = filter_with(message, forgetful, z, tau)
    assert np.allclose(support, exact_support, rtol=1e-9, atol=1e-12)
    assert np.allclose(mean, exact, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("message", get_args(chains.AmplitudeMessage))
def test_a_chain_switched_off_forgets(message):
    chain = ChainParams(0.2, 0.3, 0.1, 1.5)
    prior = SpikeSlab(np.array([0.7, 0.1]), np.array([1.0, -2.0]), np.array([0.2, 0.4]))
    z, tau = np.array([1.1, -0.3]), np.array(0.05)
    post = posterior(prior, z, tau)

    def carried(support_chain, amplitude_chain, message=message):
        switches = {"support_chain": support_chain, "amplitude_chain": amplitude_chain}
        return chains.carry(Belief(prior), post, z, tau, chain, message=message, **switches).prior

    # Without the support chain there are no two kinds to keep apart: "joint" is "moments" there.
    linked = carried(True, True, "moments" if message == "joint" else message)
    no_support, no_amplitude, neither = carried(False, True), carried(True, False), carried(False, False)
    assert (no_support.support == 0.2).all() and (no_support.mean == linked.mean).all()
    assert (no_amplitude.mean == 0).all() and (no_amplitude.variance == 1.5).all()
    assert (no_amplitude.support == linked.support).all()
    assert (neither.support == 0.2).all() and (neither.mean == 0).all() and (neither.variance == 1.5).all()
