import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from airfeel.learning.datasets import Dataset  # noqa: E402
from airfeel.learning.models.networks import Gru  # noqa: E402
from airfeel.learning.models.softmax import SoftmaxRegression  # noqa: E402
from airfeel.learning.modules import small_cnn  # noqa: E402
from airfeel.learning.torch_task import TorchTask, squared_error  # noqa: E402
from airfeel.learning.training import local_gradients  # noqa: E402
from airfeel.learning.training.sgd import LocalSGD  # noqa: E402
from airfeel.workers import Workers  # noqa: E402

pytestmark = pytest.mark.torch


GREY = (1, 28, 28)


def images(count=40, seed=0, size=28, classes=10):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, size, size), dtype=np.uint8), rng.integers(0, classes, count)


class Linear(nn.Module):
    """Softmax regression whose parameters come in airfeel's order: pixel-major weights, then biases."""

    def __init__(self, features=784, classes=10, dtype=torch.float64):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(features, classes, dtype=dtype))
        self.biases = nn.Parameter(torch.zeros(classes, dtype=dtype))

    def forward(self, inputs):
        return inputs @ self.weights + self.biases


def test_the_linear_model_equals_softmax_regression():
    task, plain = TorchTask(Linear, view=(-1,), chunk=16), SoftmaxRegression(dtype="float64")
    assert task.size == plain.size == 7850
    data, labels = images()
    theta = np.random.default_rng(1).standard_normal(7850)
    ours, theirs = plain.prepare(data, labels), task.prepare(data, labels)
    np.testing.assert_array_equal(task.init(3), plain.init(3))
    np.testing.assert_allclose(task.gradient(theta, theirs), plain.gradient(theta, ours), rtol=0, atol=1e-13)
    score, expected = task.evaluate(theta, theirs), plain.evaluate(theta, ours)
    assert score.loss == pytest.approx(expected.loss, rel=1e-12)
    assert score.accuracy == expected.accuracy


class Tied(nn.Module):
    """A tensor that is used twice is one tensor: its gradient is the sum of both uses."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Linear(784, 784) for _ in range(2))
        self.second.weight = self.first.weight

    def forward(self, inputs):
        return self.second(torch.tanh(self.first(inputs)))


SMOOTH = {  # what is differentiated, N, and the loss
    "cnn": (small_cnn, GREY, 20_466, None),
    "tied": (Tied, (-1,), 784 * 784 + 2 * 784, None),
    "another loss": (lambda: nn.Linear(784, 10), (-1,), 7850, nn.functional.multi_margin_loss),
}


@pytest.mark.parametrize("case", SMOOTH)
def test_gradient_against_finite_differences(case):
    build, view, size, loss = SMOOTH[case]
    task = TorchTask(lambda: build().double(), loss, view=view, chunk=7)
    assert task.size == size
    samples, theta = task.prepare(*images(20)), task.init(4)
    gradient, rng, step = task.gradient(theta, samples), np.random.default_rng(2), 1e-6
    for _ in range(6):  # directional derivatives touch all parameters
        direction = rng.standard_normal(task.size)
        direction /= np.linalg.norm(direction)
        ahead, behind = (task.evaluate(theta + sign * step * direction, samples).loss for sign in (1, -1))
        assert gradient @ direction == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)


def test_bytes_do_not_depend_on_the_number_of_threads():
    task = TorchTask(small_cnn, view=GREY, chunk=20)
    data = [task.prepare(*images(30, seed=m)) for m in range(6)]
    theta, results = task.init(0), []
    for threads in (1, 3):
        with Workers(threads) as workers:
            g = local_gradients(
                task, theta, data, LocalSGD(2, 16), rate=0.1, seed=0, round=1, workers=workers
            )
        results.append(g.tobytes())
    assert results[0] == results[1]


def test_init_depends_on_the_seed_and_on_nothing_else():
    task = TorchTask(small_cnn)
    torch.manual_seed(5)
    first, state = task.init(1), torch.random.get_rng_state()
    torch.manual_seed(6)
    np.testing.assert_array_equal(first, task.init(1))
    assert not np.array_equal(first, task.init(2))
    torch.manual_seed(5)
    assert torch.equal(torch.random.get_rng_state(), state)  # torch's own generator is left alone


def test_samples_arrive_in_their_own_shape_and_type():
    seen = []

    class Spy(nn.Linear):
        def forward(self, inputs):
            seen.append((tuple(inputs.shape), inputs.dtype))
            return super().forward(inputs.double().reshape(len(inputs), -1))

    build, labels = lambda: Spy(6, 2, dtype=torch.float64), np.array([0, 1, 1])
    for inputs, dtype in (
        (np.zeros((3, 2, 3), np.uint8), torch.float64),
        (np.zeros((3, 6), np.int32), torch.int64),
        (np.zeros((3, 1, 6), np.float32), torch.float64),
    ):
        task = TorchTask(build)
        task.gradient(task.init(0), task.prepare(inputs, labels))
        assert seen[-1] == (inputs.shape, dtype)
    task = TorchTask(build, view=(3, 2), transform=lambda inputs: inputs.transpose(1, 2))
    assert task.prepare(np.zeros((3, 6)), labels).inputs.shape == (3, 2, 3)


def draws(module, inputs):
    return module.layer(nn.functional.dropout(inputs, 0.1, module.training))


def counts(module, inputs):
    module.calls += 1
    return module.layer(inputs)


class Free(nn.Module):
    """A linear layer that is called in a way of its own."""

    def __init__(self, forward, classes=2):
        super().__init__()
        self.layer, self.way = nn.Linear(4, classes), forward
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, inputs):
        return self.way(self, inputs)


def free(forward, *loss, **options):
    return lambda: TorchTask(lambda: Free(forward), *loss, **options)


def layers(*parts):
    return lambda: TorchTask(lambda: nn.Sequential(nn.Linear(4, 3), *parts))


def plain(module, inputs):
    return module.layer(inputs)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (free(draws), "the module or its loss draws random numbers"),
        (free(counts), "the module changes its buffer 'calls'"),
        (free(lambda module, inputs: (inputs,)), "cannot take them .TypeError: .*not tuple"),
        (free(lambda module, inputs: module.layer(inputs[:, :3])), "cannot take them .RuntimeError: mat1"),
        (free(lambda module, inputs: module.layer(inputs)[:, :1]), "largest label = 1: must be less than 1"),
        (free(plain, nn.CrossEntropyLoss(reduction="none")), r"loss.* is of shape \(2,\): must be a tensor"),
        (free(plain, lambda outputs, labels: 1.0), "loss.* is a float: must be a tensor"),
        (free(plain, lambda outputs, labels: outputs.argmax() + 0.0), "that has a gradient"),
        (
            free(plain, score=lambda outputs, labels: 1.0),
            r"score.* has shape \(\): must be one number for each",
        ),
        (free(plain, view=(3,)), r"view = \(3,\): must have as many numbers as samples of shape \(4,\)"),
        (free(plain, transform=lambda inputs: inputs[9, 9, 9]), r"transform cannot take samples of shape"),
        (free(plain, device="sundial"), "device = 'sundial': must be one where PyTorch can compute here"),
        (lambda: TorchTask(lambda: nn.LazyLinear(2)), "LazyLinear at '': must know its sizes .* Linear does"),
        (lambda: TorchTask(lambda: nn.Linear(4, 2).bfloat16()), "of torch.bfloat16: must be one of"),
        (layers(nn.Dropout(0.5)), "Dropout at '1'"),
        (layers(nn.Linear(3, 2).double()), "exactly one type"),
        (layers(nn.BatchNorm1d(3)), "BatchNorm1d at '1'.*GroupNorm"),
        (layers(nn.RReLU()), "RReLU at '1'.*LeakyReLU"),
        (layers(nn.GRU(3, 4, num_layers=2, dropout=0.2)), "GRU at '1'.*devices.weight_decay"),
        (layers(nn.MultiheadAttention(4, 2, dropout=0.1)), "MultiheadAttention at '1'.*set it to 0"),
        (lambda: TorchTask(nn.ReLU), "no parameters"),
        (free(plain, chunk=0), "chunk = 0"),
        (free(plain, squared_error), r"outputs have shape \(2, 2\) for targets of shape \(2,\): must be one"),
    ],
)
def test_what_cannot_be_trained_is_one_sentence_before_anything_is_computed(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make().prepare(np.ones((5, 4)), np.array([0, 1, 1, 0, 1]))


def test_what_can_be_trained():
    """Dropout of nothing is harmless; every device is asked for labels that the module cannot tell apart."""
    task = layers(nn.Dropout(0.0), nn.Linear(3, 2))()
    task.prepare(np.ones((2, 4)), np.array([0, 1]))
    with pytest.raises(ValueError, match="largest label = 2: must be less than 2"):
        task.prepare(np.ones((3, 4)), np.array([0, 1, 2]))
    assert float(squared_error(torch.zeros(4, 1), torch.ones(4))) == 1.0


def test_frozen_parameters_are_neither_trained_nor_sent():
    def build():
        module = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
        module[0].requires_grad_(False)
        return module

    task = TorchTask(build)
    assert task.shapes == {"1.weight": (2, 3), "1.bias": (2,)} and task.size == len(task.init(0)) == 8
    rng = np.random.default_rng(0)
    samples = task.prepare(rng.standard_normal((6, 4)), rng.integers(0, 2, 6))
    last = TorchTask(lambda: nn.Linear(3, 2))
    with torch.no_grad():
        hidden = task._seeded(0)[0](samples.inputs).numpy()
    theta = task.init(3)
    np.testing.assert_allclose(
        task.gradient(theta, samples),
        last.gradient(theta, last.prepare(hidden, samples.labels.numpy())),
        atol=1e-6,
    )


class Copies(TorchDispatchMode):
    """Counts what PyTorch copies or moves."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name = function.name()
        if any(word in name for word in ("_to_copy", "copy_", "clone")):
            self.found.append((name, args[0].numel()))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("what", ["gradient", "evaluate"])
def test_nothing_moves_but_the_parameters(what):
    """Samples stay where ``prepare`` put them; a gradient copies N parameters in, and reads N numbers."""
    task = TorchTask(lambda: nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), chunk=20)
    rng = np.random.default_rng(0)
    samples = task.prepare(rng.random((50, 12), np.float32), rng.integers(0, 3, 50))
    theta = task.init(0).astype(np.float32)
    getattr(task, what)(theta, samples)  # this thread's module is made once
    with Copies() as copies:
        getattr(task, what)(theta, samples)
    assert copies.found == [("aten::copy_", task.size)]


class StepByStep:
    """A task that tells gradients alone, as somebody's own may."""

    def __init__(self, task):
        self.size, self.gradient = task.size, task.gradient


@pytest.mark.parametrize("chunk", [500, 7])
@pytest.mark.parametrize("options", [{"local_steps": 3}, {"batch_size": 16, "local_epochs": 2}])
def test_a_descent_in_one_go_has_the_bytes_of_its_steps(options, chunk):
    task, sgd = TorchTask(small_cnn, view=GREY, chunk=chunk), LocalSGD(**options)
    samples, theta = task.prepare(*images()), task.init(2)
    whole, steps = (
        sgd.accumulated_gradient(of, theta, samples, 0.3, 1, 2, 3) for of in (task, StepByStep(task))
    )
    assert whole.dtype == steps.dtype
    np.testing.assert_array_equal(whole, steps)


def test_a_network_for_texts_tells_the_next_of_every_token():
    tokens = np.arange(60).reshape(6, 10) % 7
    data = Dataset.from_arrays(tokens, np.roll(tokens, -1, 1), tokens, np.roll(tokens, -1, 1))
    task = Gru(width=8)(data)
    assert task.size == 7 * 16 + 3 * 8 * (16 + 8 + 2) + 7 * 9
    samples, theta = task.prepare(data.train_inputs, data.train_labels), task.init(1)
    before = task.evaluate(theta, samples)
    after = task.evaluate(theta - task.gradient(theta, samples), samples)
    assert after.loss < before.loss
    one = tokens.copy()
    one[:, 5:] = 0  # what comes later changes nothing before it
    module = task.build()
    np.testing.assert_array_equal(
        *(module(torch.tensor(each)).detach()[:, :, :5].numpy() for each in (tokens, one))
    )


@pytest.mark.parametrize("labels", [np.zeros(4, int), np.zeros((4, 3), int)])
def test_a_network_for_texts_wants_a_label_for_every_token(labels):
    tokens = np.arange(20).reshape(4, 5)
    with pytest.raises(ValueError, match=r"shape of a label = .*one for each token"):
        Gru()(Dataset.from_arrays(tokens, labels, tokens, labels))
