"""The example whose air is a GNU Radio flow graph, in a process of the system's Python."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from airfeel.radio.frame import Frame

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


MODULATOR = """
import json, sys
import numpy as np
from gnuradio import blocks, digital, fft, gr

told = json.load(sys.stdin)
size, prefix = told["subcarriers"], told["prefix"]
known = np.array(told["known"]).view(complex)[:, 0]
words = np.zeros(size, complex)
words[np.array(told["used"]) + size // 2] = known
data = np.array(told["elements"]).view(complex)[:, 0]
graph, sink = gr.top_block(), blocks.vector_sink_c()
source = blocks.vector_source_c(data.tolist(), False)
tagged = blocks.stream_to_tagged_stream(gr.sizeof_gr_complex, 1, len(data), "length")
pilots = known[[told["used"].index(k) for k in told["pilots"]]]
allocator = digital.ofdm_carrier_allocator_cvc(
    size, [told["payload"]], [told["pilots"]], [pilots.tolist()], [words.tolist()] * 2, "length"
)
transform = fft.fft_vcc(size, False, [], True)
prefixer = digital.ofdm_cyclic_prefixer(size, size + prefix, 0, "length")
graph.connect(source, tagged, allocator, transform, prefixer, sink)
graph.run()
samples = np.array(sink.data()) / np.sqrt(size)
json.dump(samples.view(float).reshape(-1, 2).tolist(), sys.stdout)
"""


@pytest.mark.parametrize("shape", [{}, {"subcarriers": 128, "used": 100, "pilots": 5, "prefix": 32}])
def test_gnu_radios_own_modulator_gives_the_same_samples(air, shape):
    frame = Frame(2 * 3 * 180 if not shape else 2 * 2 * 95, **shape)  # whole rows
    used = [k for k in range(-frame.used // 2, frame.used // 2 + 1) if k]
    pilots = [used[int((i + 0.5) * frame.used / frame.pilots)] for i in range(frame.pilots)]
    numbers = np.random.default_rng(3).standard_normal((frame.symbols // 2, 2))
    strength = np.sqrt(np.mean(np.sum(numbers**2, axis=1)))
    sequence = strength * np.exp(-1j * np.pi * np.arange(frame.used) ** 2 / frame.used)
    told = {
        "subcarriers": frame.subcarriers,
        "prefix": frame.prefix,
        "used": used,
        "pilots": pilots,
        "payload": [k for k in used if k not in pilots],
        "known": sequence.view(float).reshape(-1, 2).tolist(),
        "elements": numbers.tolist(),
    }
    done = subprocess.run(
        [air.PYTHON, "-c", MODULATOR], input=json.dumps(told), capture_output=True, text=True, check=True
    )
    other = np.array(json.loads(done.stdout)).view(complex)[:, 0]
    np.testing.assert_allclose(frame.modulate(numbers.reshape(1, -1))[0], other, atol=1e-5)  # its are single


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


def test_a_training_of_twenty_rounds_goes_through_the_flow_graph(data, air):
    started = []
    graph = air.FlowGraph
    air.FlowGraph = lambda *options: started.append(graph(*options)) or started[-1]
    found = list(air.train(20, devices=4, dataset=str(data), **{"devices.samples": 30}))
    assert len(found) == 20 and sum(record.nmse_db is not None for record in found) >= 18
    assert found[-1].accuracy > found[0].accuracy
    assert np.mean([record.nmse_db for record in found if record.nmse_db is not None]) < 0
    assert len(started) == 1 and ended(started[0].process)
