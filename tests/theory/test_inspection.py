"""``airfeel inspect``: statistics against chains with known parameters, and the command end to end."""

import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.cli import main
from airfeel.lab.store import read_records
from airfeel.lab.studies.inspection import (
    compare_receivers,
    model_correlation,
    model_persistence,
    numbers,
    verdict,
)
from airfeel.lab.studies.recorded import Recorded, fit, observations, read_recorded, statistics
from airfeel.theory.scalar import sample_paths


def model_run(chain, rounds=60, size=4000, ratio=0.2, snr_db=20.0, seed=6):
    """Aggregates drawn from the model itself, as if a run had recorded them."""
    x = np.array([x[0] for x, _ in islice(sample_paths(chain, 1, size, seed), rounds)])
    start = {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta, "amplitude_message": "joint"}
    settings = {"uplink.ratio": ratio} | {f"receiver.{key}": value for key, value in start.items()}
    return Recorded(af.load_config(None, settings), 1, x, np.full(rounds, 10 ** (-snr_db / 10)))


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_statistics_recover_the_chain_and_its_memory(seed):
    chain = af.ChainParams(0.1, 0.04, 0.03, variance=4.0)
    found = statistics(model_run(chain, size=10_000, seed=seed).aggregates)
    assert found.chain.activity == pytest.approx(0.1, rel=0.05)
    assert found.chain.p01 == pytest.approx(0.04, rel=0.1)
    assert found.chain.beta == pytest.approx(0.03, rel=0.2)
    assert found.kurtosis == pytest.approx(3.0, abs=0.3)
    np.testing.assert_allclose(found.activity, 0.1, rtol=0.05)
    # 1000 coefficients are active, so 40 leave in each of 59 rounds and as many enter: 4.5 sigma.
    assert found.leaving.mean() == pytest.approx(0.04, rel=4.5 / np.sqrt(59 * 40))
    assert found.entering.mean() == pytest.approx(chain.p10, rel=4.5 / np.sqrt(59 * 40))
    np.testing.assert_allclose(found.level, 2.0, rtol=4.5 / np.sqrt(2 * 1000))
    lags = len(found.persistence)
    np.testing.assert_allclose(found.persistence, model_persistence(chain, lags), atol=0.05)
    np.testing.assert_allclose(found.correlation, model_correlation(chain, lags), atol=0.08)


def test_statistics_of_a_few_rounds_counted_by_hand():
    found = statistics(np.array([[3.0, -4.0, 0, 0], [6.0, 0, 0, 8.0], [0, 5.0, 0, 5.0], [1.0, 1.0, 0, 1.0]]))
    np.testing.assert_allclose(found.activity, [1 / 2, 1 / 2, 1 / 2, 3 / 4])
    np.testing.assert_allclose(found.leaving, [1 / 2, 1 / 2, 0])
    np.testing.assert_allclose(found.entering, [1 / 2, 1 / 2, 1 / 2])
    np.testing.assert_allclose(found.level, np.sqrt([12.5, 50, 25, 1]))
    np.testing.assert_allclose(found.persistence, [1, 4 / 6, 3 / 4])


@pytest.mark.parametrize("chain", [af.ChainParams(0.4, 0.3, 0.2), af.ChainParams(0.1, 0.9, 1.0)])
def test_persistence_of_the_model_is_a_power_of_its_transitions(chain):
    step = np.array([[1 - chain.p10, chain.p10], [chain.p01, 1 - chain.p01]])
    powers = [np.linalg.matrix_power(step, lag)[1, 1] for lag in range(6)]
    np.testing.assert_allclose(model_persistence(chain, 6), powers)


@pytest.mark.parametrize(
    ("counted", "fitted"),
    [
        ((0.2, 0.3, 0.4), (0.2, 0.3, 0.4)),
        ((0.0, 0.0, 0.0), (1e-6, 1e-4, 1e-4)),
        ((0.9, 0.9, 0.5), (0.9, 1 / 9, 0.5)),  # more would need p10 > 1
        ((0.3, 1.5, 2.0), (0.3, 1.0, 1.0)),
        ((1.0, 1.0, 2.0), (1 - 1e-6, 1e-6 / (1 - 1e-6), 1.0)),  # a support that is always full
    ],
)
def test_fit_keeps_what_is_valid_and_moves_the_rest_to_the_nearest_limit(counted, fitted):
    chain = fit(*counted)
    assert (chain.activity, chain.p01, chain.beta, chain.variance) == pytest.approx((*fitted, 1.0))
    assert chain.p10 <= 1


@pytest.mark.long
@pytest.mark.parametrize(("p01", "beta", "gain"), [(0.02, 0.02, (3, 20)), (0.9, 1.0, (-1, 1))])
def test_gain_is_measured_and_predicted(p01, beta, gain):
    """Slow chains reward memory; independent rounds leave nothing to remember."""
    recorded = model_run(af.ChainParams(0.1, p01, beta), rounds=40)
    found = statistics(recorded.aggregates)
    recovery = compare_receivers(recorded, found.chain)
    facts = numbers(recorded, found, recovery)
    measured, predicted = facts["gain_db"]["measured"], facts["gain_db"]["learned"]
    assert gain[0] < measured < gain[1]
    assert abs(measured - predicted) < 1.0
    assert ("worth having" if gain[0] > 0 else "no difference") in verdict(facts)
    assert "well enough to plan with" in verdict(facts)


def test_verdict_says_when_the_model_fails_and_when_memory_hurts():
    for gains, words in (
        ((-4.0, 6.0, 6.0), ("Memory hurts", "does not describe")),
        ((2.0, 5.0, 9.0), ("helps a little", "roughly", "no first-order chain")),
    ):
        facts = dict(zip(("measured", "learned", "counted"), gains, strict=True))
        said = verdict({"rows": 10, "size": 100, "gain_db": facts})
        assert all(word in said for word in words)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs on the small data set: recorded, without radio, with another matrix, and not recorded."""
    home = tmp_path_factory.mktemp("runs")
    folder = small.write_folder(home / "data")
    kinds = {
        "kept": {"run__record_aggregates": "true"},
        "dry": {"run__record_aggregates": "true", "scheme": "error_free"},
        "gaussian": {"run__record_aggregates": "true", "scheme": "a_dsgd"},
        "bare": {},
    }
    done = {
        name: small.call(small.command(folder, home / "out", rounds=16, name=name, **settings))
        for name, settings in kinds.items()
    }
    assert all(d.returncode == 0 for d in done.values()), [d.stderr for d in done.values()]
    return {name: d.stdout.strip() for name, d in done.items()}


@pytest.mark.parametrize("name", [pytest.param("kept", marks=pytest.mark.long), "dry"])
def test_command_prints_numbers_draws_figures_and_repeats_itself(runs, name, tmp_path, capsys):
    pytest.importorskip("altair")
    outputs = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        assert main(["--quiet", "inspect", runs[name], "--out", str(folder), "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    facts = json.loads(outputs[0])
    assert facts["rounds"] == 16 and facts["size"] == 260 and facts["verdict"]
    assert json.loads((tmp_path / "a/inspection.json").read_text()) == facts
    for figure in ("sparsity", "persistence", "correlation", "magnitude", "recovery"):
        assert (tmp_path / "a" / f"{figure}.png").read_bytes()[:4] == b"\x89PNG"
        assert "<svg" in (tmp_path / "a" / f"{figure}.svg").read_text()


def test_command_prints_a_table_and_a_verdict(runs, capsys):
    assert main(["--quiet", "inspect", runs["kept"]]) == 0
    out = capsys.readouterr().out
    assert "counted from round to round" in out and "gain (dB)" in out and "Memory" in out


@pytest.mark.parametrize(("name", "columns"), [("kept", 1.0), ("gaussian", 78 / 260)])
def test_recorded_noise_is_that_of_the_run(runs, name, columns):
    """Relative to the signal in a measurement, which unit columns make N/s as strong as unit rows."""
    recorded = read_recorded(Path(runs[name]))
    assert recorded.aggregates.shape == (16, 260) and recorded.rows == 78
    power = np.mean(recorded.aggregates**2, axis=1) / columns
    noise = [record.noise_var for record in read_records(Path(runs[name]))]
    np.testing.assert_allclose(recorded.noise, np.array(noise) / power)


def test_a_run_without_radio_gets_the_noise_of_equal_devices(runs):
    """sigma_e^2 s / (M^2 P) with 5 devices of power 500."""
    np.testing.assert_allclose(read_recorded(Path(runs["dry"])).noise, 78 / (5**2 * 500))


def test_observations_are_counted_from_the_aggregates(runs):
    x = read_recorded(Path(runs["kept"])).aggregates
    found = observations(Path(runs["kept"]))
    assert found.sparsity == pytest.approx(np.mean(x == 0))
    facts = statistics(x)
    assert (found.persistence, found.persistence_lag2) == tuple(facts.persistence[1:3])
    assert (found.correlation, found.correlation_lag2) == tuple(facts.correlation[1:3])
    needed = []
    for energy in -np.sort(-(x**2), axis=1):
        needed.append(next(k for k in range(1, 261) if energy[:k].sum() >= 0.9 * energy.sum() * (1 - 1e-12)))
    assert found.energetic == pytest.approx(np.mean(needed) / 260)
    assert found.energetic < 1 - found.sparsity


@pytest.mark.parametrize(
    ("which", "words"),
    [("bare", ["no aggregates", "run.record_aggregates=true"]), (None, ["not the folder of a run"])],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(runs, which, words, tmp_path, capsys):
    assert main(["--quiet", "inspect", runs[which] if which else str(tmp_path / "nowhere")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and all(word in err for word in words)
