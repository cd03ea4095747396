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
class MineWithMore(Mine):
    """The same, a version later."""

    later: int = af.option(3, "a key that was added")


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


@pytest.mark.parametrize(
    ("settings", "digest"),
    [
        ({"scheme": "error_free"}, "745b96d29163"),
        ({"scheme": "dense", "seed": 3}, "a471c634a422"),
        (
            {
                "scheme": "error_free",
                "devices.participation": 0.5,
                "partition.kind": "classes",
                "partition.classes": 2,
                "devices.batch_size": 30,
            },
            "f1e2768914c5",
        ),
    ],
)
def test_runs_of_version_0_1_keep_their_names_where_their_results_stayed(settings, digest):
    """Hashes that version 0.1 gave: finished runs are found again."""
    assert af.load_config(None, settings).digest() == digest


@pytest.mark.parametrize("scheme", [*SCHEMES.names(), f"{NAME}Mine"])
def test_the_hash_can_be_recomputed_from_the_file_alone(scheme):
    for change in ({}, {"devices.dropout": 0.1}, {"channel.kind": "fading"}, {"uplink.ratio": 0.04}):
        config = af.load_config(None, {"scheme": scheme, "rounds": 7} | change)
        settings = flat(config)
        assert identity.recorded_digest(settings) == settings["identity.hash"] == config.digest()
        settings["seed"] = 5
        assert identity.recorded_digest(settings) != config.digest()
    assert identity.recorded_digest({"scheme": "tsa_ga"}) is None  # a file of version 0.1


def renamed(name, like, **options):
    """Return the identity of a scheme as if it had the name of another."""
    found = af.load_config(None, {"scheme": f"{NAME}{name}"} | options).identity()
    return found | {"scheme": f"{NAME}{like}"}


def test_a_new_key_with_a_default_changes_no_hash():
    assert renamed("MineWithMore", "Mine") == renamed("Mine", "Mine")
    assert renamed("MineWithMore", "Mine", **{"uplink.later": 4}) != renamed("Mine", "Mine")
    assert "uplink.block" not in af.load_config(None).identity()
    assert af.load_config(None, {"uplink.block": 100}).identity()["uplink.block"] == 100


@pytest.mark.parametrize("kind", ["gaussian", "fading"])
def test_a_key_of_version_0_1_is_new_to_other_channels(kind):
    """Fading had a phase error from the start, and hashed it; a channel that learns it keeps its hashes."""
    found = af.load_config(None, {"channel.kind": kind}).identity()
    assert ("channel.phase_error" in found) == (kind == "fading")


def test_a_part_whose_results_change_raises_its_revision():
    revised = renamed("MineRevised", "Mine")
    assert revised.pop("revision.scheme") == 3
    before = renamed("Mine", "Mine")
    assert before.pop("revision.scheme") == CommonK.revision == 2
    assert revised == before
    assert af.load_config(None, {"scheme": "dense"}).identity().get("revision.scheme") is None


def test_keys_that_give_other_results_now_are_hashed_only_where_they_are_used():
    calm, dropping = (af.load_config(None, {"scheme": "dense", "devices.dropout": d}) for d in (0.0, 0.1))
    assert "revision.devices.dropout" not in calm.identity()
    assert dropping.identity()["revision.devices.dropout"] == 2
    fading = af.load_config(None, {"channel.kind": "fading"})
    assert fading.identity()["revision.channel"] == 2


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
    assert (config.uplink.ratio, config.scheme, config.dataset) == (0.25, "tsa_ga", "mnist")
    (tmp_path / "config.toml").write_text('channel = 3\n"channel.kind" = "trap:Channel"\nscheme = [1]')
    assert af.config.read_config(tmp_path / "config.toml") == af.load_config()


def test_the_pool_is_hashed_where_it_can_change_a_result():
    """Version 0.1 drew from the first 50,000 samples of all data; unset, that is still so for its own two."""

    def found(**settings):
        return af.load_config(None, {"scheme": "dense"} | settings).identity()

    for name in ("mnist", "fashion-mnist"):
        assert not any("pool" in key for key in found(dataset=name))
    for name in ("cifar-10", "./mnist", "mine.npz", "my.module:load"):
        assert found(dataset=name)["revision.partition.pool"] == 2
        given = found(dataset=name, **{"partition.pool": 50_000})
        assert given["partition.pool"] == 50_000 and "revision.partition.pool" not in given
    config = af.load_config(None, {"dataset": "mine.npz"})
    assert identity.recorded_digest(flat(config)) == config.digest()
