"""Hertz, watts and seconds: hand-computed cases, round trips, and budgets that nobody exceeds."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import airfeel as af
import small
from airfeel.config import build_config
from airfeel.radio.units import RadioUnits, watts
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import start, steps
from airfeel.units import decibel

# Bandwidth, transmit power, noise figure, path loss; noise power in dBm by hand with -173.975 dBm/Hz; SNR.
CASES = [
    (20e6, 23.0, 7.0, 120.0, -93.965, -3.035),
    (1e6, 20.0, 0.0, 100.0, -113.975, 33.975),
    (180e3, 10.0, 5.0, 140.0, -116.422, -13.578),
    (100e6, 30.0, 9.0, 95.0, -84.975, 19.975),
]
RADIO = {"bandwidth_hz": 20e6, "tx_power_dbm": 23.0, "path_loss_db": 115.0}


@pytest.mark.parametrize(("bandwidth", "power", "figure", "loss", "noise_dbm", "snr_db"), CASES)
def test_hand_computed_cases(bandwidth, power, figure, loss, noise_dbm, snr_db):
    units = RadioUnits(bandwidth, power, loss, figure, overhead=0.25)
    assert decibel(units.noise_density * bandwidth) + 30 == pytest.approx(noise_dbm, abs=1e-3)
    assert units.snr_db == pytest.approx(snr_db, abs=1e-3)
    # 1000 real symbols are 500 channel uses: 500 / B seconds and a quarter more.
    assert units.air_seconds(1000) == pytest.approx(625 / bandwidth, rel=1e-12)
    assert units.power(1000) == pytest.approx(1000 * 10 ** (snr_db / 10), rel=1e-3)


def test_the_paper_s_power_is_an_snr_of_minus_two_decibel():
    units = RadioUnits(20e6, 23, 100).with_snr_db(10 * math.log10(500 / 785))
    assert units.power(785) == pytest.approx(500)
    assert units.snr_db == pytest.approx(-1.96, abs=0.01)


levels, shares = st.floats(-100, 100), st.floats(0, 1)


@given(st.floats(1e3, 1e9), levels, st.floats(0, 200), st.floats(0, 20), shares, st.integers(1, 10**7))
def test_the_budget_in_joules_is_power_times_air_time(bandwidth, power, loss, figure, overhead, symbols):
    units = RadioUnits(bandwidth, power, loss, figure, overhead)
    budget = units.joules(units.power(symbols))
    assert budget == pytest.approx(watts(power) * units.air_seconds(symbols), rel=1e-9)


def small_config(**more):
    return af.load_config(None, small.SETTINGS | {"rounds": 4} | more)


def radio_config(**more):
    return small_config(**({f"radio.{key}": value for key, value in RADIO.items()} | more))


@pytest.mark.parametrize("scheme", ["tsa_ga", "common_k", "scheduled", "d_dsgd", "a_dsgd"])
@pytest.mark.parametrize("kind", ["gaussian", "fading"])
def test_nobody_exceeds_transmit_power_times_air_time(scheme, kind):
    """In every round, whatever the number of its symbols; and records add both up."""
    loss = 80.0 if scheme == "d_dsgd" else 115.0  # its messages need a better link
    config = radio_config(scheme=scheme, **{"radio.path_loss_db": loss, "channel.kind": kind, "rounds": 6})
    parts = assemble(config, Own(dataset=small.arrays()))
    units = parts.units
    seconds, spent, largest = 0.0, 0.0, 0.0
    for step in steps(parts, start(parts)):
        record = step.record
        took = units.air_seconds(step.aggregate.channel_uses)
        joules = [units.joules(energy) for energy in step.aggregate.energy]
        assert max(joules) <= watts(23) * took * (1 + 1e-9)
        seconds += took
        if took:  # else nobody was heard
            largest = max(largest, max(joules) / (watts(23) * took))
        spent = units.joules(float(step.state.uplink.ledger.spent.max()))
        assert record.air_seconds == pytest.approx(seconds)
        assert record.joules == pytest.approx(spent)
        assert record.joules <= watts(23) * record.air_seconds * (1 + 1e-9)
    if scheme in ("tsa_ga", "common_k"):
        assert largest == pytest.approx(1)  # the strongest device uses all it may


def test_the_same_run_as_with_p_and_noise_in_the_units_of_the_paper():
    with_units, data = radio_config(), small.arrays()
    parts = assemble(with_units, Own(dataset=data))
    plain = small_config(**{"uplink.power": parts.units.power(parts.setting.symbols)})
    for ours, theirs in zip(af.train(with_units, dataset=data), af.train(plain, dataset=data), strict=True):
        first, second = json.loads(ours.to_json()), json.loads(theirs.to_json())
        assert set(first) - set(second) == {"air_seconds", "downlink_seconds", "joules"}
        same = {key: first[key] for key in second}
        numbers = {key: value for key, value in second.items() if isinstance(value, float)}
        assert {key: same[key] for key in numbers} == pytest.approx(numbers, rel=1e-6)
        assert all(same[key] == value for key, value in second.items() if key not in numbers)


@pytest.mark.parametrize("stated", [None, 2.0])
@pytest.mark.parametrize("kind", ["gaussian", "fading", "cell", "antennas"])
@pytest.mark.parametrize(
    ("scheme", "keys", "whole"),
    [
        *(("common_k", {}, False), ("scheduled", {}, False), ("low_rank", {"uplink.ratio": 0.3}, False)),
        *(("tsa_ga", {}, True), ("sign_vote", {}, True), ("common_k", {"server.momentum": 0.5}, True)),
        ("d_dsgd", {"radio.tx_power_dbm": 60.0}, True),
    ],
)
def test_the_way_back_carries_the_model_or_what_was_sent_at_the_weakest_device_s_rate(
    scheme, keys, whole, kind, stated
):
    radio = {f"radio.{key}": value for key, value in RADIO.items() if (kind, key) != ("cell", "path_loss_db")}
    radio |= {} if stated is None else {"radio.downlink_bps_hz": stated}
    config = small_config(**{"scheme": scheme, "channel.kind": kind} | radio | keys)
    parts = assemble(config, Own(dataset=small.arrays()))
    seconds, units, heard = 0.0, parts.units, 0
    for step in steps(parts, start(parts)):
        record, symbols = step.record, step.aggregate.channel_uses
        if symbols:
            link = parts.air.channel.link(len(parts.data), symbols, config.seed, record.round)
            weakest = math.log2(1 + units.snr / link.cost[link.active].max()) / (1 + units.overhead)
            numbers = record.downlink + (parts.task.size if whole else symbols)
            seconds += 32 * numbers / (weakest if stated is None else stated) / units.bandwidth_hz
            heard += 1
        assert record.downlink_seconds == pytest.approx(seconds)
    assert heard


def test_a_scheme_without_radio_spends_no_time_on_air():
    """Its run is the same with and without the table: same hash, same bytes."""
    with_units, plain = radio_config(scheme="error_free"), small_config(scheme="error_free")
    assert with_units.digest() == plain.digest()
    first, second = (list(af.train(config, dataset=small.arrays())) for config in (with_units, plain))
    assert [record.to_json() for record in first] == [record.to_json() for record in second]


def test_the_table_survives_its_file(tmp_path):
    config = radio_config()
    (tmp_path / "config.toml").write_text(config.to_toml())
    again = af.load_config(tmp_path / "config.toml")
    assert again.digest() == config.digest()
    assert again.uplink.power is None and again.radio == config.radio
    assert again.radio.noise_figure_db == 7 and again.radio.overhead == 0.3
    plain = af.load_config()
    assert "[radio]" not in plain.to_toml() and "bandwidth_hz" in plain.template()


def test_without_a_radio_nothing_takes_the_place_of_p():
    rule = "uplink.power is missing: must be given where there is no table [radio]"
    with pytest.raises(ValueError, match=re.escape(rule)):
        build_config({}, {"uplink.power": None})
