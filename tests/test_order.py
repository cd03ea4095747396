"""Real MNIST: the receivers come out in the order the paper reports (its Fig. 5(a) setting)."""

import numpy as np
import pytest

from airfeel.config import load_config
from airfeel.learning.datasets import load_dataset
from airfeel.simulation.loop import train

CHAINS = ("tsa_ga", "tsa_ga_no_support", "tsa_ga_no_amplitude")


@pytest.fixture(scope="module")
def mnist():
    return load_dataset("mnist")


def records_of(mnist, **settings):
    return list(train(load_config(None, settings), dataset=mnist))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_each_chain_lowers_the_recovery_error(mnist, seed):
    errors = {}
    for scheme in CHAINS:
        settings = {"scheme": scheme, "seed": seed, "rounds": 15, "run.evaluate_every": 15}
        records = records_of(mnist, **settings)
        errors[scheme] = np.mean([10 ** (record.nmse_db / 10) for record in records])
        assert not any(record.above_zero_db for record in records)
    assert errors["tsa_ga"] < errors["tsa_ga_no_support"] < errors["tsa_ga_no_amplitude"]


@pytest.mark.slow
def test_accuracy_after_150_rounds_is_in_the_paper_s_order(mnist):
    accuracy = {}
    for scheme in ("error_free", *CHAINS, "turbo_cs", "a_dsgd", "a_dsgd_mmse"):
        settings = {"scheme": scheme, "rounds": 150, "run.evaluate_every": 150}
        final = [records_of(mnist, seed=seed, **settings)[-1].accuracy for seed in range(3)]
        accuracy[scheme] = np.mean(final)
        print(f"{scheme:<20} {accuracy[scheme]:.4f}  {final}")
    ordered = [accuracy[scheme] for scheme in ("error_free", *CHAINS, "turbo_cs")]
    assert ordered == sorted(ordered, reverse=True)
    assert len(set(ordered)) == len(ordered)
    assert accuracy["error_free"] - accuracy["tsa_ga"] <= 0.015
