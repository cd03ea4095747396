"""The loop: every scheme runs, records what happened, and is a pure function of its state."""

import json
import math

import numpy as np
import pytest

import small
from airfeel.config import load_config, parse_override
from airfeel.lab import rundir
from airfeel.learning.training import Participation
from airfeel.radio.channels import GaussianMAC
from airfeel.registry import SCHEMES
from airfeel.schemes.compressed import Compressed
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import start, steps, train
from airfeel.simulation.records import Record, make_record
from airfeel.uplink.round import Aggregate

DATA = small.arrays()
SIZE = (small.SIDE**2 + 1) * small.CLASSES
NEEDED = {"d_dsgd": {"channel__noise_var": 0.1}}  # what a scheme cannot do without on so small a model


def configure(**settings):
    flat = small.SETTINGS | {"rounds": 6} | {k.replace("__", "."): v for k, v in settings.items()}
    return load_config(None, flat)


def records_of(**settings):
    return list(train(configure(**settings), dataset=DATA))


@pytest.mark.parametrize("scheme", SCHEMES.names())
def test_every_scheme_runs_and_records_what_it_used(scheme):
    records = records_of(scheme=scheme, receiver__learn_from=3, **NEEDED.get(scheme, {}))
    assert [record.round for record in records] == [1, 2, 3, 4, 5, 6]
    part = SCHEMES.get(scheme).target
    radio = part.uses_radio
    for record in records:
        assert 0 < record.accuracy <= 1
        assert record.loss > 0
        assert record.symbols == (round(0.3 * SIZE) * record.round if radio else 0)
        assert (record.nmse_db is not None) == radio
        assert record.energy <= 500.0 * record.round * (1 + 1e-9)
        assert Record(**json.loads(record.to_json())) == record
    # The strongest device spends all its power in every round, but not always the same device is strongest.
    assert (records[-1].energy > 0.2 * 6 * 500) == radio
    received = issubclass(part, Compressed)
    assert (records[-1].iterations is not None) == received
    assert records[-1].loss < math.log(small.CLASSES)


def bearable(scheme, settings):
    """Return settings whose momentum is at the devices, where a scheme refuses it at the server."""
    moved = {"server__momentum": "devices__momentum"} if scheme == "scheduled" else {}
    return {moved.get(key, key): value for key, value in settings.items()}


@pytest.mark.parametrize("scheme", SCHEMES.names())
@pytest.mark.parametrize(
    "setting",
    [
        {"channel__kind": "fading", "channel__csi_error": 0.01},
        {"devices__participation": 0.6, "devices__dropout": 0.3, "uplink__policy": "long_term"},
        {"server__optimizer": "adam", "server__learning_rate": 0.01, "devices__batch_size": 20},
        {
            "devices__spread": 0.5,
            "devices__local_steps": 3,
            "server__schedule": "cosine",
            "server__momentum": 0.5,
        },
        {"partition__kind": "classes", "partition__classes": 2},
        {"partition__kind": "dirichlet", "partition__alpha": 0.5},
    ],
    ids=["fading", "participation", "adam", "spread", "classes", "dirichlet"],
)
def test_every_scheme_works_with_every_part(scheme, setting):
    records = records_of(scheme=scheme, rounds=4, **NEEDED.get(scheme, {}), **bearable(scheme, setting))
    assert [record.round for record in records] == [1, 2, 3, 4]
    assert all(record.energy <= 500.0 * record.round * (1 + 1e-9) for record in records)
    assert all(math.isfinite(record.loss) for record in records)


HEARD = """
    seed=2 scheme=turbo_cs scheme=a_dsgd_mmse scheme=tsa_ga_no_support scheme=tsa_ga_no_amplitude
    channel.kind=fading channel.noise_var=2.0 uplink.power=100.0 uplink.policy=long_term uplink.ratio=0.4
    uplink.sparsity=0.1 uplink.signs=true uplink.fast=true uplink.block=64 devices.participation=0.6
    devices.dropout=0.5 devices.spread=0.5 devices.local_steps=2 devices.batch_size=20 server.optimizer=adam
    server.momentum=0.5 server.learning_rate=0.25 server.schedule=step,server.schedule_every=1 model.l2=0.1
    partition.kind=classes,partition.classes=2 partition.kind=dirichlet,partition.alpha=0.5
    receiver.activity=0.05 receiver.p01=0.3 receiver.beta=0.5 receiver.max_iterations=2
    receiver.amplitude_message=joint
"""


@pytest.mark.parametrize("settings", HEARD.split())
def test_every_setting_is_heard(settings):
    """A key that nothing reads would leave all records as they were."""
    usual, given = configure(rounds=3), dict(map(parse_override, settings.split(",")))
    before, after = (list(train(config, dataset=DATA)) for config in (usual, load_config(usual, given)))
    assert [record.loss for record in before] != [record.loss for record in after]


def test_a_dense_run_is_federated_averaging_by_hand():
    """No radio, so every round is theta - eta_t sum_m w_m g_m over who takes part, w_m by their samples."""
    settings = {
        "scheme": "dense",
        "devices__spread": 0.7,
        "devices__participation": 0.6,
        "devices__local_steps": 2,
        "devices__learning_rate": 0.3,
        "server__learning_rate": 0.8,
        "server__momentum": 0.5,
        "server__schedule": "inverse",
        "server__schedule_every": 3,
    }
    parts = assemble(configure(**settings), Own(dataset=DATA))
    sizes = np.array([len(samples) for samples in parts.data])
    assert len(set(sizes)) > 1
    test = parts.task.prepare(DATA[2], DATA[3])
    theta, velocity = np.zeros(SIZE), np.zeros(SIZE)
    for t, step in enumerate(steps(parts, start(parts)), start=1):
        selected = Participation(0.6).draw(5, seed=parts.config.seed, round=t)[0]
        mean = np.zeros(SIZE)
        for m in np.flatnonzero(selected):
            first = parts.task.gradient(theta, parts.data[m])
            second = parts.task.gradient(theta - 0.3 / (1 + (t - 1) / 3) * first, parts.data[m])
            mean += sizes[m] / sizes[selected].sum() * (first + second)
        velocity = 0.5 * velocity + mean
        theta = theta - 0.8 / (1 + (t - 1) / 3) * velocity
        np.testing.assert_allclose(step.state.theta, theta, rtol=0, atol=1e-5)
        assert step.record.devices == 3
        assert step.record.loss == pytest.approx(parts.task.evaluate(step.state.theta, test).loss)


def test_a_device_that_drops_out_is_not_heard():
    parts = assemble(configure(scheme="common_k", devices__dropout=0.5), Own(dataset=DATA))
    heard = [step.record.devices for step in steps(parts, start(parts))]
    drawn = [Participation(dropout=0.5).draw(5, parts.config.seed, t)[1].sum() for t in range(1, 7)]
    assert heard == drawn
    assert len(set(heard)) > 1


@pytest.mark.parametrize("policy", ["equal", "long_term"])
def test_energy_is_what_the_greediest_device_spent_so_far(policy):
    parts = assemble(configure(scheme="common_k", uplink__policy=policy), Own(dataset=DATA))
    spent, largest = np.zeros(5), []
    for step in steps(parts, start(parts)):
        spent += step.aggregate.energy
        largest.append(step.aggregate.energy.max())
        assert step.record.energy == pytest.approx(spent.max())
    assert (np.max(largest) > 500 * (1 + 1e-6)) == (policy == "long_term")  # savings are spent


@pytest.mark.parametrize("scheme", ["tsa_ga", "tsa_ga_no_support", "tsa_ga_no_amplitude"])
def test_schemes_of_the_paper_have_the_paper_s_receiver_unless_told_otherwise(scheme):
    receiver = configure(scheme=scheme).part("scheme").receiver()
    assert (receiver.amplitude_message, receiver.doubt) == ("expansion", False)
    assert configure(scheme=scheme, receiver__doubt=True).part("scheme").receiver().doubt


@pytest.mark.parametrize("scheme", [*SCHEMES.names(), pytest.param("cnn", marks=pytest.mark.torch)])
def test_a_run_continued_from_a_saved_state_gives_the_same_records(scheme, tmp_path):
    settings = {"scheme": scheme, "receiver__learn_from": 3, "server__momentum": 0.5}
    settings = bearable(scheme, settings) | NEEDED.get(scheme, {})
    if scheme == "cnn":
        settings = {"model__kind": "cnn", "rounds": 3}
    parts = assemble(configure(**settings), Own(dataset=DATA))
    whole = list(steps(parts, start(parts)))
    for step in whole[:-1]:
        rundir.save_checkpoint(tmp_path / "state.npz", step.state, {})
        state, _ = rundir.load_checkpoint(tmp_path / "state.npz")
        rest = [again.record.to_json() for again in steps(parts, state)]
        assert rest == [later.record.to_json() for later in whole[step.record.round :]]


@pytest.mark.parametrize("scheme", ["tsa_ga", "a_dsgd", "common_k", "low_rank", "error_free"])
def test_the_number_of_threads_changes_no_byte(scheme):
    one, four = (
        [record.to_json() for record in records_of(scheme=scheme, run__threads=threads)] for threads in (1, 4)
    )
    assert one == four


def test_evaluation_can_be_rarer_but_never_misses_the_last_round():
    rare = records_of(scheme="common_k", rounds=5, run__evaluate_every=2)
    assert [record.accuracy is not None for record in rare] == [False, True, False, True, True]
    always = records_of(scheme="common_k", rounds=5)
    assert rare[3].accuracy == always[3].accuracy


def test_nmse_and_cumulative_nmse_are_what_they_say():
    parts = assemble(configure(scheme="common_k", uplink__power=5.0), Own(dataset=DATA))
    truth, found = np.zeros(SIZE), np.zeros(SIZE)
    for step in steps(parts, start(parts)):
        x, estimate = step.aggregate.truth, step.aggregate.mean
        truth, found = truth + x, found + estimate
        single = 10 * np.log10(np.sum((estimate - x) ** 2) / np.sum(x**2))
        summed = 10 * np.log10(np.sum((found - truth) ** 2) / np.sum(truth**2))
        assert step.record.nmse_db == pytest.approx(single)
        assert step.record.cumulative_nmse_db == pytest.approx(summed)
        assert step.record.above_zero_db == (single > 0)
        assert step.record.support == np.count_nonzero(x)


@pytest.mark.parametrize(("noise_var", "flagged"), [(0.0, False), (1e6, True)])
def test_a_noisy_round_is_flagged_also_in_air_of_one_s_own(noise_var, flagged):
    quiet = {"config": configure(scheme="common_k", channel__noise_var=noise_var), "dataset": DATA}
    records = list(train(**quiet))
    assert all(record.above_zero_db == flagged for record in records)
    own = train(configure(scheme="common_k"), dataset=DATA, channel=GaussianMAC(noise_var))
    assert list(own) == records


def test_the_found_support_counts_means_beyond_their_deviation():
    aggregate = Aggregate(
        mean=np.array([1.0, 0.5, -2.0, 0.0]),
        truth=np.array([1.0, 0.0, 0.0, 3.0]),
        active=np.array([True]),
        energy=np.zeros(1),
        channel_uses=2,
        alpha=1.0,
        noise_var=0.0,
        variance=np.array([0.1, 0.3, 1.0, 0.0]),
    )
    record = make_record(1, aggregate, None, (aggregate.mean, aggregate.truth), 0.0, 2)
    assert (record.support, record.support_found, record.support_overlap) == (2, 2, 1)
    assert record.accuracy is None
    assert json.loads(record.to_json())["loss"] is None


def test_a_round_without_a_sender_is_silent_and_changes_nothing():
    parts = assemble(
        configure(scheme="common_k", channel__kind="fading", channel__threshold=50.0), Own(dataset=DATA)
    )
    step = next(steps(parts, start(parts)))
    assert step.record.alpha is None
    assert step.record.nmse_db is None
    assert step.record.devices == step.record.symbols == 0
    assert not step.state.theta.any()
