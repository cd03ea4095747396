"""What names a run: the same hash for the same result, whatever was added to airfeel since."""

import pickle
import tomllib
from dataclasses import dataclass
from typing import ClassVar

import pytest

import airfeel as af
from airfeel.config import identity, mistakes
from airfeel.registry import SCHEMES, fixed
from airfeel.schemes.common_k import CommonK
from airfeel.schemes.error_free import ErrorFree

NAME = "test_identity:"


@dataclass(frozen=True)
class Mine(CommonK):
    """A scheme with an option of its own."""

    strength: float = af.option(1.0, "a number")


@dataclass(frozen=True)
class MineRevised(Mine):
    """The same, with other results."""

    revision: ClassVar[int] = 3


@dataclass(frozen=True)
class Closed(ErrorFree):
    """A scheme that fixes what another leaves open."""

    sparsity: float = fixed(0.5)


def flat(config):
    return mistakes.flatten(tomllib.loads(config.to_toml()))


@pytest.mark.parametrize("scheme", [*SCHEMES.names(), f"{NAME}Mine"])
def test_the_hash_can_be_recomputed_from_the_file_alone(scheme):
    for change in ({}, {"devices.dropout": 0.1}, {"channel.kind": "fading"}, {"uplink.ratio": 0.04}):
        config = af.load_config(None, {"scheme": scheme, "rounds": 7} | change)
        settings = flat(config)
        assert identity.recorded_digest(settings) == settings["identity.hash"] == config.digest()
        settings["seed"] = 5
        assert identity.recorded_digest(settings) != config.digest()
    assert identity.recorded_digest({"scheme": "tsa_ga"}) is None  # a file that does not say what was hashed


def renamed(name, like):
    """Return the identity of a scheme as if it had the name of another."""
    return af.load_config(None, {"scheme": f"{NAME}{name}"}).identity() | {"scheme": f"{NAME}{like}"}


@pytest.mark.parametrize("scheme", ["tsa_ga", "dense", f"{NAME}Mine"])
def test_all_keys_that_are_read_are_hashed_with_their_values(scheme):
    """Also those with their defaults: so a default may change, and no two different runs share a hash."""
    config = af.load_config(None, {"scheme": scheme, "server.optimizer": "adam", "name": "mine"})
    found, unread = config.identity(), {"name", "model.preset", *config.chosen.others}
    unread |= {f"run.{key}" for key in ("checkpoint_every", "threads", "memory_map_above")}
    if scheme == "dense":
        unread |= {key for key in flat(config) if key.startswith("channel.")}
        unread |= {"uplink.ratio", "uplink.power", "uplink.policy"}
    read = {key: value for key, value in flat(config).items() if not key.startswith("identity.")}
    assert {key for key in found if not key.startswith("revision.")} == read.keys() - unread
    assert all(found[key] == read[key] for key in read.keys() - unread)
    assert (found["server.beta1"], found["devices.local_steps"], found["devices.training"]) == (0.9, 1, "sgd")
    assert "partition.pool" not in found  # unset: what it stands for is told by the data set


def test_an_identity_is_computed_anew_for_a_copy():
    config = af.load_config(None)
    assert config.digest() == identity.digest(config.identity())
    copy = config.model_copy(update={"seed": 3})
    assert copy.digest() == af.load_config(None, {"seed": 3}).digest() != config.digest()
    config.identity()["seed"] = 5
    assert config.identity()["seed"] == 0


def test_a_part_whose_results_change_raises_its_revision():
    revised = renamed("MineRevised", "Mine")
    assert revised.pop("revision.scheme") == 3
    before = renamed("Mine", "Mine")
    assert before.pop("revision.scheme") == CommonK.revision == 2
    assert revised == before
    assert af.load_config(None, {"scheme": "dense"}).identity().get("revision.scheme") is None
    assert af.load_config(None, {"channel.kind": "fading"}).identity()["revision.channel"] == 2


def test_only_what_a_part_reads_is_hashed():
    def digests(scheme, *changes):
        return {af.load_config(None, {"scheme": scheme} | change).digest() for change in changes}

    assert len(digests("common_k", {}, {"uplink.sparsity": 0.1}, {"receiver.p01": 0.1})) == 1
    assert len(digests("dense", {}, {"uplink.ratio": 0.5}, {"channel.noise_var": 3.0})) == 1
    assert len(digests("tsa_ga_no_support", {}, {"receiver.p01": 0.1})) == 1
    assert len(digests("tsa_ga", {}, {"receiver.p01": 0.1}, {"uplink.order": "turns"})) == 2
    assert len(digests(f"{NAME}Closed", {}, {"uplink.sparsity": 0.3})) == 1
    assert len(digests(f"{NAME}Mine", {}, {"uplink.strength": 2.0})) == 2


def test_a_configuration_travels_to_other_processes():
    for scheme in ("a_dsgd", f"{NAME}Mine"):
        config = af.load_config(None, {"scheme": scheme, "channel.kind": "fading", "devices.count": 3})
        again = pickle.loads(pickle.dumps(config))  # our own bytes
        assert again == config and again.label() == config.label() and type(again) is type(config)


def test_reading_the_file_of_a_run_imports_nothing_it_names(tmp_path, monkeypatch):
    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    text = af.load_config(None, {"scheme": "common_k", "uplink.ratio": 0.25}).to_toml()
    for old, new in (
        ('scheme = "common_k"', 'scheme = "trap:Scheme"'),
        ('kind = "gaussian"', 'kind = "trap:Channel"\nthreshold = 0.2'),  # as another channel has it
        ('kind = "softmax"', 'kind = "trap:Model"\nown_key = 3'),
        ('dataset = "mnist"', 'dataset = "trap:load"'),
    ):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "config.toml").write_text(text)
    config = af.config.read_config(tmp_path / "config.toml")
    assert (config.uplink.ratio, config.scheme, config.dataset) == (0.25, "scheduled", "mnist")
    (tmp_path / "config.toml").write_text('channel = 3\n"channel.kind" = "trap:Channel"\nscheme = [1]')
    assert af.config.read_config(tmp_path / "config.toml") == af.load_config()


def test_the_pool_is_hashed_where_it_is_given():
    def found(**settings):
        return af.load_config(None, {"dataset": "mine.npz", **settings}).identity()

    assert not any("pool" in key for key in found())
    assert found(**{"partition.pool": 50_000})["partition.pool"] == 50_000
