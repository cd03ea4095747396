import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.learning.tasks import Samples
from airfeel.learning.training import Participation, evaluate, local_gradients, shares, split
from airfeel.learning.training.sgd import LocalSGD
from airfeel.registry import TRAININGS
from airfeel.workers import Workers

TASK = SoftmaxRegression(20, 5)
EXACT = SoftmaxRegression(20, 5, dtype="float64")


def devices(task, sizes=(30, 50, 20, 41), seed=0):
    rng = np.random.default_rng(seed)
    return [
        task.prepare(rng.integers(0, 256, (size, 20), dtype=np.uint8), rng.integers(0, 5, size))
        for size in sizes
    ]


def gradients(task, data, training, threads=1, round=1, wanted=None, theta=None):
    theta = np.zeros(task.size) if theta is None else theta
    with Workers(threads) as workers:
        return local_gradients(
            task, theta, data, training, rate=0.3, seed=9, round=round, devices=wanted, workers=workers
        )


@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(("momentum", "decay"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.1), (0.5, 0.02)])
def test_accumulated_gradient_is_the_way_gone_over_the_rate(steps, momentum, decay):
    """(3)(4) as corrected: g_m = (start - end)/eta, so that theta - eta g_m is where the device ended.

    Momentum and weight decay are PyTorch's.
    """
    data = devices(EXACT)
    start = np.random.default_rng(3).standard_normal(EXACT.size)
    got = gradients(EXACT, data, LocalSGD(steps, momentum=momentum, weight_decay=decay), theta=start)
    for samples, gradient in zip(data, got, strict=True):
        theta, velocity = start, np.zeros_like(start)
        for _ in range(steps):
            velocity = momentum * velocity + EXACT.gradient(theta, samples) + decay * theta
            theta = theta - 0.3 * velocity
        np.testing.assert_allclose(gradient, (start - theta) / 0.3, rtol=0, atol=1e-12)
        if not momentum and not decay:
            assert EXACT.evaluate(theta, samples).loss < EXACT.evaluate(start, samples).loss


OF_EACH_RULE = [TRAININGS.get(name).build({}) for name in TRAININGS.names()]


@pytest.mark.parametrize(
    "training", [*OF_EACH_RULE, LocalSGD(3), LocalSGD(2, 7, momentum=0.5, weight_decay=0.1)]
)
def test_bytes_do_not_depend_on_the_number_of_threads(training):
    data = devices(TASK, sizes=tuple(range(10, 40)))
    one = gradients(TASK, data, training, threads=1)
    assert one.dtype == np.float32
    for threads in (2, 5):
        assert gradients(TASK, data, training, threads=threads).tobytes() == one.tobytes()


@pytest.mark.parametrize("training", [LocalSGD(1, batch_size=8), LocalSGD(batch_size=8, local_epochs=1)])
def test_mini_batches_change_by_round_and_device_and_repeat_by_seed(training):
    same = devices(TASK)[:1] * 2
    first = gradients(TASK, same, training)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, gradients(TASK, same, training, round=2))
    np.testing.assert_array_equal(first, gradients(TASK, same, training))
    full = gradients(TASK, same, LocalSGD(2))  # as is a batch as large as the data
    np.testing.assert_array_equal(full, gradients(TASK, same, LocalSGD(2, batch_size=50)))


class Counting:
    """A task whose gradient says how often each of ten samples was used."""

    size = 10

    def gradient(self, theta, samples):
        return np.bincount(samples.labels, minlength=10)


def test_a_mini_batch_holds_no_sample_twice_and_every_step_draws_another():
    samples = [Samples(np.arange(10), np.arange(10))] * 30
    for used in gradients(Counting(), samples, LocalSGD(1, batch_size=7)):
        assert sorted(used) == [0] * 3 + [1] * 7
    twice = gradients(Counting(), samples, LocalSGD(2, batch_size=3))
    assert (twice.sum(axis=1) == 6).all()
    # Two batches of 3 out of 10 are the same ones with probability 1/120.
    assert sum(2 in used and 1 not in used for used in twice) < 3


def test_a_device_not_selected_computes_nothing():
    data = devices(TASK)
    np.testing.assert_allclose(shares(data), np.array([30, 50, 20, 41]) / 141)
    data[2] = None  # would fail if touched
    got = gradients(TASK, data, LocalSGD(), wanted=[0, 1, 3])
    assert got.shape == (3, TASK.size) and got.any(axis=1).all()
    assert gradients(TASK, data, LocalSGD(), wanted=[]).shape == (0, TASK.size)


@pytest.mark.parametrize("seed", range(5))
def test_score_in_parts_is_the_score_of_the_whole(seed):
    rng = np.random.default_rng(seed)
    images, labels = rng.integers(0, 256, (117, 20), dtype=np.uint8), rng.integers(0, 5, 117)
    theta = rng.standard_normal(EXACT.size)
    whole = EXACT.evaluate(theta, EXACT.prepare(images, labels))
    with Workers(2) as workers:
        parts = evaluate(EXACT, theta, split(EXACT, images, labels, part=25), workers)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-12)
    assert parts.accuracy == pytest.approx(whole.accuracy, rel=1e-12)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_fraction_is_selected_anew_each_round(seed):
    part = Participation(fraction=0.3)
    masks = np.array([part.draw(10, seed, round=t)[0] for t in range(1, 401)])
    assert (masks.sum(axis=1) == 3).all()
    spread = np.sqrt(0.3 * 0.7 / 400)
    assert np.abs(masks.mean(axis=0) - 0.3).max() < 4.5 * spread


@pytest.mark.parametrize(("fraction", "count"), [(0.01, 1), (0.24, 2), (0.25, 3), (0.96, 10)])
def test_a_fraction_is_rounded_to_whole_devices(fraction, count):
    assert Participation(fraction).draw(10, seed=1, round=1)[0].sum() == count
    assert np.array(Participation().draw(6, seed=1, round=1)).all()  # everybody, unless told otherwise


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_dropped_devices_computed_and_do_not_send(seed):
    draws = [Participation(0.5, dropout=0.2).draw(20, seed, round=t) for t in range(1, 301)]
    selected, sending = np.array(draws).transpose(1, 0, 2)
    assert not (sending & ~selected).any()
    rate = 1 - sending.sum() / selected.sum()
    assert abs(rate - 0.2) < 4.5 * np.sqrt(0.16 / selected.sum())


def test_workers_hold_blas_to_one_thread_while_they_are_open():
    """With more than one, sums would depend on how BLAS splits them."""

    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(limits=2):
        before = threads()
        with Workers(2) as workers:
            assert threads() <= {1}
            assert workers.map(str, range(9)) == list("012345678")
        assert threads() == before


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: LocalSGD(local_epochs=2, local_steps=3), "local_steps"),
        (lambda: Participation(0.0), "fraction"),
        (lambda: Workers(0), "threads"),
    ],
)
def test_bad_parameters_are_named(make, name):
    with pytest.raises(ValueError, match=f"{name} = "):
        make()


@pytest.mark.parametrize(("size", "epochs"), [(3, 1), (4, 3), (5, 2), (10, 2), (None, 3)])
def test_an_epoch_uses_every_sample_once(size, epochs):
    samples = [Samples(np.arange(10), np.arange(10))] * 8
    used = gradients(Counting(), samples, LocalSGD(batch_size=size, local_epochs=epochs))
    assert (used == epochs).all()


def test_rows_that_somebody_holds_are_never_written_again():
    workers = Workers()
    first = workers.rows(3, 4, np.float32)
    first[:] = 1
    held = first[1:2]
    del first
    second = workers.rows(3, 4, np.float32)
    second[:] = 2
    assert (held == 1).all() and second.shape == (3, 4)
    place = second.ctypes.data
    del held, second
    again = workers.rows(2, 4, np.float32)
    assert again.ctypes.data == place and again.shape == (2, 4)
    del again
    for wanted in ((5, 4, np.float32), (5, 6, np.float32), (5, 6, np.float64)):
        found = workers.rows(*wanted)
        assert (*found.shape, found.dtype.type) == wanted
