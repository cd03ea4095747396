"""``airfeel inspect``: statistics against chains with known parameters, and the command end to end."""

import json
import shutil
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel.cli import main
from airfeel.experiments.studies.inspection import Recorded, compare_receivers, fit, read_recorded, statistics
from airfeel.experiments.studies.verdict import model_correlation, model_persistence, numbers, verdict
from airfeel.theory.scalar import sample_paths


def model_run(chain, rounds=60, size=4000, ratio=0.2, snr_db=20.0):
    """Aggregates drawn from the model itself, as if a run had recorded them."""
    x = np.array([x[0] for x, _ in islice(sample_paths(chain, 1, size, seed=6), rounds)])
    start = {"activity": chain.activity, "p01": chain.p01, "beta": chain.beta, "amplitude_message": "joint"}
    settings = {"uplink.ratio": ratio} | {f"receiver.{key}": value for key, value in start.items()}
    return Recorded(af.load_config(None, settings), 1, x, np.full(rounds, 10 ** (-snr_db / 10)))


def test_statistics_recover_the_chain_and_its_memory():
    chain = af.ChainParams(0.1, 0.04, 0.03)
    found = statistics(model_run(chain, size=30_000).aggregates)
    assert found.chain.activity == pytest.approx(0.1, rel=0.05)
    assert found.chain.p01 == pytest.approx(0.04, rel=0.1)
    assert found.chain.beta == pytest.approx(0.03, rel=0.2)
    assert found.kurtosis == pytest.approx(3.0, abs=0.3)
    lags = len(found.persistence)
    np.testing.assert_allclose(found.persistence, model_persistence(chain, lags), atol=0.05)
    np.testing.assert_allclose(found.correlation, model_correlation(chain, lags), atol=0.08)


def test_fit_stays_inside_the_valid_range():
    for values in ((0.0, 0.0, 0.0), (1.0, 1.0, 2.0), (0.9, 0.9, 0.5)):
        fit(*values)


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
    facts = {"rows": 10, "size": 100, "gain_db": {"measured": -4.0, "learned": 6.0, "counted": 6.0}}
    assert "Memory hurts" in verdict(facts) and "does not describe" in verdict(facts)
    facts["gain_db"] = {"measured": 2.0, "learned": 5.0, "counted": 9.0}
    assert (
        "helps a little" in verdict(facts)
        and "roughly" in verdict(facts)
        and "no first-order chain" in verdict(facts)
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs on the small data set: recorded, recorded without radio, and not recorded."""
    home = tmp_path_factory.mktemp("runs")
    folder = small.write_folder(home / "data")
    kinds = {
        "kept": {"run__record_aggregates": "true"},
        "dry": {"run__record_aggregates": "true", "scheme": "error_free"},
        "bare": {},
    }
    done = {
        name: small.run(small.command(folder, home / "out", rounds=16, name=name, **settings))
        for name, settings in kinds.items()
    }
    assert all(d.returncode == 0 for d in done.values()), [d.stderr for d in done.values()]
    return {name: d.stdout.strip() for name, d in done.items()}


@pytest.mark.parametrize("name", ["kept", "dry"])
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


def test_recorded_noise_is_that_of_the_run(runs):
    recorded = read_recorded(Path(runs["kept"]))
    assert recorded.aggregates.shape == (16, 260) and recorded.rows == 78
    assert np.all(recorded.noise > 0)


@pytest.mark.parametrize(
    ("which", "words"),
    [("bare", ["no aggregates", "run.record_aggregates=true"]), (None, ["not the folder of a run"])],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(runs, which, words, tmp_path, capsys):
    assert main(["--quiet", "inspect", runs[which] if which else str(tmp_path / "nowhere")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1 and all(word in err for word in words)


def test_a_damaged_aggregate_is_named(runs, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(runs["kept"], copy)
    file = copy / "aggregates" / "round-000007.npz"
    file.write_bytes(file.read_bytes()[:100])
    assert main(["--quiet", "inspect", str(copy)]) == 2
    err = capsys.readouterr().err
    assert "round-000007.npz is damaged" in err and len(err.splitlines()) == 1
