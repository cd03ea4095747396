"""Presets: values that a model brings along, for keys that nobody gave; and the keys of local training."""

import tomllib
from dataclasses import dataclass
from typing import ClassVar

import pytest

import airfeel as af
import small
from airfeel.config import build_config
from airfeel.learning.training.sgd import LocalSGD
from airfeel.registry import MODELS
from airfeel.simulation.assembly import Own, assemble

NAME = "test_presets:"


@dataclass(frozen=True)
class Tuned:
    """A model with a preset."""

    tuned: ClassVar = {"devices.learning_rate": 0.25, "devices.local_epochs": 2, "devices.batch_size": 20}

    def __call__(self, data):
        return MODELS.get("softmax").build({})(data)


class Plain:
    """A local training without options."""

    def accumulated_gradient(self, task, theta, samples, rate, seed, round, device):
        return task.gradient(theta, samples)


PRESET, PLAIN = {"model.kind": f"{NAME}Tuned"}, {"devices.training": f"{NAME}Plain"}


@pytest.mark.parametrize(
    ("given", "rates", "others"),
    [
        ({}, (0.25, 0.25), {"local_epochs": 2, "batch_size": 20}),
        ({"devices.learning_rate": 0.5, "devices.batch_size": 7}, (0.5, 0.5), {"batch_size": 7}),
        ({"devices.local_steps": 3}, (0.25, 0.25), {"local_steps": 3, "local_epochs": None}),
        (
            PLAIN,
            (0.25, 0.25),
            {"batch_size": None, "local_epochs": None},
        ),  # which that training does not read
    ],
)
def test_a_preset_fills_what_is_not_given_and_nothing_else(given, rates, others):
    config = af.load_config(None, PRESET | given)
    assert (config.devices.learning_rate, config.server.learning_rate) == rates
    assert {key: getattr(config.devices, key) for key in others} == others
    assert given != PLAIN or config.options("training") == {}


def test_without_the_preset_the_defaults_hold():
    """Softmax has none, and that of the CNN must be asked for."""
    for own in ({"model.kind": f"{NAME}Tuned", "model.preset": False}, {}, {"model.kind": "cnn"}):
        config, plain = af.load_config(None, own), af.load_config(None, {"model.kind": "softmax"})
        assert config.devices == plain.devices and config.server == plain.server
    asked = af.load_config(None, {"model.kind": "cnn", "model.preset": True})
    assert asked.devices != plain.devices


def test_the_values_of_a_preset_are_hashed_and_how_they_came_is_not():
    preset, without = (af.load_config(None, PRESET | {"model.preset": use}) for use in (True, False))
    assert preset.identity()["devices.batch_size"] == 20
    by_hand = af.load_config(None, PRESET | {"model.preset": False} | Tuned.tuned)
    assert by_hand.digest() == preset.digest() != without.digest()


@pytest.mark.parametrize("kind", [*MODELS.names(), f"{NAME}Tuned"])
def test_a_file_with_all_values_is_the_same_run_again(kind):
    for change in ({}, {"devices.local_steps": 2}, {"devices.local_epochs": 1}, {"model.preset": True}):
        config = af.load_config(None, {"model.kind": kind} | change)
        again = build_config(tomllib.loads(config.to_toml()))
        assert again == config and again.digest() == config.digest()


def test_an_object_takes_the_place_of_the_model_and_brings_no_preset(tmp_path):
    config = af.load_config(None, small.SETTINGS | {"rounds": 2, "scheme": "dense"})
    run = af.run(config, task=Tuned(), dataset=small.arrays(), out=tmp_path)
    assert run.records == list(af.train(config, task=Tuned(), dataset=small.arrays()))
    assert "batch_size" not in tomllib.loads((run.folder / "config.toml").read_text())["devices"]


def test_the_keys_of_local_training_reach_the_devices():
    keys = {"local_epochs": 2, "batch_size": 30, "momentum": 0.9, "weight_decay": 1e-4}
    settings = small.SETTINGS | {f"devices.{key}": value for key, value in keys.items()}
    parts = assemble(af.load_config(None, settings), Own(dataset=small.arrays()))
    assert parts.training == LocalSGD(1, 30, 2, 0.9, 1e-4)


def test_a_rule_for_the_devices_alone_leaves_the_server_as_it_is():
    falling = {"server.schedule": "step", "server.schedule_every": 1, "server.schedule_factor": 0.5}
    own = {"devices.schedule": "inverse", "devices.schedule_every": 2}
    both, apart = (
        assemble(af.load_config(None, small.SETTINGS | settings), Own(dataset=small.arrays()))
        for settings in (falling, falling | own)
    )
    assert (both.local_rate(2), both.server_rate(2)) == (0.25, 0.25)
    assert (apart.local_rate(2), apart.server_rate(2)) == (pytest.approx(0.5 / 1.5), 0.25)
