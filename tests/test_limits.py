"""Values and sizes beyond reason: one sentence before anything is done, or a correct result.

RuntimeWarnings are errors in this suite, so nothing below overflows unnoticed.
"""

import errno
import math
import os
import tracemalloc
from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import airfeel as af
import fakes
import small
from airfeel.config import load_config
from airfeel.lab import runner
from airfeel.lab.report import write_report
from airfeel.lab.runner import execute
from airfeel.lab.store import RunError
from airfeel.learning import partitions
from airfeel.learning.optimizers import Schedule
from airfeel.learning.partitions.rules import Dirichlet
from airfeel.learning.training import Participation
from airfeel.radio.units import RadioUnits
from airfeel.registry import SEAMS
from airfeel.simulation import memory
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import train
from airfeel.theory.bound import LossConstants
from airfeel.theory.planner import LinkBudget
from airfeel.uplink import memory as blocks

DEEP = "[" * 3000 + "]" * 3000
SENTENCES = {
    "uplink.power=1.7e308": "uplink.power = 1.7e+308: must be a finite number >= 1e-30 and <= 1e+30",
    "uplink.power=5e-324": "uplink.power = 5e-324: must be a finite number >= 1e-30",
    "channel.noise_var=1e300": "channel.noise_var = 1e+300: must be a finite number >= 0 and <= 1e+30",
    "receiver.tolerance=1e200": "receiver.tolerance = 1e+200: must be a finite number >= 0 and <= 1e+30",
    "partition.alpha=1e308": "partition.alpha = 1e+308: must be",
    "devices.learning_rate=1"
    + "0" * 400: "devices.learning_rate = a whole number of about 401 digits: must be",
    "uplink.sparsity=1" + "0" * 400: "uplink.sparsity = a whole number of about 401 digits: must be",
    "rounds=1" + "0" * 5000: "characters): must be a whole number >= 1 and <= 1000000000000000",
    "devices.spread=700": "devices.spread = 700: must be a finite number >= 0 and <= 50",
    "rounds=" + DEEP: "--set rounds: lists or tables in one another, deeper than in any configuration",
    "a." * 3000 + "b=1": "lists or tables in one another, deeper than in any configuration",
    "devices.count=100000000": "of memory, and",
}


@pytest.mark.parametrize("setting", SENTENCES, ids=lambda setting: setting[:24])
def test_beyond_reason_is_one_sentence_and_leaves_nothing(data, tmp_path, setting):
    words = small.command(data, tmp_path / "out", rounds=2)
    done = small.call([*words, "--set", setting])
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    line = done.stderr.splitlines()[-1]
    assert line.startswith("airfeel: ") and SENTENCES[setting] in line and len(line) < 500


RESPONSES = {"source": np.ones((1, 6, 4))}
NEEDED = {"response": RESPONSES, "dirichlet": {"alpha": 1.0}, "classes": {"classes": 2}}
OBJECTS = [af.TSAGA(0.1), af.TurboCS(0.1), af.AMP(0.1), af.ChainParams(0.1, 0.1, 0.1), LinkBudget()]
OBJECTS += [LossConstants(0.1, 2.0, 3.0), RadioUnits(1e6, 20, 100), Participation(), Schedule(0.1)]
# What is no number, what may have any sign, and what is checked with the data.
OTHERS = {"source", "record", "memory", "mean", "classes", "hidden", "width", "device", "l2", "preset"}


def options():
    """Yield something that makes a part from one option, with the name of that option: all there are."""
    for registry in SEAMS.values():
        for part in registry.parts():
            found = (option.name for option in part.options if option.annotation is not bool)
            build = partial(lambda part, **own: part.build(NEEDED.get(part.name, {}) | own), part)
            yield from (pytest.param(build, name, id=f"{part.name} {name}") for name in found)
    for made in OBJECTS:
        found = (field.name for field in fields(made) if not isinstance(getattr(made, field.name), bool))
        kind = type(made).__name__
        yield from (pytest.param(partial(replace, made), name, id=f"{kind} {name}") for name in found)


@pytest.mark.parametrize(("build", "name"), [case for case in options() if case.values[1] not in OTHERS])
def test_no_option_takes_what_is_below_its_range_or_no_number(build, name):
    for value in (-1e9, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"^{name}(\[\d\])? = "):
            build(**{name: (value,) if name == "losses_db" else value})


@pytest.mark.parametrize("content", [f"rounds = {DEEP}", "a." * 3000 + "b = 1", "rounds = 1" + "0" * 5000])
def test_the_same_in_a_file(tmp_path, content):
    path = tmp_path / "deep.toml"
    path.write_text(content)
    with pytest.raises(ValueError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: ") and len(str(caught.value)) < 400


@pytest.mark.parametrize("setting", [{"devices.learning_rate": 1e30, "model.l2": 1.0}, {"model.l2": 1e30}])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_training_that_diverges_says_so(setting, optimizer):
    flat = {"rounds": 9, "scheme": "dense", "server.optimizer": optimizer, "devices.local_steps": 3}
    config = load_config(None, small.SETTINGS | flat | setting)
    with pytest.raises(ValueError, match="the training has diverged; lower the learning rate"):
        list(train(config, dataset=small.arrays()))


def test_the_greatest_concentration_gives_equal_shares():
    labels = np.arange(400) % 4
    counts = partitions.class_counts(labels, Dirichlet(1e30).draw(labels, [100, 40], seed=1))
    assert counts.tolist() == [[25] * 4, [10] * 4]


@pytest.mark.parametrize("seed", range(5))
def test_the_widest_spread_is_not_equal(seed):
    sizes = partitions.unequal_sizes(6, 100, 50.0, seed, pool=300)
    assert sum(sizes) == 600 and sorted(sizes)[-2:] == [296, 300] and sorted(sizes)[:4] == [1] * 4
    with pytest.raises(ValueError, match="spread = 800.0: must be a finite number >= 0 and <= 50"):
        partitions.unequal_sizes(6, 100, 800.0, seed)


def test_a_ratio_below_one_channel_use_is_told(data, tmp_path):
    done = small.call(small.command(data, tmp_path, rounds=2, uplink__ratio=1e-9))
    assert "uplink.ratio = 1e-09 of N = 260 is less than one channel use" in done.stderr
    done = small.call(small.command(data, tmp_path, rounds=2))
    assert done.returncode == 0 and "channel use" not in done.stderr


def test_what_is_said_to_fit_does_fit(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 10**6)
    own = Own(dataset=small.arrays())
    with pytest.raises(ValueError) as caught:
        assemble(load_config(None, small.SETTINGS | {"devices.count": 1000}), own)
    text = str(caught.value)
    assert text.startswith("devices.count = 1000: with N = 260 and 100 samples on each they need about ")
    fitting = int(text.split()[-4])
    assert len(assemble(load_config(None, small.SETTINGS | {"devices.count": fitting}), own).data) == fitting
    with pytest.raises(ValueError, match=f"{fitting} devices would fit"):
        assemble(load_config(None, small.SETTINGS | {"devices.count": fitting + 1}), own)
    monkeypatch.setattr(memory, "available", lambda: 10**3)
    with pytest.raises(ValueError, match="not even one device would fit"):
        assemble(load_config(None, small.SETTINGS), own)


IN_FILES = {"devices.count": 100, "devices.samples": 1, "rounds": 7, "run.memory_map_above": 10**6}
ESTIMATED = [({}, name) for name in ("tsa_ga", "a_dsgd", "common_k", "sign_vote", "error_free", "dense")]
LONG = [(IN_FILES | {"receiver.learn_from": 2}, "tsa_ga"), (IN_FILES, "common_k"), (IN_FILES, "dense")]


@pytest.mark.parametrize(
    ("settings", "scheme"), [*ESTIMATED, *(pytest.param(*case, marks=pytest.mark.long) for case in LONG)]
)
def test_the_estimate_is_near_what_a_run_takes(settings, scheme, monkeypatch):
    rng, side, classes = np.random.default_rng(0), 40 if settings else 28, 10 if settings else 4
    arrays = (rng.integers(0, 255, (100, side, side)).astype(np.uint8), np.arange(100) % classes) * 2
    if settings:  # blocks of eight devices, and memories in files
        monkeypatch.setattr(blocks, "BLOCK", 8 * 16_010)
    flat = {"scheme": scheme, "devices.count": 150, "devices.samples": 20, "rounds": 2, "run.threads": 1}
    config = load_config(None, flat | settings)
    tracemalloc.start()  # which does not see what is in files
    parts = assemble(config, Own(dataset=arrays))
    for _ in runner.steps(parts, runner.start(parts)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    least, most = (1 / 1.6, 1.6) if settings else (0.7, 1.5)
    assert least * peak < parts.needs.memory < most * peak
    assert parts.needs.disk == (4 * 4 * 100 * 16_010 if settings else 0)
    assert ("on disk for the devices' memories" in str(parts.needs)) == bool(settings)


def test_memory_that_runs_out_is_a_sentence_and_the_run_goes_on_later(data, tmp_path, monkeypatch):
    flat = {"dataset": str(data), "rounds": 6, "run.checkpoint_every": 2}
    config = load_config(None, small.SETTINGS | flat)
    whole = execute(config, tmp_path / "whole")
    before = runner.steps

    def exhausted(*arguments):
        for step in before(*arguments):
            if step.record.round == 4:
                np.empty(2**56)
            yield step

    monkeypatch.setattr(runner, "steps", exhausted)
    with pytest.raises(
        RunError, match=r"not enough memory \(Unable to allocate .*the same command continues"
    ):
        execute(config, tmp_path / "cut")
    monkeypatch.setattr(runner, "steps", before)
    ended = execute(config, tmp_path / "cut")
    for name in ("rounds.jsonl", "summary.json"):
        assert (ended.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_report_on_a_full_disk(tmp_path, monkeypatch):
    fakes.write_run(load_config(None, {"rounds": 5}), tmp_path)
    real = os.fsync
    left = [3]

    def full(handle):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        RunError, match="^cannot write the report to .*: No space left on device; every file is"
    ):
        write_report(tmp_path)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"]
    assert all(path.stat().st_size for path in written) and not list(tmp_path.rglob("*.tmp"))
