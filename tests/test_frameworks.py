"""The examples of 'use it in your framework' do what they say."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from airfeel.schemes.common_k import CommonK

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def example(name, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def test_the_plain_loop_learns(monkeypatch, capsys):
    assert example("plain_loop", monkeypatch).main() < 0.01
    assert len(capsys.readouterr().out.splitlines()) == 4


@pytest.mark.parametrize("ratio", [1.0, 0.25])
def test_pfl_adapter_loses_nothing(monkeypatch, ratio):
    """What the users computed has arrived, as the weighted mean of all rounds, or waits in their memories."""
    pytest.importorskip("pfl", reason="needs pfl-research (pip install pfl)")
    from pfl.context import UserContext
    from pfl.metrics import Metrics
    from pfl.stats import MappedVectorStatistics

    adapter = example("pfl_adapter", monkeypatch).AirPostprocessor(CommonK(), ratio=ratio, cohort=3)
    draw, weights = np.random.default_rng(2), {"a": 10.0, "b": 20.0, "c": 30.0}
    computed = arrived = 0.0
    for _ in range(8):
        total = None
        for user, weight in weights.items():
            update = {"w": draw.standard_normal((4, 5)), "b": draw.standard_normal(4)}
            computed = computed + weight * np.concatenate([part.reshape(-1) for part in update.values()])
            stats = MappedVectorStatistics({name: weight * part for name, part in update.items()}, weight)
            context = UserContext(num_datapoints=int(weight), seed=0, user_id=user)
            sent, _ = adapter.postprocess_one_user(stats=stats, user_context=context)
            assert sent.num_parameters == round(24 * ratio)
            total = sent if total is None else total + sent
        found, _ = adapter.postprocess_server(stats=total, central_context=None, aggregate_metrics=Metrics())
        assert found.weight == 60
        assert [found[name].shape for name in ("w", "b")] == [(4, 5), (4,)]
        arrived = arrived + np.concatenate([part.reshape(-1) for part in found.values()])
    waiting = sum(weight * adapter.memories[user] for user, weight in weights.items())
    np.testing.assert_allclose(arrived + waiting, computed, atol=1e-3)
    assert (np.abs(waiting).max() == 0) == (ratio == 1.0)
