"""Bad input is refused in one sentence; extreme input gives finite numbers and an honest status.

RuntimeWarnings are errors in this suite, so nothing below overflows or divides by zero unnoticed.
"""

import numpy as np
import pytest
from scipy.sparse.linalg import aslinearoperator

import airfeel as af
from airfeel.storage import pack as pack_state
from airfeel.streams import stream
from modeldata import Model, estimates, stream_of

SIZE, ROWS = 120, 60
STATUSES = {"converged", "iteration limit", "diverged", "silent"}
DCT = af.PartialDCT(SIZE, ROWS, seed=0, signs=True)
GAUSS = af.GaussianMatrix(SIZE, ROWS, seed=0)
RECEIVERS = {
    "tsaga": (af.TSAGA(activity=0.1, learn_from=2), DCT),
    "expansion": (af.TSAGA(activity=0.1, learn_from=2, amplitude_message="expansion"), DCT),
    "moments": (af.TSAGA(activity=0.1, learn_from=2, amplitude_message="moments"), DCT),
    "no support chain": (af.TSAGA(activity=0.1, learn_from=2, support_chain=False), DCT),
    "no amplitude chain": (af.TSAGA(activity=0.1, learn_from=2, amplitude_chain=False), DCT),
    "given variance": (af.TSAGA(activity=0.1, learn_from=2, variance=1.0), DCT),
    "float32": (af.TSAGA(activity=0.1, learn_from=2, precision="float32"), DCT),
    "turbo_cs": (af.TurboCS(0.1), DCT),
    "turbo_cs given": (af.TurboCS(0.1, variance=1.0), DCT),
    "amp": (af.AMP(activity=0.1), GAUSS),
    "amp mmse": (af.AMP(activity=0.1, denoiser="mmse"), GAUSS),
}


@pytest.fixture(params=RECEIVERS.values(), ids=RECEIVERS)
def pair(request):
    return request.param


def sparse(seed=0, size=SIZE):
    rng = stream(seed, "sparse")
    return np.where(rng.random(size) < 0.1, rng.standard_normal(size), 0.0)


def measure(operator, x):
    """A x in double precision at any scale (GaussianMatrix itself works in single)."""
    if isinstance(operator, af.GaussianMatrix):
        return operator.matrix.astype(np.float64) @ x
    return operator @ x


def go(receiver, receptions):
    """Receive all; every estimate must be finite, every status known, every parameter in range."""
    found = estimates(receiver, receptions)
    for estimate in found:
        assert np.isfinite(estimate.mean).all() and np.isfinite(estimate.variance).all()
        assert (estimate.variance >= 0).all()
        info = estimate.info
        assert info.status in STATUSES and np.isfinite(info.tau) and info.tau >= 0
        if info.chain is not None:
            assert 0 < info.chain.activity < 1 and 0 < info.chain.p01 <= 1 and 0 < info.chain.beta <= 1
            assert 0 < info.chain.variance < np.inf
    return found


@pytest.mark.parametrize("noise_var", [0.0, 0.01])
def test_silence(pair, noise_var):
    receiver, operator = pair
    silent = af.Reception(np.zeros(ROWS), operator, noise_var)
    for estimate in go(receiver, [silent] * 4):
        assert (estimate.mean == 0).all()


def test_silence_says_so_until_something_is_heard():
    receiver = af.TSAGA(activity=0.1)
    silent, loud = af.Reception(np.zeros(ROWS), DCT, 0.01), af.Reception(DCT @ sparse(), DCT, 1e-4)
    found = go(receiver, [silent, silent, loud, silent, loud])
    assert [e.info.status == "silent" for e in found] == [True, True, False, False, False]
    assert np.linalg.norm(found[2].mean - sparse()) < 0.5 * np.linalg.norm(sparse())


def test_nothing_but_noise(pair):
    receiver, operator = pair
    rng = stream(0, "only noise")
    receptions = [af.Reception(rng.standard_normal(ROWS), operator, 1.0) for _ in range(6)]
    for estimate in go(receiver, receptions):
        assert np.linalg.norm(estimate.mean) < 3 * np.sqrt(ROWS)


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-30, 1.0, 1e30, 1e150, 1e300])
def test_signals_of_any_size(pair, size):
    receiver, operator = pair
    found = go(receiver, [af.Reception(size * measure(operator, sparse()), operator, 0.0)] * 4)[-1]
    error = np.linalg.norm(found.mean / size - sparse()) / np.linalg.norm(sparse())
    # Where a variance was given it is wrong by up to 600 orders of magnitude: finite is all one can ask for.
    assert error < 0.1 or getattr(receiver, "variance", None) is not None


def test_a_jump_in_level_is_told():
    receiver = af.TSAGA(activity=0.1)
    y = DCT @ sparse()
    found = go(receiver, [af.Reception(level * y, DCT, 0.0) for level in (1.0, 2.0, 1e9, 1e9)])
    assert [e.info.restarted for e in found] == [False, False, True, False]


def test_one_coefficient_a_million_times_the_others(pair):
    receiver, operator = pair
    x = sparse()
    x[7] = 1e6
    receptions = [af.Reception(measure(operator, x), operator, 1e-4)] * 5
    given = getattr(receiver, "variance", None) is not None
    for estimate in go(receiver, receptions):
        assert given or estimate.mean[7] == pytest.approx(1e6, rel=0.05)


@pytest.mark.parametrize("rows", [1, 2, SIZE - 1, SIZE])
@pytest.mark.parametrize("noise_var", [0.0, 1e-4, 1.0])
def test_any_number_of_rows(rows, noise_var):
    operator = af.PartialDCT(SIZE, rows, seed=1)
    y = operator @ sparse()
    for receiver in (RECEIVERS[name][0] for name in ("tsaga", "turbo_cs", "float32")):
        found = go(receiver, [af.Reception(y, operator, noise_var)] * 4)
        if rows == SIZE and noise_var == 0:
            tolerance = 1e-4 if getattr(receiver, "precision", None) else 1e-9
            assert np.allclose(found[-1].mean, sparse(), atol=tolerance)
            assert found[-1].info.converged
    gaussian = af.GaussianMatrix(SIZE, rows, seed=1)
    for name in ("amp", "amp mmse"):
        go(RECEIVERS[name][0], [af.Reception(measure(gaussian, sparse()), gaussian, noise_var)])


def test_a_single_coefficient():
    operator = af.PartialDCT(1, 1, seed=0)
    found = go(af.TSAGA(activity=0.5), [af.Reception(np.array([3.0]), operator, 0.01)] * 12)
    assert found[-1].mean[0] == pytest.approx(3.0, rel=0.05)


@pytest.mark.parametrize("rounds", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_rounds(rounds):
    model = Model(size=64, ratio=0.5, activity=0.1, p01=0.02, beta=0.02)
    heard, signals, _, _ = stream_of(model, seed=1, rounds=500)
    receiver = af.TSAGA(activity=0.1)
    state, error, power = receiver.init(64), 0.0, 0.0
    for t in range(rounds):
        estimate, state = receiver.receive(state, heard[t % 500])
        assert np.isfinite(estimate.mean).all() and estimate.info.status in STATUSES
        if t >= rounds - 500:
            error += np.sum((estimate.mean - signals[t % 500]) ** 2)
            power += np.sum(signals[t % 500] ** 2)
    assert state.round == rounds
    assert error < 0.5 * power  # still working, not only finite


@pytest.mark.parametrize(
    ("y", "operator", "noise_var", "named"),
    [
        (np.full(ROWS, np.nan), DCT, 0.1, r"observation\[0\] = nan: every entry must be finite"),
        (np.r_[np.zeros(ROWS - 1), np.inf], DCT, 0.1, r"observation\[59\] = inf"),
        (np.zeros(ROWS + 1), DCT, 0.1, r"observation has shape \(61,\): must be a vector of length 60"),
        (np.zeros((ROWS, 1)), DCT, 0.1, r"observation has shape \(60, 1\)"),
        (np.zeros(ROWS, complex), DCT, 0.1, "observation has shape .*: must be 30 complex channel uses"),
        (np.zeros(ROWS), DCT, -0.1, "noise_var = -0.1: must be a finite number >= 0"),
        (np.zeros(ROWS), DCT, float("nan"), "noise_var = nan"),
        (np.zeros(ROWS), DCT, "0.1", "noise_var = '0.1'"),
        (np.zeros(ROWS), DCT, 10**400, "noise_var = a whole number of about 401 digits: must be a finite"),
        (np.full(ROWS, np.longdouble("1e4000")), DCT, 0.1, r"observation\[0\] = inf"),
        (
            np.zeros(ROWS),
            DCT,
            np.ones(ROWS - 1),
            r"noise_var has shape \(59,\): must be a vector of length 60",
        ),
        (np.zeros(ROWS), DCT, np.full(ROWS, np.nan), r"noise_var\[0\] = nan: every entry must be finite"),
        (np.zeros(ROWS), DCT, np.r_[np.ones(59), -1], r"noise_var\[59\] = -1.0: every entry must be >= 0"),
        (np.zeros(ROWS), [[0.0] * SIZE] * ROWS, 0.1, "operator = .*must be a scipy"),
    ],
)
def test_bad_receptions_are_refused(y, operator, noise_var, named):
    with pytest.raises(ValueError, match=f"(?s)^{named}"):
        af.Reception(y, operator, noise_var)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: af.TSAGA(activity=0.0), "activity = 0.0: must be a finite number > 0 and < 1"),
        (lambda: af.TSAGA(activity=0.1, p01=0.0), "p01 = 0.0"),
        (lambda: af.TSAGA(activity=0.1, window=1), "window = 1"),
        (lambda: af.TSAGA(activity=0.1).init(0), "size = 0"),
        (lambda: af.TurboCS(1.5), "activity = 1.5: must be a probability"),
        (lambda: af.TurboCS("0.1"), "activity = '0.1'"),
    ],
)
def test_bad_parameters_are_refused(make, named):
    with pytest.raises(ValueError, match="^" + named):
        make()


@pytest.mark.parametrize("name", ["tsaga", "turbo_cs", "amp"])
def test_a_reception_of_another_size_is_refused_and_the_state_stays(name):
    receiver, operator = RECEIVERS[name]
    _, state = receiver.receive(receiver.init(SIZE), af.Reception(measure(operator, sparse()), operator, 0.1))
    before = {key: array.tobytes() for key, array in pack_state(state).items()}
    other = af.PartialDCT(SIZE + 1, ROWS, seed=0)
    with pytest.raises(ValueError, match=f"must have {SIZE} columns like the state"):
        receiver.receive(state, af.Reception(np.zeros(ROWS), other, 0.1))
    assert {key: array.tobytes() for key, array in pack_state(state).items()} == before


UNIT = "operator = .*unit-norm columns"
WHOLE = af.PartialDCT(SIZE, SIZE - 1, seed=0)  # its columns have nearly unit norm, and still are not IID
OTHER = {  # what a receiver cannot take: receiver, operator, noise, and the rule
    "columns too long": (af.AMP(0.1), aslinearoperator(3 * GAUSS.matrix), 0.1, UNIT),
    "columns too short": (af.AMP(0.1), aslinearoperator(0.3 * GAUSS.matrix), 0.1, UNIT),
    "a partial DCT": (af.AMP(0.1), DCT, 0.1, UNIT),
    "nearly a whole DCT": (af.AMP(0.1), WHOLE, 0.1, UNIT),
    "unequal noise": (af.AMP(0.1), GAUSS, np.ones(ROWS), "noise_var is one number per .*: AMP wants"),
    "a short prior": (
        af.TurboCS(np.full(9, 0.1)),
        DCT,
        0.1,
        r"activity has shape \(9,\): must be a number or",
    ),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_a_receiver_cannot_take_is_one_sentence(case):
    receiver, operator, noise_var, named = OTHER[case]
    with pytest.raises(ValueError, match=f"(?s)^{named}"):
        receiver.receive(receiver.init(SIZE), af.Reception(np.ones(operator.shape[0]), operator, noise_var))


def test_silence_at_first_with_a_level_that_can_hardly_be_told():
    """The level that the options name is a root: their product would be zero."""
    receiver = af.TSAGA(activity=1e-30, variance=1e-300)
    reception = af.Reception(np.zeros(4), af.PartialDCT(8, 4, seed=1), 1.0)
    estimate, _ = receiver.receive(receiver.init(8), reception)
    assert not estimate.mean.any() and np.isfinite(estimate.variance).all()
