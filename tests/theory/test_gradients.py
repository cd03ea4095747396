"""airfeel inspect on gradients that somebody recorded."""

import json

import numpy as np
import pytest

import small
from airfeel.lab.studies.recorded import read_gradients
from modeldata import Model, sample_chains


def ask(*words):
    return small.call(["airfeel", "inspect", *map(str, words)])


@pytest.fixture
def recorded(tmp_path):
    support, amplitude = sample_chains(Model(size=2000, activity=0.1), 24, np.random.default_rng(1))
    np.save(tmp_path / "grads.npy", support * amplitude)
    return tmp_path / "grads.npy"


@pytest.mark.long
def test_gradients_of_a_file_are_fitted_predicted_and_recovered(recorded, tmp_path):
    told = ask(recorded, "--ratio", "0.3", "--snr-db", "20", "--json", "--out", tmp_path / "found")
    assert told.returncode == 0, told.stderr
    facts = json.loads(told.stdout)
    assert (facts["rounds"], facts["size"], facts["rows"]) == (24, 2000, 600)
    assert facts["receive_snr_db"] == pytest.approx(20)
    assert facts["counted_chain"]["activity"] == pytest.approx(0.1, abs=0.03)
    assert {"memory", "alone"} == set(facts["nmse_db"]["measured"])
    assert (tmp_path / "found" / "inspection.json").exists()


def test_a_share_is_kept_with_error_feedback(recorded):
    whole = read_gradients(recorded, 0.3, 20).aggregates
    found = read_gradients(recorded, 0.3, 20, sparsity=0.02).aggregates
    assert (np.count_nonzero(found, axis=1) == 40).all()
    left = whole.sum(axis=0) - found.sum(axis=0)
    assert np.abs(left).sum() < np.abs(whole).sum() / 2  # what was left out is sent later


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.ones(5), "holds float64 of shape (5,): must be real numbers of at least 12 rounds"),
        (np.ones((20, 3), complex), "holds complex128"),
        (np.zeros((20, 3)), "row 0 must be finite, and not zero everywhere"),
    ],
)
def test_what_is_no_table_of_gradients(array, sentence, tmp_path):
    np.save(tmp_path / "a.npy", array)
    told = ask(tmp_path / "a.npy")
    assert told.returncode == 2 and sentence in told.stderr


def test_other_mistakes(recorded, tmp_path):
    assert ask(tmp_path / "none.npy").returncode == 2
    assert "uplink.ratio = 7.0" in ask(recorded, "--ratio", "7").stderr
    assert "--ratio: must be given only with an .npy file" in ask(tmp_path, "--ratio", "0.1").stderr
