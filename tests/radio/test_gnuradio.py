"""The example whose air is a GNU Radio flow graph, in a process of the system's Python."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import small

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "gnuradio"
pytest.importorskip("zmq", reason="needs pyzmq")
pytestmark = pytest.mark.slow


@pytest.fixture
def air(monkeypatch):
    """The example's module, where GNU Radio is installed."""
    monkeypatch.syspath_prepend(FOLDER)
    import air

    code = "from gnuradio import analog, channels, zeromq"
    if (
        not os.path.exists(air.PYTHON)
        or subprocess.run([air.PYTHON, "-c", code], capture_output=True).returncode
    ):
        pytest.skip("needs GNU Radio (apt-get install gnuradio)")
    yield air
    sys.modules.pop("air", None)


def ended(process):
    return process.returncode is not None


def test_a_frame_goes_through_the_flow_graph(air):
    graph = air.FlowGraph(3, "--noise-var", "0.5")
    try:
        channel = air.GnuRadioAir(graph=graph, clipping_db=300.0, bits=0, noise_var=0.5)
        for t in (1, 2, 3):
            link = channel.link(3, 785, 0, t)
            signals = np.where(link.active, 30 * np.random.default_rng(t).standard_normal((3, 785)), 0)
            heard, noise_var = channel.transmit(link, signals, np.arange(3), 0, t)
            wanted = signals.sum(axis=0)
            assert np.sum((heard - wanted) ** 2) < 0.03 * np.sum(wanted**2)
            # From 300 empty elements; a drifting phase leaks into them too.
            assert 0.35 < noise_var < 2
        # Who does not take part sends nothing.
        heard, _ = channel.transmit(link, signals[1:2], np.array([1]), 0, 3)
        assert np.sum((heard - signals[1]) ** 2) < 0.03 * np.sum(signals[1] ** 2)
    finally:
        graph.close()
    assert ended(graph.process)


def test_a_training_of_twenty_rounds_goes_through_the_flow_graph(air, tmp_path):
    data = small.write_folder(tmp_path / "data")
    started = []
    graph = air.FlowGraph
    air.FlowGraph = lambda *options: started.append(graph(*options)) or started[-1]
    found = list(air.train(20, devices=4, dataset=str(data), **{"devices.samples": 30}))
    assert len(found) == 20 and sum(record.nmse_db is not None for record in found) >= 18
    assert found[-1].accuracy > found[0].accuracy
    assert np.mean([record.nmse_db for record in found if record.nmse_db is not None]) < 0
    assert len(started) == 1 and ended(started[0].process)
