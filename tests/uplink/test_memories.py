"""Memories of any names, widths and types: in files, in checkpoints, at clients, in the estimate, or none."""

import os
import tracemalloc
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.lab import rundir
from airfeel.lab.api import named
from airfeel.lab.runner import execute
from airfeel.radio.channels import FadingMAC, GaussianMAC
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.memory import estimate
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin
from airfeel.uplink.scheme import Setting
from rounds import FirstOnes, Tracking, handed_over

SETTINGS = small.SETTINGS | {"rounds": 7, "devices.participation": 0.6, "run.checkpoint_every": 2}


def run(out, above, **changes):
    config = af.load_config(None, SETTINGS | {"run.memory_map_above": above} | changes)
    return af.run(config, scheme=Tracking(), dataset=small.arrays(), out=out)


def test_two_memories_lie_in_one_file_and_change_no_byte(tmp_path, monkeypatch):
    real, sizes = rundir.save_checkpoint, set()

    def save(path, *given):
        real(path, *given)
        sizes.update(os.path.getsize(kept) for kept in path.parent.glob("memory-*.bin"))

    monkeypatch.setattr(rundir, "save_checkpoint", save)
    plain, mapped = run(tmp_path / "plain", 10**9), run(tmp_path / "files", 0)
    assert (mapped.folder / "rounds.jsonl").read_bytes() == (plain.folder / "rounds.jsonl").read_bytes()
    assert sizes == {5 * 260 * 4 + 48}  # means, then counters up to a whole multiple of 16
    assert not list(mapped.folder.glob("memory*"))


@pytest.mark.parametrize("forged", [{}, {"mean": np.zeros((5, 260))}, "wider"])
def test_a_checkpoint_with_other_memories_is_not_used(forged, tmp_path):
    config = af.load_config(None, SETTINGS)
    own = Own(scheme=Tracking(), dataset=small.arrays())
    config = named(config, own)
    folder = execute(config, tmp_path, own=own, stop=small.stop_after(3)).folder
    saved, facts = rundir.load_checkpoint(folder / "checkpoint.npz")
    other = {key: np.append(part, part, axis=1) for key, part in saved.uplink.memory.items()}
    memory = other if forged == "wider" else forged
    changed = replace(saved, uplink=replace(saved.uplink, memory=memory))
    rundir.save_checkpoint(folder / "checkpoint.npz", changed, facts)
    (folder / "checkpoint.npz.previous").unlink()
    expected = run(tmp_path / "plain", 10**9).folder / "rounds.jsonl"
    again = execute(config, tmp_path, own=own).folder
    assert (again / "rounds.jsonl").read_bytes() == expected.read_bytes()


def test_the_estimate_counts_what_the_scheme_carries():
    needs = {}
    for scheme in (FirstOnes(), Tracking(), af.Compressed()):
        config = af.load_config(None, small.SETTINGS)
        parts = assemble(config, Own(scheme=scheme, dataset=small.arrays()))
        source = SimpleNamespace(shape=(8, 8), pool_size=lambda pool: 600)
        few, many = (
            estimate(config, parts.task, source, scheme, devices).memory - 4.5 * 64 * 100 * devices
            for devices in (1000, 2000)
        )
        needs[type(scheme).__name__] = (many - few) / 1000
    rounds = needs["FirstOnes"]  # signals, and a block of updates
    assert needs["Tracking"] - rounds == pytest.approx(2 * (4 * 260 + 8))
    assert needs["Compressed"] - rounds == pytest.approx(2 * 4 * 260)


@pytest.mark.parametrize("channel", [GaussianMAC(1.0), FadingMAC()], ids=["gaussian", "fading"])
def test_a_round_of_a_stateless_scheme_takes_what_its_twenty_devices_need(channel):
    """M = 10,000 devices of which 20 compute, N = 1e5: as much memory as where there are no others."""
    size, row, peaks = 100_000, np.random.default_rng(1).standard_normal(100_000).astype(np.float32), []
    for devices in (20, 10_000):
        computing = np.zeros(devices, bool)
        computing[:: devices // 20] = True
        state = begin(FirstOnes(), {"theta": (size,)}, Setting(devices, size // 10))
        given = (
            Radio(channel),
            state,
            lambda some: np.tile(row, (len(some), 1)),
            np.full(devices, 1 / devices),
        )
        tracemalloc.start()
        result, after = handed_over(FirstOnes(), *given, seed=1, round=1, computing=computing)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert after.memory == {} and 0 < result.active.sum() <= 20
    updates = 20 * size * 4
    assert peaks[0] < 4 * updates and peaks[1] < peaks[0] + 200 * 10_000  # a few numbers of each device


@pytest.mark.flower
def test_clients_carry_the_memories_of_the_scheme():
    """Each has the mean and the number of its own rounds, whether its replies arrived or not."""
    import flower_apps as apps
    from airfeel.flower import AirAvg, AirMod

    updates = {device: [] for device in range(4)}

    def step(model, device, round):
        update = np.random.default_rng([device, round]).standard_normal((6, 10)).astype(np.float32)
        updates[device].append(update.reshape(-1))
        return {"w": model["w"] - update}

    def lossy(round, node, reply):
        return [] if (round + node) % 3 == 0 else [reply]

    grid = apps.Faulty(apps.app(step, mod=AirMod(schemes=[Tracking])), 4, lossy)
    strategy = AirAvg(Tracking(), 0.5, min_available_nodes=4, fraction_evaluate=0.0)
    strategy.start(grid, apps.record({"w": np.zeros((6, 10), np.float32)}), 6)
    for node, context in grid.contexts.items():
        rows, own = apps.arrays(context.state["airfeel-memory"]), updates[node - 1001]
        assert rows["heard.rounds"].dtype == np.int64 and rows["unheard.rounds"].tolist() == [len(own)]
        np.testing.assert_allclose(rows["heard.mean"], np.mean(own, axis=0), atol=1e-5)


@pytest.mark.flower
def test_a_client_of_a_stateless_scheme_keeps_nothing_and_is_not_taken_for_restarted():
    import flower_apps as apps
    from airfeel.flower import AirAvg, AirMod

    grid = apps.LocalGrid(apps.app(apps.drift, mod=AirMod(schemes=[FirstOnes])), 3)
    strategy = AirAvg(FirstOnes(), 0.5, min_available_nodes=3, fraction_evaluate=0.0)
    strategy.start(grid, apps.record(apps.model()), 3)
    assert not any(context.state for context in grid.contexts.values())
    assert [report.restarted for report in strategy.rounds] == [()] * 3
