"""Signals the model does not describe: the iteration may lose its way, the receiver must notice."""

import numpy as np
import pytest

import airfeel as af
from airfeel.streams import stream
from modeldata import Model, estimates, run, stream_of

SIZE = 2000


def smooth_signal(kind):
    n = np.arange(SIZE) / SIZE
    return {
        "constant": np.ones(SIZE),
        "bump": np.exp(-((n - 0.4) ** 2) / 0.005),
        "cosine": np.cos(2 * np.pi * 3 * n),
        "ramp": n,
        "chirp": np.cos(200 * n**2),
    }[kind]


def receive_rounds(receiver, x, rounds=6, noise_var=1e-4, rows=400, **options):
    heard = []
    for t in range(rounds):
        operator = af.PartialDCT(x.size, rows, seed=t, **options)
        noise = np.sqrt(noise_var) * stream(t, "noise").standard_normal(rows)
        heard.append(af.Reception(operator @ x + noise, operator, noise_var))
    return estimates(receiver, heard)


@pytest.mark.parametrize("kind", ["constant", "bump", "cosine", "ramp", "chirp"])
@pytest.mark.parametrize("activity", [0.05, 0.5])
@pytest.mark.parametrize("signs", [False, True])
def test_smooth_signals_stay_finite_and_the_status_is_honest(kind, activity, signs):
    x = smooth_signal(kind)
    for receiver in (af.TSAGA(activity, learn_from=3), af.TurboCS(activity)):
        for estimate in receive_rounds(receiver, x, signs=signs):
            assert np.isfinite(estimate.mean).all() and np.isfinite(estimate.variance).all()
            nmse = np.sum((estimate.mean - x) ** 2) / np.sum(x**2)
            # An estimate clearly worse than none at all must not be sold as settled.
            if nmse > 2:
                assert not estimate.info.converged, (nmse, estimate.info)


def test_a_new_coefficient_in_a_small_block_is_no_catastrophe():
    """Blocks of 500 coefficients have few measurements each: a surprise is large there."""
    model = Model(size=3970, ratio=0.2)
    heard, signals, _, _ = stream_of(model, seed=7, rounds=40, block=500)
    assert run(model.known(learn=False), heard, signals).nmse_db[10:].max() < -20


def test_amplitudes_sixty_times_as_fast_as_assumed_are_followed_and_learned():
    """Without doubting the prior, every round confirms the wrong one."""
    model = Model(ratio=0.2, activity=0.1, p01=0.01, beta=0.3)
    heard, signals, _, _ = stream_of(model, seed=1, rounds=30)
    default = run(af.TSAGA(activity=0.1), heard, signals)
    credulous = run(af.TSAGA(activity=0.1, doubt=False), heard, signals)
    known = run(model.known(learn=False), heard, signals)
    assert np.mean(credulous.nmse_db[20:]) > -3
    assert any(info.surprised for info in default.infos[:10])
    assert not any(info.surprised for info in known.infos)
    assert np.mean(default.nmse_db[20:]) < np.mean(known.nmse_db[20:]) + 0.3
