"""The closed form of linear schemes against their rounds over the air, and what it refuses."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import small
from airfeel.cli import main
from airfeel.config.parts import keys
from airfeel.lab.studies.planning import EVERYBODY, draw_air, is_linear
from airfeel.learning.training import Participation
from airfeel.radio.antennas import Antennas
from airfeel.radio.cell import Cell
from airfeel.radio.channels import FadingMAC, GaussianMAC
from airfeel.radio.response import Response
from airfeel.registry import POLICIES, SCHEMES
from airfeel.streams import stream
from airfeel.theory.linear import LinearPlan, noise_energy
from airfeel.theory.planner import METHODS, LinkBudget
from airfeel.uplink.arrive import Radio
from airfeel.uplink.round import begin, carry
from airfeel.uplink.scheme import Setting

SHAPES, SYMBOLS, ROUNDS, POWER = {"w": (200, 100)}, 5000, 12, 30.0  # 60,000 draws of noise: 0.03 dB
WEIGHTS = np.array([3.0, 1.0, 2.0, 2.0, 1.0, 4.0, 1.0]) / 14
LOSSES = tuple(np.linspace(90.0, 110.0, len(WEIGHTS)))
CHANNELS = [
    GaussianMAC(2.0),
    FadingMAC(threshold=0.4),
    FadingMAC(csi_error=0.02),
    Cell(losses_db=LOSSES, reference_db=100.0),
    Antennas(),
]
LINEAR = [name for name in SCHEMES.names() if is_linear(SCHEMES.get(name).kind)]
TENTH = 10**0.01 - 1  # of a decibel, as a share


def rounds(name, channel, policy, updates, weights, seed, taking_part=EVERYBODY, learns=False):
    """Yield the aggregates of rounds that begin with empty memories, unless devices and server ``learns``."""
    scheme = SCHEMES.get(name).build({"clip": 1e30} if name == "scheduled" else {})
    setting = Setting(len(weights), SYMBOLS, rounds=ROUNDS)
    state = begin(scheme, SHAPES, setting)
    for t in range(1, ROUNDS + 1):
        computing, sending = taking_part.draw(len(weights), seed, t)
        found, after = carry(
            scheme,
            Radio(channel, POLICIES.get(policy).target(POWER)),
            state,
            updates,
            weights,
            seed=seed,
            round=t,
            computing=computing,
            sending=sending,
        )
        yield found
        state = after if learns else replace(state, ledger=after.ledger)


def test_these_are_the_linear_schemes():
    assert {"scheduled", "common_k", "low_rank"} <= set(LINEAR)
    assert not {"tsa_ga", "a_dsgd", "sign_vote", "d_dsgd", "error_free"} & set(LINEAR)


def test_the_table_of_what_theory_knows_has_every_scheme_in_its_row():
    page = Path(__file__).parents[2] / "docs" / "theory.md"
    rows = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    known = {"in closed form": LINEAR, "state evolution": METHODS}
    for name in SCHEMES.names():
        (row,) = [line for line in rows if f"`{name}`" in line.split("|")[1]]
        assert [name in of for of in known.values()] == [word in row.split("|")[2] for word in known]
        assert ("no radio" in row) == (not SCHEMES.get(name).kind.uses_radio)


@pytest.mark.parametrize("taking_part", [EVERYBODY, Participation(0.7, 0.2)], ids=["all", "some"])
@pytest.mark.parametrize("policy", ["equal", "long_term", "selection", "mse"])
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
@pytest.mark.parametrize("name", LINEAR)
def test_a_round_s_error_is_that_of_the_closed_form(name, channel, policy, taking_part):
    seed = 5
    update = stream(seed, "update").standard_normal(math.prod(SHAPES["w"]))
    updates = np.tile(update, (len(WEIGHTS), 1))
    found = [r.nmse for r in rounds(name, channel, policy, updates, WEIGHTS, seed, taking_part)]
    air = draw_air(
        channel,
        len(WEIGHTS),
        SYMBOLS,
        ROUNDS,
        seed,
        1,
        POLICIES.get(policy).target(1.0),
        taking_part,
        WEIGHTS,
    )
    link = LinkBudget(len(update), SYMBOLS, len(WEIGHTS), POWER, getattr(channel, "noise_var", 1.0))
    expected = LinearPlan(ROUNDS, air).errors(link)[0]
    heard = [nmse for nmse in found if nmse is not None]
    assert len(heard) >= ROUNDS - 1
    assert abs(np.mean(heard / expected[: len(heard)]) - 1) < TENTH


@pytest.mark.parametrize("taking_part", [EVERYBODY, Participation(0.7)], ids=["all", "some"])
@pytest.mark.parametrize("name", LINEAR)
def test_the_noise_s_energy_follows_from_alpha_whatever_the_devices_send(name, taking_part):
    """In a training too: with ages, controls, error memories and factors of earlier rounds."""
    rng = np.random.default_rng(3)
    updates = rng.standard_normal((len(WEIGHTS), 20_000)) * rng.exponential(size=(len(WEIGHTS), 1))
    ratios = []
    given = GaussianMAC(2.0), "equal", updates, WEIGHTS, 9, taking_part
    for found in rounds(name, *given, learns=True):
        error, heard = float(np.sum((found.mean - found.truth) ** 2)), WEIGHTS[found.active].sum()
        ratios.append(error / noise_energy(SYMBOLS, 2.0, len(WEIGHTS), found.alpha, heard))
    assert abs(np.mean(ratios) - 1) < TENTH


def test_what_is_missing_counts_against_all():
    air = draw_air(GaussianMAC(), 5, 100, 50, participation=Participation(dropout=0.3))
    error, everything = LinearPlan(50, air).errors(LinkBudget(1000, 100, 5, 1e9))
    assert error.max() < 1e-6 and everything.mean() == pytest.approx(0.3**2 + 0.3 * 0.7 / 5, rel=0.1)


def test_devices_that_send_some_symbols_only_are_refused():
    rng = np.random.default_rng(0)
    channel = Response(rng.standard_normal((3, 5, 20, 2)).view(complex)[..., 0])
    with pytest.raises(ValueError, match="must be the same in all symbols of a device"):
        LinearPlan(3, draw_air(channel, 5, 40, 3)).errors(LinkBudget(400, 40, 5))


def predict(capsys, *words):
    assert main(["--quiet", "predict", *words]) == 0
    return capsys.readouterr().out


def test_the_answer_comes_first(capsys):
    out = predict(capsys, "--set", "scheme=scheduled", "--set", "channel.kind=fading", "--rounds", "4")
    assert out.startswith("NMSE of -") and "with what is missing (dB)" in out
    fewer = json.loads(
        predict(capsys, "--json", "--set", "scheme=common_k", "--target-nmse", "-20", "--solve", "power")
    )
    assert fewer["steady_nmse_db"] == pytest.approx(-20, abs=0.1)
    assert fewer["link"]["power"] == pytest.approx(100 * 785 / 25**2, rel=0.02)
    louder = json.loads(predict(capsys, "--json", "--set", "scheme=common_k", "--excess-db", "3"))
    assert louder["steady_nmse_db"] == pytest.approx(10 * math.log10(785 / 25**2 / 500) + 3, abs=1e-3)


def test_weights_follow_the_numbers_of_samples(capsys):
    words = ["--json", "--set", "scheme=common_k", "--set", "devices.count=2"]
    found = json.loads(predict(capsys, *words, "--set", "devices.samples=[100, 300]"))
    expected = 10 * math.log10(785 / 2**2 / 500 * (2 * 0.75) ** 2)  # the heavier device limits alpha
    assert found["steady_nmse_db"] == pytest.approx(expected, abs=1e-3)


def test_a_run_tells_the_errors_of_a_linear_scheme(data, capsys, tmp_path):
    done = small.succeed(small.command(data, tmp_path / "out", rounds=8, scheme="scheduled"))
    run = done.stdout.strip()
    rows = [json.loads(line) for line in Path(run, "rounds.jsonl").read_text().splitlines()]
    own = json.loads(predict(capsys, "--json", run))
    assert own["nmse_db"] == pytest.approx([row["nmse_db"] for row in rows], abs=1e-3)
    assert own["rounds"] == [row["round"] for row in rows] and own["link"]["excess"] > 1
    louder = json.loads(predict(capsys, "--json", run, "--power", str(10 * own["link"]["power"])))
    assert np.subtract(own["nmse_db"], louder["nmse_db"]) == pytest.approx(10, abs=1e-3)
    for words, sentence in [
        (["--excess-db", "3"], "must not be given with a run, which tells it"),
        (["--set", "scheme=common_k"], "must not be changed for the folder of a run"),
        (["--set", "uplink.clip=2"], "uplink.clip = 2.0: must not be given, as this answer does not"),
        (["--set", "devices.learning_rate=1"], "devices.learning_rate = 1.0: must not be given"),
    ]:
        assert main(["--quiet", "predict", run, *words]) == 2
        assert sentence in capsys.readouterr().err


CELL = ["channel.kind=cell", "devices.spread=2"]


@pytest.mark.parametrize(
    "words",
    [
        CELL,
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in ([], ["scheme=tsa_ga"], [*CELL, "radio.bandwidth_hz=1e6", "radio.tx_power_dbm=10"])
        ),
    ],
    ids=str,
)
def test_every_key_changes_the_answer_or_is_refused(words, capsys):
    def told(*words):
        settings = {"scheme": "scheduled"} | dict(word.split("=") for word in words)
        few = ["--samples", "800"] if settings["scheme"] == "tsa_ga" else []
        options = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        code = main(["--quiet", "predict", "--json", "--rounds", "3", *few, *options])
        return code, capsys.readouterr().out

    plain, given = told(*words), {word.partition("=")[0] for word in words}
    for key in {one.name for one in keys()} - {"scheme"} - given:
        found = [told(*words, f"{key}={value}") for value in ("0.07", "3")]
        assert (0, plain[1]) not in found or any(one not in (plain, (2, "")) for one in found), key


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--set", "channel.phase_error=0.1"], "set channel.csi_error, phase_error"),
        (["--set", "model.l2=0.1"], "model.l2 = 0.1: must not be given"),
        (["--set", "scheme=common_k", "--activity", "0.1"], "receiver.activity = 0.1: must not be given"),
        (["--set", "scheme=scheduled", "--set", "uplink.clip=9"], "uplink.clip = 9.0: must not be given"),
        (["--set", "devices.learning_rate=0.1"], "devices.learning_rate = 0.1: must not be given"),
        (["--set", "rounds=9"], "rounds = 9: must not be given"),
        (["--set", "partition.kind=iid"], "partition.kind = 'iid': must not be given"),
        (
            ["--set", "scheme=common_k", "--set", "devices.samples=9"],
            "devices.samples = 9: must not be given",
        ),
        (["--excess-db", "nan"], "--excess-db = nan: must be a finite number"),
        (["--set", "scheme=common_k", "--target-nmse", "-9"], "ask --solve power, or airfeel plan --vary"),
    ],
)
def test_what_an_answer_does_not_depend_on_is_refused(words, sentence, capsys):
    assert main(["--quiet", "predict", *words]) == 2
    assert sentence in capsys.readouterr().err
