"""A channel whose air is a GNU Radio flow graph, and a training over it.

    python air.py                        20 rounds with five devices on MNIST
    python air.py 100 --offset-hz 50     so many rounds; the rest are options of flowgraph.py

Needs GNU Radio 3.10 for the system's Python (apt-get install gnuradio) and pyzmq here (pip install pyzmq).
The flow graph is a process of its own, and samples go there and back through ZeroMQ on this machine.
"""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import zmq

import airfeel as af
from airfeel.radio.waveform import Waveform

PYTHON = "/usr/bin/python3"  # to which Debian installs GNU Radio
SILENCE = 2048  # samples before and after whatever is sent
EARLY = 4  # samples by which a path may be shorter than that of the first device
PATIENCE = 20_000  # milliseconds until the flow graph must have answered


class FlowGraph:
    """A flow graph as a process: samples of all devices in, what the server hears out."""

    def __init__(self, devices, *options):
        context = zmq.Context.instance()
        self.sources = [context.socket(zmq.PUSH) for _ in range(devices)]
        self.sink = context.socket(zmq.PULL)
        ports = [one.bind_to_random_port("tcp://127.0.0.1") for one in self.sources]
        script, addresses = Path(__file__).with_name("flowgraph.py"), [f"tcp://127.0.0.1:{p}" for p in ports]
        command = [PYTHON, str(script), *addresses, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        address = self.process.stdout.readline().strip()
        if not address:
            self.close()
            raise RuntimeError(f"{script} ended at once: does {PYTHON} have GNU Radio?")
        self.sink.connect(address)
        self.behind = 0  # samples that were sent and have not come back

    def carry(self, sent):
        """Send rows of samples (devices, n), with silence around them, and return what was heard.

        Blocks of the graph hold some samples back, which come with the next ones: less than the silence.
        """
        sent = np.pad(sent, ((0, 0), (SILENCE, SILENCE))).astype(np.complex64)
        for source, samples in zip(self.sources, sent, strict=True):
            source.send(samples.tobytes())
        heard, self.behind = [], self.behind + sent.shape[1]
        while self.behind > SILENCE // 2:
            if not self.sink.poll(PATIENCE):
                raise RuntimeError(f"the flow graph (process {self.process.pid}) has not answered")
            heard.append(np.frombuffer(self.sink.recv(), np.complex64))
            self.behind -= len(heard[-1])
        return np.concatenate(heard).astype(complex)

    def close(self):
        """End the process and the sockets."""
        self.process.terminate()
        self.process.communicate()
        for one in [*self.sources, self.sink]:
            one.close(0)


@dataclass(frozen=True, kw_only=True)
class GnuRadioAir(Waveform):
    """Frames of :class:`Waveform` over a flow graph, or over radios in its place.

    Before a round every device sends a preamble in a turn of its own. What the server hears of it is what the
    device inverts, as the air is the same in both directions.
    """

    graph: FlowGraph
    known: dict = field(default_factory=dict)  # the gains of the last round

    def gains(self, num_devices, seed, round):
        if (seed, round) not in self.known:
            self.known.clear()
            self.known[seed, round] = self.sounded()
        return (self.known[seed, round][:num_devices],) * 2

    def sounded(self):
        frame, devices = self.frame(0), len(self.graph.sources)
        level = 30 * np.sqrt(self.noise_var)  # of a preamble's element, so that it is heard well alone
        turns = np.zeros((devices, devices, frame.length + SILENCE), complex)
        for device in range(devices):
            turns[device, device, : frame.length] = level * frame.preamble
        heard = self.graph.carry(turns.reshape(devices, -1))
        # The first turn, with what came late of the round before; the others keep their distance to it. All
        # windows begin early by the same, as others may have shorter paths than the first.
        first = frame.find(heard[: SILENCE // 2 + SILENCE + frame.length]) - EARLY
        starts = first + turns.shape[2] * np.arange(devices)
        return np.array([frame.response(heard[start:]) for start in starts]) / level

    def propagate(self, frame, sent, devices, seed, round):
        everybody = np.zeros((len(self.graph.sources), sent.shape[1]), complex)
        everybody[devices] = sent
        return self.graph.carry(everybody)


def train(rounds, *options, devices=5, **settings):
    """Yield the records of a training over the flow graph."""
    graph = FlowGraph(devices, *options)
    try:
        channel = GnuRadioAir(graph=graph, clipping_db=8.0, bits=12)
        yield from af.train({"devices.count": devices, "rounds": rounds, **settings}, channel=channel)
    finally:
        graph.close()


if __name__ == "__main__":
    rounds, *options = sys.argv[1:] or ["20"]
    for record in train(int(rounds), *options):
        print(record.round, record.accuracy, None if record.nmse_db is None else round(record.nmse_db, 1))
