"""Models of the registry and of a user's own: any shape of data, through every scheme, in a run folder."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.lab.runner import execute
from airfeel.learning.models import ImageShape
from airfeel.registry import MODELS

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from airfeel.learning.torch_task import TorchTask, squared_error  # noqa: E402

pytestmark = pytest.mark.torch
LOCAL = {"devices.learning_rate": 0.1, "devices.local_epochs": 2, "devices.batch_size": 10}
LOCAL["devices.momentum"] = 0.5
SETTINGS = {"devices.count": 4, "devices.samples": 60, "scheme": "dense", "rounds": 25, "model.preset": False}


def data_of(draw, count=320, test=80):
    """Return four arrays from a function that draws samples with labels."""
    rng = np.random.default_rng(7)
    samples, labels = draw(rng, count + test)
    return samples[:count], labels[:count], samples[count:], labels[count:]


def colours(rng, count, last=False):
    """Images whose class is the channel that is bright."""
    labels = rng.integers(0, 3, count)
    images = rng.integers(0, 120, (count, 3, 8, 8), dtype=np.uint8)
    images[np.arange(count), labels] += 100
    return (np.moveaxis(images, 1, -1) if last else images), labels


def vectors(rng, count):
    """Points in four clouds."""
    labels = rng.integers(0, 4, count)
    return (3 * np.eye(4, 5)[labels] + rng.standard_normal((count, 5))).astype(np.float32), labels


def sentences(rng, count):
    """Eight tokens of ten; the class is the parity of the last one."""
    tokens = rng.integers(0, 10, (count, 8))
    return tokens, tokens[:, -1] % 2


def line(rng, count):
    """Inputs and what a linear function makes of them."""
    inputs = rng.standard_normal((count, 3))
    return inputs, inputs @ [1.0, -2.0, 0.5]


class Reader(nn.Module):
    """A tiny recurrent network over tokens, whose class is what a configuration names."""

    def __init__(self, data, *, width: int = 12):
        super().__init__()
        self.words, self.memory = nn.Embedding(10, width), nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, data.classes)

    def forward(self, tokens):
        return self.out(self.memory(self.words(tokens))[0][:, -1])


def straight(data, *, bias: bool = True):
    """Build a module for one target."""
    return nn.Linear(data.shape[0], 1, bias=bias)


def straight_task(data):
    """Make a task with a score of its own: the share of targets met within a tenth."""
    build = lambda: nn.Linear(data.shape[0], 1)  # noqa: E731
    return TorchTask(build, squared_error, score=lambda out, y: (out[:, 0] - y).abs() < 0.1)


def train(settings, data, **own):
    return list(af.train(af.load_config(None, SETTINGS | settings), dataset=data, **own))


def test_where_the_channels_are_does_not_change_what_is_learned():
    first, last = (data_of(lambda rng, count, at=at: colours(rng, count, at)) for at in (False, True))
    runs = [train({"model.kind": "cnn", "rounds": 2}, data) for data in (first, last)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("shape", [(5,), (3, 32, 3), (32, 32, 32), (1, 2, 3, 4)])
def test_what_is_no_image_is_refused_in_one_sentence(shape):
    with pytest.raises(ValueError, match=r"shape of a sample = .*: must be \(height, width\)"):
        ImageShape.of(shape)


def test_sequences_of_tokens_are_learned_by_own_modules():
    settings = LOCAL | {"devices.learning_rate": 1.0, "devices.batch_size": 20, "rounds": 10}
    records = train(settings, data_of(sentences), task=Reader)
    assert records[-1].accuracy > 0.9


def test_regression_has_a_loss_and_no_accuracy_unless_it_has_a_score_of_its_own():
    data = data_of(line)
    assert data[1].dtype == np.float64
    records = train({"devices.learning_rate": 0.3, "rounds": 40}, data, task=straight)
    assert records[-1].loss < 1e-3 < records[0].loss
    assert records[-1].accuracy is None
    scored = train({"devices.learning_rate": 0.3, "rounds": 40}, data, task=straight_task)
    assert scored[0].accuracy < 0.5 < 0.95 < scored[-1].accuracy
    layers = {"model.kind": "mlp", "model.hidden": [16], "devices.learning_rate": 0.1, "rounds": 40}
    records = train(layers, data)
    assert records[-1].loss < 0.5 * records[0].loss and records[-1].accuracy is None


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
def test_several_targets_of_a_regression_have_an_output_each(kind):
    """Images whose upper and lower half have a brightness each, which is to be told."""
    rng = np.random.default_rng(3)
    targets = rng.standard_normal((200, 2))
    images = np.repeat(targets, 18, axis=1).reshape(200, 6, 6) + 0.1 * rng.standard_normal((200, 6, 6))
    data = images[:150], targets[:150], images[150:], targets[150:]
    records = train(LOCAL | {"model.kind": kind, "devices.learning_rate": 0.02, "rounds": 10}, data)
    assert records[-1].loss < 0.3 and records[-1].accuracy is None  # one output for both leaves 0.5


def test_several_classes_for_a_sample_are_refused_by_models_with_one():
    images, labels = data_of(vectors)[0], np.zeros((320, 5), int)
    with pytest.raises(ValueError, match=r"shape of a label = \(5,\): must be \(\)"):
        train({"model.kind": "mlp"}, (images, labels, images[:9], labels[:9]))


IMAGES = SimpleNamespace(shape=(12, 12), classes=3, dtype=np.dtype(np.uint8), label_shape=())
TOKENS = SimpleNamespace(shape=(12,), classes=3, dtype=np.dtype(np.int64), label_shape=(12,))
OF_TEXTS = ("gru",)  # models that take no images


def test_a_task_tells_its_tensors_to_the_scheme():
    for name in MODELS.names():
        task = MODELS.get(name).build({})(TOKENS if name in OF_TEXTS else IMAGES)
        assert sum(int(np.prod(shape)) for shape in task.shapes.values()) == task.size
        assert len(task.shapes) > 1


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (nn.Linear(8, 2), "model.kind = 'Linear': is a module: must be its class"),
        (lambda data: 3, "must have size, init, prepare, gradient, evaluate, but has no size"),
        (lambda data: {}["x"], r"cannot make a model .* \(KeyError: 'x', test_models.py line \d+\)"),
        (lambda data: [side for side, _ in data.shape], r"cannot make a model .* \(TypeError: cannot unpack"),
        (3, "model.kind = 'int': must be a task, or a class or a function that makes a module"),
        (lambda a, b: 3, r"cannot make a model for samples of shape \(8,\) \(TypeError"),
    ],
)
def test_what_is_no_model_is_refused_in_one_sentence(model, sentence):
    with pytest.raises(ValueError, match=sentence):
        train({}, data_of(sentences), task=model)


def run_in_folder(out, task, data):
    config = af.load_config(None, SETTINGS | {"rounds": 3, "devices.learning_rate": 0.2})
    return af.run(config, task=task, dataset=data, out=out)


def test_own_modules_have_a_run_folder(tmp_path):
    data = data_of(sentences)
    run = run_in_folder(tmp_path, Reader, data)
    text = (run.folder / "config.toml").read_text()
    assert f'kind = "{Reader.__module__}:Reader"' in text and "width = 12" in text
    assert run_in_folder(tmp_path, Reader, data).folder == run.folder
    other = run_in_folder(tmp_path, partial(Reader, width=3), data)
    assert other.folder != run.folder and "width = 3" in (other.folder / "config.toml").read_text()
    for unnamed in (TorchTask(lambda: nn.Linear(8, 2)), partial(Reader, SimpleNamespace(classes=2))):
        with pytest.raises(ValueError, match="must be a dataclass, .* or the function that makes it"):
            run_in_folder(tmp_path, unnamed, data)


NARROW = {"mlp": {"model.hidden": [8]}, "resnet8": {"model.width": 2}, "resnet20": {"model.width": 2}}


@pytest.mark.parametrize("kind", [name for name in MODELS.names() if name not in OF_TEXTS])
def test_every_model_trains_by_its_preset_and_resumes(kind, data, tmp_path):
    """Small networks, so that most of the time goes elsewhere; stopped after the second round of three."""
    own = {"dataset": str(data), "model.kind": kind, "model.preset": True, "rounds": 3} | NARROW.get(kind, {})
    config = af.load_config(None, small.SETTINGS | {"devices.count": 3, "devices.samples": 40} | own)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert execute(config, cut, stop=small.stop_after(2)).round == 2
    first, second = (execute(config, out).folder for out in (whole, cut))
    for name in ("rounds.jsonl", "summary.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
