"""Scripts in ``examples`` that make or look at channels."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from airfeel.radio.response import Response

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sionna_writes_responses_that_a_channel_reads(tmp_path, monkeypatch, capsys):
    pytest.importorskip("sionna", reason="needs Sionna (pip install sionna-no-rt)")
    path = tmp_path / "street.npz"
    monkeypatch.setattr("sys.argv", ["sionna_responses.py", str(path), "--devices", "4", "--rounds", "2"])
    load("sionna_responses").main()
    assert "(2, 4, 1680)" in capsys.readouterr().out
    channel = Response(str(path))
    gains = 10 * np.log10(channel.path_gains())
    assert (gains > -200).all() and (gains < -40).all()  # a street, in decibel
    first, second = (channel.responses(4, 1680, 1, t) for t in (1, 2))
    assert not np.allclose(first, second)
    link = channel.link(4, 785, 1, 1)
    assert link.active.shape == (4, 785) and link.active.mean() > 0.5


def test_the_table_of_antenna_gains(monkeypatch):
    script = load("antenna_gain")
    monkeypatch.setattr(script, "SEEDS", range(2))
    monkeypatch.setattr(script, "ANTENNAS", (1, 4))
    table = {row[:3]: row[3] for row in script.rows()}
    assert table[1, 4, "fair"] == pytest.approx(table[1, 4, "principal"])
    assert table[25, 1, "fair"] < table[25, 4, "fair"] < table[25, 4, "bound"]
