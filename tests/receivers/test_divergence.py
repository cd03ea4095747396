"""Signals the model does not describe: the iteration may lose its way, the receiver must notice."""

import numpy as np
import pytest

import airfeel as af
from airfeel.learning.datasets import load_dataset
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


@pytest.fixture(scope="module")
def gradients():
    """Global gradients of softmax regression along a gradient descent on MNIST, largest fifth kept."""
    data = load_dataset("mnist")
    images, labels = data.train_inputs[:4000].reshape(4000, -1) / 255.0, data.train_labels[:4000]
    weights, found = np.zeros((785, 10)), []
    inputs = np.hstack([images, np.ones((4000, 1))])
    for _ in range(25):
        scores = inputs @ weights
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        scores[np.arange(4000), labels] -= 1
        gradient = (inputs.T @ scores / 4000).reshape(-1)
        weights -= 0.5 * gradient.reshape(785, 10)
        kept = np.zeros_like(gradient)
        largest = np.argsort(-np.abs(gradient))[:1570]
        kept[largest] = gradient[largest]
        found.append(kept)
    return found


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("message", ["joint", "expansion"])
def test_real_gradients(gradients, signs, message):
    receiver = af.TSAGA(activity=0.2, amplitude_message=message)
    state, levels = receiver.init(7850), []
    for t, x in enumerate(gradients):
        operator = af.PartialDCT(7850, 785, seed=t, signs=signs)
        noise_var = 1e-2 * np.mean(x**2)
        noise = np.sqrt(noise_var) * stream(t, "noise").standard_normal(785)
        estimate, state = receiver.receive(state, af.Reception(operator @ x + noise, operator, noise_var))
        assert np.isfinite(estimate.mean).all() and np.isfinite(estimate.variance).all()
        nmse = np.sum((estimate.mean - x) ** 2) / np.sum(x**2)
        levels.append(10 * np.log10(nmse))
        if nmse > 2:
            assert not estimate.info.converged, (t, nmse, estimate.info)
    print(f"signs {signs}, {message}: NMSE {np.round(levels, 1)} dB")
    assert np.mean(levels[15:]) < 0  # better than no estimate once the memory has filled
