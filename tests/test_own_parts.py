"""Parts by name and a user's own: the examples hold what the documentation promises, also as commands."""

import hashlib
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.learning.models.softmax import SoftmaxRegression
from airfeel.schemes.common_k import CommonK

EXAMPLES = Path(__file__).parents[1] / "examples"


# What people may well write: every part that works, and every one that cannot.
PLAUSIBLE = """
from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import math
import typing
from typing import TYPE_CHECKING

import airfeel as af
from airfeel.learning.models.softmax import SoftmaxRegression
from own_channel import PathLoss
from own_scheme import Largest
from own_task import HiddenLayer

if TYPE_CHECKING:
    from decimal import Decimal

    import numpy.typing as npt

    from airfeel.learning.tasks import DataShape

def linear(data: DataShape, *, l2: float = 0.0, dtype: str = "float32"):
    return SoftmaxRegression(math.prod(data.shape), data.classes, l2, dtype)

class Maker:
    def __call__(self, data: DataShape, l2: float = 0.5):
        return linear(data, l2=l2)

    def make(self, data: DataShape, l2: float = 0.5):
        return linear(data, l2=l2)

    @classmethod
    def made(cls, data, l2: float = 0.5):
        return linear(data, l2=l2)

class Linear(SoftmaxRegression):
    def __init__(self, data, l2: float = 0.5):
        super().__init__(math.prod(data.shape), data.classes, l2)

less = functools.partial(linear, l2=0.25)
hidden = functools.partial(HiddenLayer, features=64, classes=4)
short = lambda data, l2=0.5: linear(data, l2=l2)
maker = Maker()
bound = maker.make

@dataclasses.dataclass(frozen=True)
class Typed(Largest):
    array: npt.NDArray[typing.Any] | None = None
    number: Decimal = 3
    weight: float = 2.0
    first: typing.Literal["odd", "even"] = "odd"

class Plain(Largest):
    def __init__(self, chance: Decimal = 0.25, count: int = 3):
        super().__init__(chance)

class Derived(Largest):
    def __init__(self):
        super().__init__(chance=0.25)

often = functools.partial(Largest, chance=0.25)
near = functools.partial(PathLoss, exponent=2.0)

largest, loss, task = Largest(), PathLoss(), HiddenLayer(features=64, classes=4)

class Fails(Largest):
    def __init__(self):
        raise RuntimeError("no luck")
class Leaves(Largest):
    def __init__(self):
        raise SystemExit(5)
class Wants(Largest):
    def __init__(self, something):
        pass
class Abstract(Largest):
    @abc.abstractmethod
    def decode(self, state, plan, heard): ...
class Promised(af.Scheme):
    def init(self, shapes, setting):
        return None
class Few(Largest):
    def encode(self, plan):
        return None
class Colour(enum.Enum):
    RED = 1
    init = plan = encode = decode = lambda self, *given: None
@dataclasses.dataclass(frozen=True)
class Factory(Largest):
    extra: list = dataclasses.field(default_factory=lambda: 1 / 0)
@dataclasses.dataclass(frozen=True)
class Hidden(Largest):
    _extra: int = 3
@dataclasses.dataclass(frozen=True)
class Object(Largest):
    extra: object = dataclasses.field(default_factory=object)
class Revised(Largest):
    revision = "two"
class Complete(Largest):
    def complete(self):
        return 5
class Completes(Largest):
    @staticmethod
    def complete(given):
        raise RuntimeError("not now")
class Tuned(HiddenLayer):
    tuned = 5
class Unplanned(Largest):
    def plan(self, state, seed, round):
        return None
class Stumbles(Largest):
    def plan(self, state, seed, round):
        return {}["luck"]
class Unsent(Largest):
    def encode(self, plan, memory, update):
        return update
class Undecoded(Largest):
    def decode(self, state, plan, heard):
        return 3
class Unlinked(PathLoss):
    def link(self, num_devices, symbols, seed, round):
        return 3
class Far(PathLoss):
    def link(self, num_devices):
        return 3
class Halfway(HiddenLayer):
    def gradient(self, theta):
        return theta
def leaves(data):
    raise SystemExit(5)
def nothing():
    raise SystemExit(5)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the modules of somebody who tries things out."""
    folder = tmp_path_factory.mktemp("plausible")
    (folder / "plausible.py").write_text(PLAUSIBLE)
    (folder / "leaving.py").write_text("import sys\n\nsys.exit(3)\n")
    (folder / "broken.py").write_text("def (\n")
    return folder


@pytest.fixture(autouse=True)
def _parts_can_be_imported(monkeypatch, place):
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.syspath_prepend(str(EXAMPLES))


def load(name):
    return __import__(name)


def spots(count, seed):
    """Return images whose class is the place of a bright spot."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, count)
    images = rng.integers(0, 100, (count, 6, 6), dtype=np.uint8)
    images[np.arange(count), labels, labels] = 255
    return images, labels


SETTINGS = {"devices.count": 5, "devices.samples": 80, "devices.learning_rate": 0.5, "uplink.ratio": 0.5}
DATA = (*spots(600, 3), *spots(300, 4))


def train(rounds=60, settings=None, **own):
    flat = {"rounds": rounds, "scheme": "common_k"} | SETTINGS | (settings or {})
    return list(af.train(af.load_config(None, flat), dataset=DATA, **own))


def test_the_own_task_trains_over_the_air():
    task = load("own_task").HiddenLayer(features=36, hidden=12, classes=4)
    records = train(task=task)
    assert records[-1].accuracy > 0.9 > 0.5 > records[0].accuracy


def test_the_own_scheme_learns_where_the_large_coefficients_are():
    """Chance finds them, and from then on the largest one is sent in every round."""
    records = train(scheme=load("own_scheme").Largest(), settings={"uplink.ratio": 0.2})
    assert records[-1].accuracy > 0.9 > records[0].accuracy + 0.2
    assert records[-1].symbols == 60 * round(0.2 * 148)


def test_the_own_receiver_recovers_a_sparse_vector():
    receiver = load("own_receiver").Pursuit(keep=5)
    for seed in range(3):
        operator = af.PartialDCT(size=200, rows=120, seed=seed)
        x = np.zeros(200)
        x[np.random.default_rng(seed).choice(200, 5, replace=False)] = [1, -2, 3, -1, 2]
        estimate, _ = receiver.receive(receiver.init(200), af.Reception(operator @ x, operator, 0.0))
        np.testing.assert_allclose(estimate.mean, x, atol=1e-3)


def own_run(out, **changes):
    flat = {"rounds": 6, "run.checkpoint_every": 2} | SETTINGS
    parts = {"scheme": load("own_scheme").Largest(chance=0.25), "dataset": DATA} | changes
    return af.run(af.load_config(None, flat), out=out, **parts)


def test_a_run_with_own_parts_has_a_folder_is_in_the_table_and_in_the_report(tmp_path):
    run = own_run(tmp_path, channel=load("own_channel").PathLoss(exponent=2.0))
    assert run.summary["rounds"] == 6 and len(run.records) == 6
    assert run.folder.name.startswith("Largest-")
    af.run(af.load_config(None, {"rounds": 6} | SETTINGS), dataset=DATA, out=tmp_path)
    table = af.read_results(tmp_path).to_dict("records")
    assert {row["scheme"] for row in table} == {"own_scheme:Largest", "scheduled"}
    done = small.succeed(["airfeel", "report", str(tmp_path)])
    assert "own_scheme:Largest" in done.stdout and "scheduled" in done.stdout


def test_equal_parts_are_one_run_and_other_options_or_data_another(tmp_path):
    scheme = load("own_scheme").Largest
    first = own_run(tmp_path)
    assert own_run(tmp_path, scheme=scheme(chance=0.25)).folder == first.folder
    others = (
        own_run(tmp_path, scheme=scheme(chance=0.5)),
        own_run(tmp_path, dataset=(*spots(600, 3), *spots(300, 9))),
    )
    assert len({first.folder, *(other.folder for other in others)}) == 3


@pytest.mark.long
def test_an_edited_source_is_named_when_a_run_is_resumed_read_or_compared(data, tmp_path, monkeypatch):
    module = tmp_path / "edited_scheme.py"
    module.write_text((EXAMPLES / "own_scheme.py").read_text())
    monkeypatch.chdir(tmp_path)

    def call(seed):
        words = small.command(data, tmp_path / "out", scheme="edited_scheme:Largest", rounds=2, seed=seed)
        return small.run(words)

    assert call(0).returncode == 0
    assert "was edited" not in call(0).stderr
    module.write_text(module.read_text() + "\n# now different\n")
    assert "the source of scheme = 'edited_scheme:Largest' was edited since" in call(0).stderr
    assert call(1).returncode == 0
    told = small.call(["airfeel", "report", str(tmp_path / "out")])
    assert "the source of scheme = 'edited_scheme:Largest' was edited between runs" in told.stderr


def test_what_cannot_be_named_is_refused_in_one_sentence(tmp_path):
    class Local(load("own_scheme").Largest):
        pass

    with pytest.raises(ValueError, match="scheme = .*: must be of a class at the top of a module"):
        own_run(tmp_path, scheme=Local())
    with pytest.raises(ValueError, match=r"Largest\.chance = .*: must be a number, a text"):
        own_run(tmp_path, scheme=load("own_scheme").Largest(chance=np.ones(2)))
    assert not list(tmp_path.iterdir())


def named(tmp_path, *settings):
    """Return what the command line says to a run of two rounds with these settings."""
    words = small.command(small.write_folder(tmp_path / "data"), tmp_path / "out", rounds=2)
    return small.call([*words, *(word for setting in settings for word in ("--set", setting))])


NAMED = [
    ["scheme=own_scheme:Largest", "uplink.chance=0.3"],
    ["scheme=own_receiver:WithPursuit", "uplink.keep=20"],
    ["channel.kind=own_channel:PathLoss", "channel.exponent=3.5"],
    ["model.kind=own_task:HiddenLayer", "model.features=64", "model.classes=4", "model.hidden=6"],
    ["dataset=own_data:stripes"],
    ["model.kind=plausible:less", "model.dtype=float64"],
    ["model.kind=plausible:hidden", "model.hidden=6"],
    ["model.kind=plausible:linear", "model.l2=0.25"],
    ["model.kind=plausible:short", "model.l2=0.25"],
    ["model.kind=plausible:maker", "model.l2=0.25"],
    ["model.kind=plausible:bound", "model.l2=0.25"],
    ["model.kind=plausible:Maker.made", "model.l2=0.25"],
    ["model.kind=plausible:Maker"],
    ["model.kind=plausible:Linear", "model.l2=0.25"],
    ["scheme=plausible:Typed", "uplink.number=7", "uplink.weight=1.5", "uplink.first=even"],
    ["scheme=plausible:Plain", "uplink.chance=0.125", "uplink.count=2"],
    ["scheme=plausible:Derived"],
    ["scheme=plausible:often"],
    ["channel.kind=plausible:near", "channel.noise_var=0.5"],
    pytest.param(["model.kind=own_module:Tiny", "model.width=4"], marks=pytest.mark.torch),
    pytest.param(["model.kind=own_module:top_three", "model.width=3"], marks=pytest.mark.torch),
]


@pytest.mark.long
@pytest.mark.parametrize("settings", NAMED, ids=lambda settings: settings[0].partition("=")[2])
def test_every_example_and_what_can_be_called_is_a_part_by_its_name(settings, tmp_path):
    done = named(tmp_path, *settings)
    assert done.returncode == 0, done.stderr
    written = (Path(done.stdout.strip()) / "config.toml").read_text()
    for setting in settings:
        key, _, value = setting.partition("=")
        assert f"\n{key.rpartition('.')[2]} = " in f"\n{written}" and value in written
    words = ["airfeel", "run", f"{done.stdout.strip()}/config.toml", "--out", str(tmp_path / "out")]
    again = small.call(words)
    assert again.stdout == done.stdout and "finished before" in again.stderr


@pytest.mark.long
def test_modules_in_the_working_folder_are_found_as_with_python_m(tmp_path):
    words = small.command(small.write_folder(tmp_path / "data"), tmp_path / "out", rounds=1)
    words = [sys.executable, "-B", "-m", *words[2:], "--set", "scheme=own_scheme:Largest"]
    done = subprocess.run(words, cwd=EXAMPLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_a_partial_binds_is_no_option_and_the_module_that_names_it_is_its_source(place):
    config = af.load_config(None, {"model.kind": "plausible:less", "scheme": "plausible:often"})
    assert [option.name for option in config.chosen["model"].options] == ["dtype"]
    assert not config.chosen["scheme"].options
    assert config.part("scheme") == load("own_scheme").Largest(chance=0.25)
    digest = hashlib.sha256((place / "plausible.py").read_bytes()).hexdigest()
    assert config.to_toml().count(digest) == 2
    with pytest.raises(ValueError, match="model.l2 = 0.5: "):
        af.load_config(None, {"model.kind": "plausible:less", "model.l2": 0.5})


ALL = "init, memory, plan, encode, settle, decode, stateless"
HAS = f"must have {ALL}, but has no"
MISTAKES = {
    "scheme": {
        "Fails": r"cannot be made \(RuntimeError: no luck, plausible.py line \d+\)",
        "Leaves": r"cannot be made \(SystemExit: 5, plausible.py line \d+\)",
        "Wants": r"cannot be made \(TypeError: .*missing 1 required positional argument: 'something'\)",
        "Abstract": f"{HAS} decode of its own",
        "Promised": f"{HAS} plan, encode, decode of its own",
        "Few": r"must have encode\(plan, memory, update\), but has encode\(plan\); derive it from ",
        "Colour": f"{HAS} memory, settle, stateless; derive it from af.ErrorFeedback, which calls compress",
        "Maker": f"{HAS} {ALL}",
        "linear": f"{HAS} {ALL}",
        "bound": f"{HAS} {ALL}",
    },
    "channel": {
        "Far": r"must have link\(num_devices, symbols, seed, round\), but has link\(num_devices\)",
        "Largest": "must have link, but has no link",
    },
    "task": {
        "Halfway": r"must have gradient\(theta, samples\), but has gradient\(theta\)",
        "leaves": r"cannot make a model .* \(SystemExit: 5, plausible.py line \d+\)",
    },
}
KEYS = {"scheme": "scheme", "channel": "channel.kind", "task": "model.kind"}
EVERY_MISTAKE = [(seam, name) for seam, names in MISTAKES.items() for name in names]


def refused(done, tmp_path):
    """Return the one line in which a run was refused that left nothing behind."""
    assert done.returncode == 2, done.stderr
    assert not list((tmp_path / "out").glob("runs/*/rounds.jsonl"))
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("seam", "name"), EVERY_MISTAKE)
def test_a_part_that_cannot_be_is_refused_in_one_sentence_by_name(seam, name, tmp_path):
    told = refused(named(tmp_path, f"{KEYS[seam]}=plausible:{name}"), tmp_path)
    assert re.search(f"{KEYS[seam]} = 'plausible:{name}': {MISTAKES[seam][name]}", told), told


@pytest.mark.parametrize(("seam", "name"), EVERY_MISTAKE)
@pytest.mark.parametrize("call", ["train", "run"])
def test_a_part_that_cannot_be_is_refused_in_one_sentence_from_python(seam, name, call, tmp_path):
    config = af.load_config(None, {"rounds": 2} | SETTINGS)
    more = {} if call == "train" else {"out": tmp_path / "out"}
    part = getattr(load("plausible"), name)
    with pytest.raises(ValueError, match=f"{KEYS[seam]} = .*: {MISTAKES[seam][name]}"):
        list(getattr(af, call)(config, dataset=DATA, **{seam: part}, **more))
    assert not list(tmp_path.iterdir())


OTHERS = {
    "scheme=own_scheme:Larger": "must name something in 'own_scheme', which has no 'Larger'",
    "scheme=own_scheme:State": f"{HAS} {ALL}",
    "scheme=own_scheme:Largest uplink.chanse=1": "the nearest valid key is 'uplink.chance'",
    "scheme=own_scheme:Largest uplink.chance=high": "uplink.chance = 'high': must be a finite number",
    "model.kind=own_data:stripes": "model.kind = 'own_data:stripes'",
    "dataset=own_scheme:round_up": "dataset = 'own_scheme:round_up'",
    "scheme=plausible:Typed uplink.weight=much": "uplink.weight = 'much': must be a finite number",
    "scheme=plausible:largest": "must name a class or a function, not an object: Largest(chance=0.5)",
    "scheme=plausibel:Fails": "cannot import 'plausibel' (ModuleNotFoundError: No module named",
    "scheme=plausible: Fails": "must name something in 'plausible', which has no ' Fails'",
    "scheme=leaving:Any": "cannot import 'leaving' (SystemExit: 3, leaving.py line 3)",
    "scheme=broken:Any": "cannot import 'broken' (SyntaxError: invalid syntax (broken.py, line 1))",
    "scheme=airfeel.uplink.scheme:Scheme": f"{HAS} init, plan, encode, decode of its own",
    "model.kind=airfeel.learning.tasks:Task": "cannot be made (TypeError: Protocols cannot be",
    "model.kind=builtins:dict": "cannot be made (ValueError: no signature found",
    "scheme=plausible:Factory": "has options that cannot be told (ZeroDivisionError: division by zero, ",
    "scheme=plausible:Typed uplink.first=never": "uplink.first = 'never': must be one of 'odd', 'even'",
    "scheme=plausible:Hidden": "an option of plausible:Hidden cannot be a key of a configuration (",
    "scheme=plausible:Object": "uplink.extra = <object object at ",
    "scheme=plausible:Revised": "plausible:Revised.revision = 'two': must be a whole number >= 1",
    "scheme=plausible:Complete": "has a method complete, which must return values by the names of",
    "scheme=plausible:Completes": "has a method complete that fails (RuntimeError: not now, plausible.py",
    "model.kind=plausible:Tuned": "has an attribute tuned, which must be values by dotted key, not 5",
    "scheme=plausible:Unplanned": "Unplanned.plan returned a NoneType: must return a Mapping",
    "scheme=plausible:Unsent": "Unsent.encode returned a ndarray: must return a Sent",
    "scheme=plausible:Undecoded": "Undecoded.decode returned a int: must return a tuple",
    "channel.kind=plausible:Unlinked": "Unlinked.link returned a int: must return a Link",
    "scheme=plausible:Stumbles": "airfeel: KeyError: 'luck', plausible.py line ",
    "dataset=plausible:nothing": "must be a function without arguments that returns data (SystemExit: 5, ",
}


@pytest.mark.parametrize("settings", OTHERS)
def test_other_plausible_mistakes_are_one_sentence_too(settings, tmp_path):
    done = named(tmp_path, *re.split(r" (?=\S+=)", settings))
    assert OTHERS[settings] in refused(done, tmp_path) and "Traceback" not in done.stderr


def test_a_class_or_a_partial_stands_for_the_object_that_it_makes(tmp_path):
    scheme, channel, parts = load("own_scheme").Largest, load("own_channel").PathLoss, load("plausible")
    whole = train(2, scheme=scheme(), channel=channel(exponent=2.0))
    assert train(2, scheme=scheme, channel=parts.near) == whole
    assert own_run(tmp_path, scheme=scheme).folder == own_run(tmp_path, scheme=scheme()).folder
    assert own_run(tmp_path, scheme=parts.often).folder == own_run(tmp_path, scheme=scheme(0.25)).folder
    assert train(2, task=SoftmaxRegression(36, 4)) == train(2, task=partial(SoftmaxRegression, 36, 4))


def test_a_method_of_an_object_trains_and_has_no_name_for_a_run_folder(tmp_path):
    parts = load("plausible")
    assert train(2, task=parts.bound) == train(2, task=parts.Maker.made)
    with pytest.raises(ValueError, match="model.kind = .*: must be of a class at the top of a module"):
        own_run(tmp_path, task=parts.bound)
    assert own_run(tmp_path, task=parts.Maker.made).summary["rounds"] == 6


def test_a_name_is_the_key_of_the_configuration(data, tmp_path, monkeypatch):
    """As the command line names the same run."""
    words = small.command(
        data, tmp_path / "out", scheme="own_scheme:Largest", rounds=3, channel__kind="fading"
    )
    done = small.call(words)
    written = {path: path.read_bytes() for path in Path(done.stdout.strip()).iterdir()}
    monkeypatch.setattr("airfeel.lab.runner.steps", None)  # nothing is computed again
    named = {"scheme": "own_scheme:Largest", "channel": "fading", "dataset": data, "out": tmp_path / "out"}
    for run in (
        af.run(small.SETTINGS, rounds=3, **named),
        af.run(af.load_config(small.SETTINGS), rounds=3, task="softmax", **named),
        af.run(af.load_config(small.SETTINGS | {"rounds": 3}), **named | {"channel": {"kind": "fading"}}),
        af.run(Path(done.stdout.strip()) / "config.toml", out=tmp_path / "out"),
    ):
        assert {path: path.read_bytes() for path in run.folder.iterdir()} == written
    assert len(list((tmp_path / "out/runs").iterdir())) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ([], {"scheme": "common_k", "devices": {"count": 5, "samples": 80, "learning_rate": 0.5}}),
        ([{"scheme": "common_k"} | SETTINGS], {}),
        ([{"scheme": "a_dsgd", "rounds": 9} | SETTINGS], {"scheme": "common_k"}),
        ([af.load_config(None, {"rounds": 9} | SETTINGS)], {"scheme": "common_k"}),
        ([SETTINGS], {"scheme": CommonK(), "channel": "gaussian"}),
    ],
)
def test_training_takes_keys_in_all_forms(arguments):
    given, keywords = arguments
    keywords = {"uplink": {"ratio": 0.5}, "dataset": DATA, "rounds": 2, "seed": 4} | keywords
    assert list(af.train(*given, **keywords)) == train(rounds=2, settings={"seed": 4})


@pytest.mark.torch
def test_a_model_by_its_name_has_its_preset():
    flat = SETTINGS | {"rounds": 1, "model.hidden": [3]}
    named = list(af.train(flat, task="mlp", dataset=DATA))
    assert named == list(af.train(af.load_config(flat | {"model.kind": "mlp"}), dataset=DATA))
    assert named == list(af.train(SETTINGS, rounds=1, model={"kind": "mlp", "hidden": [3]}, dataset=DATA))


@pytest.mark.parametrize(
    ("keywords", "sentence"),
    [
        ({"rouds": 5}, "keyword: rouds = 5: unknown key, the nearest valid key is 'rounds'"),
        ({"ratio": 0.1}, "keyword: ratio = 0.1: unknown key, the nearest valid key is 'uplink.ratio'"),
        ({"rounds": 0}, "keyword: rounds = 0: must be a whole number >= 1"),
        ({"scheme": "tsaga"}, "keyword: scheme = 'tsaga': must be one of"),
        ({"task": "mpl"}, "keyword: model.kind = 'mpl': must be one of"),
        ({"channel": "fadin"}, "keyword: channel.kind = 'fadin': must be one of"),
        ({"dataset": "mnits"}, "dataset = 'mnits': must be one of"),
        ({"channel": 3}, "channel.kind = 3: must have link, but has no link"),
    ],
)
@pytest.mark.parametrize("call", [af.train, af.run])
def test_a_mistake_in_a_keyword_is_one_sentence(call, keywords, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError) as caught:
        call(**keywords)
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())
