"""``airfeel predict`` from flags, configurations and runs."""

import importlib.util
import json
import math

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.cli import main
from airfeel.lab.studies.planning import contour, draw_map
from airfeel.radio.units import RadioUnits
from airfeel.theory.planner import LinkBudget, LinkPlan, Method

QUICK = ["--samples", "4000", "--rounds", "8"]
RADIO = ["--bandwidth-hz", "5e6", "--tx-power-dbm", "10", "--path-loss-db", "120"]


def predict(capsys, *arguments):
    assert main(["--quiet", "predict", *QUICK, *arguments]) == 0
    return capsys.readouterr().out


def test_text_holds_rounds_and_link_budget(capsys):
    out = predict(capsys, "--activity", "0.05", "--ratio", "0.2", "--devices", "10")
    assert "round   NMSE (dB)" in out
    budget = {line[:38].strip(): line[38:].strip() for line in out.splitlines()}
    assert budget["channel uses per round s"] == "1570"
    assert float(budget["energy per device and channel use"]) == pytest.approx(500 / 1570, rel=1e-4)
    assert float(budget["energy per device in 8 rounds"]) == 4000
    snr = 10 * math.log10(10**2 * 500 / 1570)
    assert float(budget["receive SNR per channel use (dB)"]) == pytest.approx(snr, rel=1e-4)
    assert budget["held fixed when s changes"] == "energy per device and round"


def test_numbers_are_those_of_the_plan(capsys):
    options = ["--p01", "0.02", "--beta", "0.03", "--ratio", "0.2", "--seed", "4"]
    answer = json.loads(predict(capsys, "--json", "--activity", "0.05", *options))
    method = Method(**answer["method"])
    plan = LinkPlan(af.ChainParams(0.05, 0.02, 0.03), method, rounds=8, samples=4000, seed=4)
    expected = plan.predict(LinkBudget(rows=1570))
    assert answer["nmse_db"] == pytest.approx(expected.nmse_db, abs=1e-4)
    assert answer["believed_nmse_db"] == pytest.approx(10 * np.log10(expected.variance / 0.05), abs=1e-4)
    assert answer["steady_nmse_db"] == pytest.approx(plan.steady_db(LinkBudget(rows=1570)), abs=1e-4)
    for error, nmse, deviation in zip(
        answer["nmse_db_error"], expected.nmse, expected.nmse_error, strict=True
    ):
        swing = 10 * np.log10((nmse + deviation) / (nmse - deviation)) / 2
        assert error == pytest.approx(swing, rel=0.1)


@pytest.mark.parametrize("words", [["--solve", "rows"], ["--solve", "power"], ["--snr-db", "20"]])
def test_target_is_solved_and_the_snr_is_held_where_it_is_given(capsys, words):
    answer = json.loads(predict(capsys, "--json", "--activity", "0.05", "--target-nmse", "-12", *words))
    assert -13.5 < answer["steady_nmse_db"] <= -12
    held = "snr" if "--snr-db" in words else "energy"
    assert answer["link"]["held"] == held
    assert held == "energy" or answer["link"]["snr_db"] == pytest.approx(20)


def test_a_radio_is_answered_in_seconds_and_joules(capsys):
    found = json.loads(predict(capsys, "--json", *RADIO))["radio"]
    assert found["air_seconds"] == pytest.approx(785 / 2 / 5e6 * 1.3)
    assert found["joules"] == pytest.approx(0.01 * found["air_seconds"])
    assert "round on air (ms)" in predict(capsys, *RADIO)


@pytest.mark.parametrize(
    "scheme", ["turbo_cs", "tsa_ga_no_support", "tsa_ga_no_amplitude", "a_dsgd", "a_dsgd_mmse"]
)
def test_schemes_are_those_of_a_configuration(capsys, scheme):
    dense = scheme.startswith("a_dsgd")
    words = ["--set", f"scheme={scheme}", "--activity", "0.05", *QUICK[2 * dense :]]
    assert main(["--quiet", "predict", "--json", *words]) == 0
    method = json.loads(capsys.readouterr().out)["method"]
    assert (method["denoiser"] is not None) == dense
    assert method["support_chain"] == scheme.startswith(("tsa_ga_no_amplitude", "a_dsgd"))


def test_a_run_tells_its_chain_and_its_noise(data, capsys, tmp_path):
    done = small.succeed(small.command(data, tmp_path / "out", rounds=14))
    answer = json.loads(predict(capsys, "--json", done.stdout.strip()))
    (run,) = (tmp_path / "out/runs").iterdir()
    rows = [json.loads(line) for line in (run / "rounds.jsonl").read_text().splitlines()][7:]
    chain = {name: np.median([row[name] for row in rows]) for name in ("activity", "p01", "beta", "variance")}
    assert answer["link"]["size"] == 260 and answer["link"]["rows"] == 78
    assert all(answer["chain"][name] == pytest.approx(chain[name]) for name in answer["chain"])
    snr = chain["activity"] * chain["variance"] / np.median([row["noise_var"] for row in rows])
    assert answer["link"]["snr_db"] == pytest.approx(10 * math.log10(snr))
    assert answer["link"]["excess"] > 1  # real devices are not equal


def test_a_map_over_hertz_and_dbm_knows_that_only_power_over_bandwidth_counts(tmp_path):
    pytest.importorskip("altair")
    plan = LinkPlan(af.ChainParams(0.1, 0.02, 0.05), Method(), rounds=4, samples=1600)
    units, heard = RadioUnits(5e6, 10.0, 120.0), []
    link = LinkBudget(power=units.power(785))
    field = contour(plan, link, units, cells=3, told=lambda done, of: heard.append((done, of)))
    assert heard[-1] == (7, 7)  # ten times the bandwidth is as 10 dB less power
    assert field.x.values == pytest.approx([0.5, 5, 50]) and field.y.values == pytest.approx([-10, 10, 30])
    assert field.nmse_db[1, 1] == pytest.approx(plan.steady_db(link), abs=1e-6)
    for i, megahertz in enumerate(field.x.values):
        for j, level in enumerate(field.y.values):
            power = RadioUnits(1e6 * megahertz, level, 120.0).power(785)
            assert field.nmse_db[i, j] == pytest.approx(plan.steady_db(LinkBudget(power=power)), abs=1e-4)
    _, svg, _ = draw_map(field).save(tmp_path / "map")
    drawn = svg.read_text()
    assert "bandwidth (MHz)" in drawn and "transmit power (dBm)" in drawn


@pytest.mark.long
def test_a_map_without_a_radio_is_over_bandwidth_and_energy():
    plan = LinkPlan(af.ChainParams(0.1, 0.02, 0.05), Method(), rounds=4, samples=1600)
    field = contour(plan, LinkBudget(), cells=3)
    assert field.x.values == pytest.approx([0.02, 0.1, 0.5]) and field.y.values == pytest.approx(
        [5, 500, 5e4]
    )
    assert field.nmse_db[1, 1] == pytest.approx(plan.steady_db(LinkBudget()), abs=1e-6)


def test_the_plan_has_the_size_of_the_model_that_is_configured(tmp_path, monkeypatch, capsys):
    """Known for a named data set without fetching it; a folder of images tells its own."""
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("AIRFEEL_MIRROR", (tmp_path / "nothing").as_uri())
    folder = small.write_folder(tmp_path / "data")
    sizes = {"dataset=mnist": 7850, f"dataset={folder}": (small.SIDE**2 + 1) * small.CLASSES}
    if importlib.util.find_spec("torch"):
        sizes["model.kind=cnn"] = 20_466
    for setting, size in sizes.items():
        words = ["--quiet", "predict", "--json", "--rounds", "2", "--samples", "800", "--set", setting]
        assert main(words) == 0
        assert json.loads(capsys.readouterr().out)["link"]["size"] == size
