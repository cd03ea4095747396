"""The examples of a user's own parts hold what the documentation promises, also from the command line."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.learning.tasks import SoftmaxRegression, Task
from airfeel.radio.power import EqualPower
from airfeel.schemes.common_k import CommonK
from airfeel.uplink.arrive import Air
from airfeel.uplink.result import begin
from airfeel.uplink.round import carry
from airfeel.uplink.scheme import Setting

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def _examples_can_be_imported(monkeypatch):
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


def test_gradient_of_the_own_task_against_finite_differences():
    task = load("own_task").HiddenLayer(features=36, hidden=5, classes=4)
    samples, theta = task.prepare(*spots(50, 0)), task.init(1)
    rng = np.random.default_rng(2)
    for _ in range(5):
        direction = rng.standard_normal(task.size)
        ahead, behind = (task.evaluate(theta + sign * 0.01 * direction, samples).loss for sign in (1, -1))
        assert task.gradient(theta, samples) @ direction == pytest.approx((ahead - behind) / 0.02, rel=0.02)


def test_the_own_task_trains_over_the_air():
    task = load("own_task").HiddenLayer(features=36, hidden=12, classes=4)
    records = train(task=task)
    assert records[-1].accuracy > 0.9 > 0.5 > records[0].accuracy


def test_tasks_have_what_the_protocol_asks():
    needed = [name for name in vars(Task) if not name.startswith("_")]
    for task in (load("own_task").HiddenLayer(), SoftmaxRegression()):
        assert all(hasattr(task, name) for name in needed)


def test_the_own_scheme_learns_where_the_large_coefficients_are():
    """Chance finds them, and from then on the largest one is sent in every round."""
    records = train(scheme=load("own_scheme").Largest(), settings={"uplink.ratio": 0.2})
    assert records[-1].accuracy > 0.9 > records[0].accuracy + 0.2
    assert records[-1].symbols == 60 * round(0.2 * 148)
    scheme, plans = load("own_scheme").Largest(), []
    state = scheme.init({"theta": (5,)}, Setting(devices=1, symbols=2))
    for t in range(1, 61):
        plan = scheme.plan(state, seed=0, round=t)
        sent = scheme.compress(plan, np.array([[0.1, 5.0, 0.2, -7.0, 0.3]]))
        _, state = scheme.decode(state, plan, af.Heard(sent.signal[0], 0.0))
        plans.append(plan["coordinates"])
    assert all(len(set(places)) == 2 for places in plans)
    assert all(3 in places for places in plans[30:])
    assert {place for places in plans for place in places} == set(range(5))


def test_the_own_receiver_recovers_a_sparse_vector():
    receiver = load("own_receiver").Pursuit(keep=5)
    for seed in range(3):
        operator = af.PartialDCT(size=200, rows=120, seed=seed)
        x = np.zeros(200)
        x[np.random.default_rng(seed).choice(200, 5, replace=False)] = [1, -2, 3, -1, 2]
        estimate, _ = receiver.receive(receiver.init(200), af.Reception(operator @ x, operator, 0.0))
        np.testing.assert_allclose(estimate.mean, x, atol=1e-3)


def test_the_own_channel_costs_energy_by_distance():
    channel = load("own_channel").PathLoss()
    link = channel.link(2000, 10, seed=1, round=1)
    # Distances over a disc have density 2r; the cost is max(r, 0.1)^3.
    expected = 0.01 * 0.1**3 + 2 / 5 * (1 - 0.1**5)
    assert link.cost.mean() == pytest.approx(expected, abs=4.5 * link.cost.std() / np.sqrt(2000))
    np.testing.assert_array_equal(link.cost, channel.link(2000, 10, seed=1, round=9).cost)


def test_the_own_channel_carries_a_round_within_the_power():
    air = Air(load("own_channel").PathLoss(noise_var=0.0), EqualPower(7.0))
    gradients = np.random.default_rng(0).standard_normal((8, 30))
    state = begin(CommonK(), {"theta": (30,)}, Setting(devices=8, symbols=30))
    result, _ = carry(CommonK(), air, state, gradients, np.full(8, 1 / 8), seed=0, round=1)
    np.testing.assert_allclose(result.mean, gradients.mean(axis=0), atol=1e-12)
    assert result.energy.max() == pytest.approx(7.0)


def test_the_own_data_can_be_learned():
    flat = {"rounds": 30, "scheme": "dense", "devices.count": 5, "devices.samples": 300}
    config = af.load_config(None, flat | {"devices.learning_rate": 0.3})
    records = list(af.train(config, dataset=load("own_data").stripes()))
    assert records[-1].accuracy > records[0].accuracy > 0.2


NAMED = {
    "scheme": ["scheme=own_scheme:Largest", "uplink.chance=0.3"],
    "receiver": ["scheme=own_receiver:WithPursuit", "uplink.keep=20"],
    "channel": ["channel.kind=own_channel:PathLoss", "channel.exponent=3.5"],
    "model": ["model.kind=own_task:HiddenLayer", "model.features=64", "model.classes=4", "model.hidden=6"],
    "data": ["dataset=own_data:stripes"],
}
NAMED_WITH_TORCH = {
    "module": ["model.kind=own_module:Tiny", "model.width=4"],
    "module's task": ["model.kind=own_module:top_three", "model.width=3"],
}
EVERY = [*NAMED, *(pytest.param(kind, marks=pytest.mark.torch) for kind in NAMED_WITH_TORCH)]


@pytest.mark.parametrize("kind", EVERY)
def test_every_example_runs_from_the_command_line_by_its_name(kind, tmp_path):
    """Modules in the working folder are found, as with python -m."""
    folder = small.write_folder(tmp_path / "data")
    words = small.command(folder, tmp_path / "out", rounds=3)
    settings = (NAMED | NAMED_WITH_TORCH)[kind]
    for setting in settings:
        words += ["--set", setting]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", *words[2:]],
        cwd=EXAMPLES,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    written = (Path(done.stdout.strip()) / "config.toml").read_text()
    for setting in settings:
        key, _, value = setting.partition("=")
        assert f"\n{key.rpartition('.')[2]} = " in f"\n{written}" and value in written


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["scheme=own_scheme:Larger"], "scheme = 'own_scheme:Larger': must name something in 'own_scheme'"),
        (["scheme=no_module:X"], "scheme = 'no_module:X': cannot import 'no_module' (ModuleNotFoundError"),
        (
            ["scheme=own_scheme:State"],
            "scheme = 'own_scheme:State': must have init, plan, encode, decode, but has no",
        ),
        (["scheme=own_scheme:Largest", "uplink.chanse=1"], "the nearest valid key is 'uplink.chance'"),
        (
            ["scheme=own_scheme:Largest", "uplink.chance=high"],
            "uplink.chance = 'high': must be a finite number",
        ),
        (["channel.kind=own_scheme:Largest"], "must have link, but has no link"),
        (["model.kind=own_data:stripes"], "model.kind = 'own_data:stripes'"),
        (["dataset=own_scheme:round_up"], "dataset = 'own_scheme:round_up'"),
    ],
)
def test_a_mistake_about_an_own_part_is_one_sentence(settings, sentence, tmp_path, capsys):
    folder = small.write_folder(tmp_path / "data")
    words = small.command(folder, tmp_path / "out", rounds=2)
    for setting in settings:
        words += ["--set", setting]
    done = small.call(words)
    assert done.returncode == 2
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def own_run(out, **changes):
    flat = {"rounds": 6, "run.checkpoint_every": 2} | SETTINGS
    parts = {"scheme": load("own_scheme").Largest(chance=0.25), "dataset": DATA} | changes
    return af.run(af.load_config(None, flat), out=out, **parts)


def test_a_run_with_own_parts_has_a_folder_is_in_the_table_and_in_the_report(tmp_path):
    run = own_run(tmp_path, channel=load("own_channel").PathLoss(exponent=2.0))
    assert run.summary["rounds"] == 6 and len(run.records) == 6
    assert run.folder.name.startswith("Largest-")
    af.run(af.load_config(None, {"rounds": 6} | SETTINGS), dataset=DATA, out=tmp_path)
    table = af.experiments.campaigns.results.list_results(tmp_path)
    assert {row["scheme"] for row in table} == {"own_scheme:Largest", "tsa_ga"}
    done = small.call(["airfeel", "report", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    assert "own_scheme:Largest" in done.stdout and "tsa_ga" in done.stdout


def test_equal_parts_are_one_run_and_other_options_or_data_another(tmp_path):
    scheme = load("own_scheme").Largest
    first = own_run(tmp_path)
    assert own_run(tmp_path, scheme=scheme(chance=0.25)).folder == first.folder
    others = (
        own_run(tmp_path, scheme=scheme(chance=0.5)),
        own_run(tmp_path, dataset=(*spots(600, 3), *spots(300, 9))),
    )
    assert len({first.folder, *(other.folder for other in others)}) == 3


def test_an_interrupted_run_with_own_parts_goes_on_with_the_same_bytes(tmp_path, monkeypatch):
    """The state of an own scheme, a dataclass of its own, survives without pickle."""
    from airfeel.experiments.runs import runner

    whole = own_run(tmp_path / "whole")
    original, seen = runner.steps, []

    def stumbling(*arguments):
        for step in original(*arguments):
            seen.append(step.record.round)
            yield step
            if step.record.round == 4:
                raise KeyboardInterrupt

    monkeypatch.setattr(runner, "steps", stumbling)
    with pytest.raises(KeyboardInterrupt):
        own_run(tmp_path / "broken")
    monkeypatch.setattr(runner, "steps", original)
    again = own_run(tmp_path / "broken")
    assert seen[-1] == 4
    assert (again.folder / "rounds.jsonl").read_bytes() == (whole.folder / "rounds.jsonl").read_bytes()


@pytest.mark.once
def test_an_edited_source_is_named_when_a_run_is_resumed_read_or_compared(tmp_path, monkeypatch):
    module = tmp_path / "edited_scheme.py"
    module.write_text((EXAMPLES / "own_scheme.py").read_text())
    monkeypatch.chdir(tmp_path)
    data = small.write_folder(tmp_path / "data")

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
