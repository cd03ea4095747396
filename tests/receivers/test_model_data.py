"""Statistics on data drawn from the model itself. Averages are of the NMSE in dB over rounds and seeds."""

import numpy as np
import pytest

import airfeel as af
from modeldata import Model, realised, run, stream_of

MODEL = Model()  # N = 7850, s/N = 0.1, lambda = 0.05, p01 = beta = 0.01, 20 dB
FAST_SUPPORT = Model(size=4000, ratio=0.4, activity=0.1, p01=0.3, beta=0.002)
STARTS = [(by, chains) for by in (0.5, 1.5, 3.0) for chains in (0.3, 3.0)]
NAMES = ("activity", "p01", "beta", "variance")
# The spread of one seed, from the steady state of 20 seeds: the allowance where few seeds are run.
SEED_SPREAD_DB = 0.25


def turbo_cs():
    return af.TurboCS(MODEL.activity, variance=MODEL.variance)


def steady(seed):
    """NMSE of both receivers over rounds 21-60, and claimed over true squared error."""
    heard, signals, _, _ = stream_of(MODEL, seed)
    known = run(MODEL.known(learn=False), heard, signals)
    alone = run(turbo_cs(), heard[20:], signals[20:])
    return known.nmse_db[20:].mean(), alone.nmse_db.mean(), known.variance[20:].sum() / known.error[20:].sum()


@pytest.mark.parametrize(
    ("seeds", "allowance"),
    [((11, 12, 13), 2 * SEED_SPREAD_DB), pytest.param(range(10), 0, marks=pytest.mark.slow)],
)
def test_memory_gains_eighteen_decibels(seeds, allowance):
    level, alone, calibration = np.mean([steady(seed) for seed in seeds], axis=0)
    print(f"TSA-GA {level:.2f} dB, Turbo-CS {alone:.2f} dB, calibration {calibration:.3f}")
    assert level <= -21.2 + allowance and alone > -4 and abs(calibration - 1) < 0.15


def learning_from(start, heard, signals, known):
    """Loss over rounds 51-60 against the receiver that knows the parameters, and what was learned."""
    activity, chains = start
    receiver = af.TSAGA(activity=activity * MODEL.activity, p01=chains * MODEL.p01, beta=chains * MODEL.beta)
    trace = run(receiver, heard, signals)
    learned = trace.infos[-1].chain
    loss = trace.nmse_db[50:].mean() - known.nmse_db[50:].mean()
    return loss, [getattr(learned, name) for name in NAMES]


def check_learning(starts, seeds):
    """Return the mean loss of every start, and learned over realised values averaged over the seeds."""
    losses, ratios = [], []
    for seed in seeds:
        heard, signals, support, amplitude = stream_of(MODEL, seed)
        known = run(MODEL.known(learn=False), heard, signals)
        truth = realised(support, amplitude, 55, 59)  # the window behind the parameters in force in round 60
        found = [learning_from(start, heard, signals, known) for start in starts]
        losses.append([loss for loss, _ in found])
        ratios.append([[v / truth[n] for v, n in zip(values, NAMES, strict=True)] for _, values in found])
    losses, ratios = np.mean(losses, axis=0), np.mean(ratios, axis=0)
    for start, loss, ratio in zip(starts, losses, ratios, strict=True):
        print(f"start {start}: loss {loss:+.3f} dB; learned/realised {NAMES}: {ratio.round(3)}")
    return losses, ratios


# Few seeds: twice the spread of a single window on top of the bound for averages.
WINDOW_SPREAD = np.array([0.05, 0.35, 0.35, 0.07])


@pytest.mark.parametrize(
    ("starts", "seeds", "allowance"),
    [
        pytest.param([(0.5, 3.0), (3.0, 0.3)], [12, 13], 2 * WINDOW_SPREAD, marks=pytest.mark.long),
        pytest.param(STARTS, range(10), 0, marks=pytest.mark.slow),
    ],
)
def test_learning_forgets_a_wrong_start(starts, seeds, allowance):
    losses, ratios = check_learning(starts, seeds)
    assert losses.max() < 0.1
    assert (np.abs(ratios - 1) < np.array([0.10, 0.40, 0.40, 0.15]) + allowance).all()


def against_memoryless(seeds, rounds=40):
    """Mean NMSE of the default receiver minus that of Turbo-CS on fast supports with slow amplitudes."""
    gaps = []
    for seed in seeds:
        heard, signals, _, _ = stream_of(FAST_SUPPORT, seed, rounds=rounds)
        default = run(af.TSAGA(activity=FAST_SUPPORT.activity), heard, signals)
        memoryless = run(af.TurboCS(FAST_SUPPORT.activity), heard, signals)
        levels = default.nmse_db[20:].mean(), memoryless.nmse_db[20:].mean()
        print("default {:.2f} dB, memoryless {:.2f} dB".format(*levels))
        gaps.append(levels[0] - levels[1])
    return np.array(gaps)


@pytest.mark.parametrize(
    ("seeds", "rounds"), [((3, 4, 5), 40), pytest.param(range(5), 60, marks=pytest.mark.slow)]
)
def test_default_settings_are_safe_on_fast_supports(seeds, rounds):
    assert against_memoryless(seeds, rounds).max() <= 0
