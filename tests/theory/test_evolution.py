"""State evolution against quadrature, its own limits, and the real receivers."""

from itertools import islice, pairwise

import numpy as np
import pytest
from scipy.integrate import quad

import airfeel as af
from airfeel.beliefs.spike_slab import extrinsic_variance
from airfeel.streams import stream
from airfeel.theory import amp_evolution, first_round_mmse
from airfeel.theory.amp import soft_threshold_risk
from airfeel.theory.scalar import linear_variance, sample_paths
from modeldata import Model, run, stream_of

CHAIN = af.ChainParams(activity=0.1, p01=0.02, beta=0.02, variance=1.0)
QUICK = {"ratio": 0.3, "noise_var": 1e-3, "samples": 16_000}


def decibel(ratio):
    return 10 * np.log10(ratio)


@pytest.mark.parametrize("tau", [1e-4, 1e-2, 0.3, 5.0])
def test_first_round_mmse_equals_adaptive_integration(tau):
    """E[Var[x | z]] = E[x^2] - E[E[x | z]^2], integrated over z by an adaptive rule."""
    lam, gamma = CHAIN.activity, CHAIN.variance

    def normal(z, variance):
        return np.exp(-z * z / (2 * variance)) / np.sqrt(2 * np.pi * variance)

    def integrand(z):
        on, off = lam * normal(z, gamma + tau), (1 - lam) * normal(z, tau)
        return (on / (on + off) * z * gamma / (gamma + tau)) ** 2 * (on + off)

    edge = np.sqrt(tau)
    ends = [0, *(edge * np.array([1, 2, 3, 4, 6, 10])), 12 * np.sqrt(gamma + tau)]
    explained = 2 * sum(quad(integrand, a, b, epsabs=1e-14)[0] for a, b in pairwise(ends) if b > a)
    assert first_round_mmse(CHAIN, tau) == pytest.approx(lam * gamma - explained, rel=1e-6)


def test_first_round_settles_where_quadrature_does():
    v = CHAIN.activity * CHAIN.variance
    for _ in range(200):
        tau = linear_variance(v, 0.3, 1e-3)
        v = extrinsic_variance(first_round_mmse(CHAIN, tau), tau)
    prediction = af.state_evolution(CHAIN, 0.3, 1e-3, rounds=1, tolerance=1e-6, max_iterations=200)
    error = 3 * prediction.mse_error[0]
    assert abs(prediction.mse[0] - first_round_mmse(CHAIN, tau)) < error
    assert abs(prediction.variance[0] - first_round_mmse(CHAIN, tau)) < error
    assert prediction.v_fixed[0] == pytest.approx(v, rel=0.05)
    assert prediction.tau_fixed[0] == pytest.approx(tau, rel=0.05)


def test_a_round_starts_from_the_signal_on_request():
    """Theorems 1 and 2 let every round start from v_0 = Var[x] = lambda gamma."""
    prediction = af.state_evolution(CHAIN.scaled(2.0), rounds=3, start="signal", **QUICK)
    np.testing.assert_allclose(prediction.v[:, 0], 0.1 * 4.0)
    np.testing.assert_allclose(prediction.actual_v[:, 0], 0.1 * 4.0)


@pytest.mark.parametrize(
    ("chain", "options"),
    [
        (af.ChainParams(activity=0.1, p01=0.9, beta=1.0), {}),
        (CHAIN, {"support_chain": False, "amplitude_chain": False}),
    ],
    ids=["independent", "memoryless"],
)
def test_without_memory_rounds_are_all_like_the_first(chain, options):
    prediction = af.state_evolution(chain, rounds=4, **QUICK, **options)
    spread = np.hypot(prediction.mse_error[1:], prediction.mse_error[0])
    assert np.all(np.abs(prediction.mse[1:] - prediction.mse[0]) < 3 * spread)


def test_scale_does_not_matter():
    small = af.state_evolution(CHAIN, rounds=3, **QUICK)
    large = af.state_evolution(CHAIN.scaled(1e3), 0.3, 1e-3 * 1e6, rounds=3, samples=QUICK["samples"])
    np.testing.assert_allclose(large.nmse, small.nmse, rtol=1e-9)


def test_paper_recursion_takes_beliefs_for_truth():
    prediction = af.state_evolution(CHAIN, rounds=3, recursion="paper", **QUICK)
    np.testing.assert_array_equal(prediction.tau, prediction.actual_tau)
    np.testing.assert_array_equal(prediction.v, prediction.actual_v)
    np.testing.assert_allclose(prediction.tau, linear_variance(prediction.v, 0.3, 1e-3))
    assert prediction.tau.shape == (3, prediction.iterations.max())


def test_more_rounds_continue_the_same_prediction():
    short, long = (af.state_evolution(CHAIN, rounds=t, **QUICK) for t in (2, 4))
    np.testing.assert_array_equal(short.mse, long.mse[:2])


def amp_error(activity, ratio, noise_var, denoiser, size, seeds):
    """Return the mean squared error of the real AMP receiver on Gaussian matrices, over some seeds.

    Every signal has exactly ``activity`` N active coefficients, which takes the largest part of the spread.
    """
    receiver = af.AMP(activity, denoiser, variance=1.0, max_iterations=200, tolerance=1e-4)
    errors = []
    for seed in range(seeds):
        draw = stream(seed, "amp test")
        x = draw.permutation(np.arange(size) < round(activity * size)) * draw.standard_normal(size)
        operator = af.GaussianMatrix(size, round(ratio * size), seed=seed)
        noise = np.sqrt(noise_var) * draw.standard_normal(operator.shape[0])
        reception = af.Reception(np.asarray(operator @ x, dtype=float) + noise, operator, noise_var)
        estimate, _ = receiver.receive(receiver.init(size), reception)
        errors.append(np.mean((estimate.mean - x) ** 2))
    return np.mean(errors)


# lambda, s/N, noise
AMP_SETTINGS = [(0.05, 0.4, 1e-3), (0.02, 0.2, 1e-3), (0.1, 0.6, 1e-2), (0.1, 1.0, 1e-2)]


@pytest.mark.parametrize(
    ("size", "seeds", "limit"),
    [
        pytest.param(2000, 24, 0.5, marks=pytest.mark.long),
        pytest.param(4000, 60, 0.3, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("denoiser", ["soft", "mmse"])
@pytest.mark.parametrize("setting", AMP_SETTINGS, ids=str)
def test_amp_meets_its_state_evolution(denoiser, setting, size, seeds, limit):
    found = amp_error(*setting, denoiser, size, seeds)
    predicted = amp_evolution(af.ChainParams(setting[0], 0.01, 0.01), *setting[1:], denoiser=denoiser)
    assert abs(decibel(found / predicted.mse[0])) < limit


def test_amp_uses_the_threshold_it_is_given():
    prediction = amp_evolution(CHAIN, 0.5, 1e-2, denoiser="soft", threshold=1.3)
    on, off = (soft_threshold_risk(variance, prediction.tau[0, -1], 1.3) for variance in (1.0, 0.0))
    assert prediction.mse[0] == pytest.approx(0.1 * on + 0.9 * off)


def test_amp_that_is_worse_than_zero_answers_with_zero():
    prediction = amp_evolution(CHAIN, 0.05, 10.0, rounds=2, denoiser="soft", threshold=0.1)
    np.testing.assert_array_equal(prediction.nmse, 1.0)


def test_amp_refuses_bad_input():
    for bad in ({"ratio": 0.0}, {"noise_var": -1.0}, {"denoiser": "hard"}, {"threshold": 0.0}, {"rounds": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            amp_evolution(CHAIN, **bad)


def simulated(model, rounds, seeds, first, **options):
    """Return the receiver's NMSE per round, and in dB over the rounds from ``first`` on."""
    error = power = 0.0
    for seed in range(seeds):
        heard, signals, *_ = stream_of(model, seed + 20, rounds)
        trace = run(model.known(learn=False, **options), heard, signals)
        error, power = error + trace.error, power + trace.power
    return error / power, decibel(error[first:].sum() / power[first:].sum())


OPTIONS = [
    {},
    {"amplitude_message": "expansion"},
    {"amplitude_message": "moments", "support_chain": False},
    {"amplitude_chain": False},
    {"support_chain": False, "amplitude_chain": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_receiver_meets_its_state_evolution(options):
    """The default, a message, and each ablation at N = 7850; only the two-sided recursion fits all."""
    model = Model(ratio=0.3, activity=0.1, p01=0.05, beta=0.05, snr_db=15.0)
    _, found = simulated(model, rounds=16, seeds=3, first=6, **options)
    chain = af.ChainParams(model.activity, model.p01, model.beta)
    prediction = af.state_evolution(chain, model.ratio, model.noise_var, 16, samples=40_000, **options)
    assert abs(found - decibel(prediction.nmse[6:].mean())) < 0.5


SETTINGS = [  # s/N, lambda, p01, beta, SNR in dB
    (0.1, 0.05, 0.01, 0.01, 20.0),
    (0.2, 0.1, 0.01, 0.01, 20.0),
    (0.3, 0.1, 0.05, 0.05, 15.0),
    (0.1, 0.03, 0.02, 0.3, 20.0),
    (0.5, 0.2, 0.02, 0.01, 25.0),
    (0.15, 0.05, 0.005, 0.005, 10.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("size", "seeds", "limit"), [(100_000, 2, 0.3), (7850, 10, 0.5)])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_six_settings_in_steady_state(setting, size, seeds, limit):
    ratio, activity, p01, beta, snr_db = setting
    model = Model(size, ratio, activity, p01, beta, 1.0, snr_db)
    course, found = simulated(model, rounds=40, seeds=seeds, first=25)
    chain = af.ChainParams(activity, p01, beta)
    prediction = af.state_evolution(chain, ratio, model.noise_var, rounds=40, samples=200_000)
    expected = decibel(prediction.nmse[25:].mean())
    print(f"steady state: simulated {found:.2f} dB, predicted {expected:.2f} dB")
    print(f"first rounds: {np.round(decibel(course[:8]), 1)}, {np.round(prediction.nmse_db[:8], 1)}")
    assert abs(found - expected) < limit


# One case for each end of each range, and where ends meet; a warning fails the test.
EDGES = [
    {"activity": 1 / 800},
    {"activity": 1 - 2**-53, "p01": 1e-17},
    {"p01": 5e-324},
    {"beta": 5e-324},
    {"p01": 1.0, "beta": 1.0},
    {"variance": 1e-30},
    {"variance": 1e30},
    {"ratio": 1e-30},
    {"ratio": 1.0},
    {"noise_var": 0.0},
    {"noise_var": 5e-324},
    {"noise_var": 1e150},
    {"noise_var": [0.0, 5e-324]},
    {"noise_var": [0.0, 1e150]},
    {"activity": 1 / 800, "variance": 1e-30, "ratio": 1e-30, "noise_var": 1e150},
    {"activity": 1 / 800, "variance": 1e-30, "ratio": 1.0, "noise_var": 0.0, "beta": 5e-324},
    {"activity": 0.5, "p01": 1.0, "ratio": 1.0, "noise_var": [0.0, 5e-324], "sent": [1e-30, 1e30, 1.0]},
    {"variance": 1e30, "sent": [1e30, 1e30, 1e-30], "arriving": [-1e30, 0.0, 1e30]},
]


def chain_of(activity=0.05, p01=0.01, beta=0.01, variance=1.0, **options):
    """Return the chain of some arguments, and the other arguments."""
    return af.ChainParams(activity, p01, beta, variance), options


def evolved(**given):
    chain, options = chain_of(**given)
    return af.state_evolution(chain, **{"rounds": 3, "samples": 800, "ratio": 0.2} | options)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("message", ["joint", "moments", "expansion"])
@pytest.mark.parametrize("recursion", ["actual", "paper"])
@pytest.mark.parametrize("given", EDGES, ids=str)
def test_at_the_ends_of_all_ranges_there_is_a_number(given, message, recursion):
    found = evolved(**given, amplitude_message=message, recursion=recursion)
    for name in ("tau", "v", "actual_tau", "actual_v", "variance", "mse", "mse_error", "nmse", "nmse_error"):
        assert (getattr(found, name) >= 0).all() and np.isfinite(getattr(found, name)).all(), name
    if given.get("noise_var") == 1e150:  # nothing is heard: what is left is the signal
        paths = islice(sample_paths(chain_of(**given)[0], 8, 100, seed=0), 3)
        assert found.mse == pytest.approx([np.mean(x**2) for x, _ in paths])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("denoiser", ["soft", "mmse"])
@pytest.mark.parametrize(
    "given",
    [given for given in EDGES if isinstance(given.get("noise_var", 0.0), float) and "sent" not in given],
)
def test_the_evolution_of_amp_has_one_too(given, denoiser):
    chain, options = chain_of(**given)
    found = amp_evolution(chain, **{"ratio": 0.2} | options, denoiser=denoiser)
    assert (found.nmse > 0).all() and (found.nmse <= 1).all()


BAD = {"rounds": 0, "samples": 10, "amplitude_message": "taylor", "recursion": "exact", "start": "zero"}
BAD |= {"max_iterations": 0, "tolerance": -1.0, "seed": -1, "ratio": 1.5, "noise_var": np.nan}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"activity": 1e-300}, "activity = 1e-300: must be a finite number >= 1e-30"),
        (
            {"activity": 1e-3},
            "samples = 800: must be at least 1/activity = 1000, or no coefficient is active",
        ),
        ({"variance": 1e300}, "variance = 1e+300: must be a finite number >= 1e-30 and <= 1e+30"),
        ({"variance": 5e-324}, "variance = 5e-324: must be"),
        ({"ratio": 5e-324}, "ratio = 5e-324: must be a finite number >= 1e-30 and <= 1"),
        ({"noise_var": 1e300}, "noise_var = 1e+300: must be a finite number >= 0 and <= 1e+150"),
        ({"noise_var": 10**400}, "noise_var = a whole number of about 401 digits: must be"),
        ({"noise_var": "loud"}, "noise_var = 'loud': must be a finite number"),
        ({"noise_var": [0.0, 1e300]}, "noise_var: every entry must be finite and >= 0 and <= 1e+150"),
        ({"sent": [1.0, 0.0, 1.0]}, "sent: every entry must be >= 1e-30 and <= 1e+30"),
        ({"arriving": [1.0, 1e300, 1.0]}, "arriving: every entry must be >= -1e+30 and <= 1e+30"),
        ({"tolerance": 1e300}, "tolerance = 1e+300: must be"),
        *(({name: value}, name) for name, value in BAD.items()),
    ],
)
def test_what_is_out_of_range_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(ValueError) as caught:
        evolved(**given)
    assert sentence in str(caught.value)
