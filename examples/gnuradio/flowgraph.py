"""The air as a GNU Radio flow graph: a source and a channel for every device, an adder, noise, a sink.

    /usr/bin/python3 flowgraph.py tcp://127.0.0.1:5000 tcp://127.0.0.1:5001

The addresses give what the devices send, as complex samples; it prints the one that gives what the server
hears, and runs until it is ended. For real radios replace what stands between sources and sink: README.md.
"""

import argparse
import signal

import numpy as np
from gnuradio import analog, blocks, channels, gr, zeromq

PATHS, DECAY_DB = 4, 3.0


def flow_graph(options):
    """Connect everything."""
    graph, rng = gr.top_block("air"), np.random.default_rng(options.seed)
    adder = blocks.add_cc()
    for number, address in enumerate(options.addresses):
        taps = rng.standard_normal((PATHS, 2)).view(complex)[:, 0]
        taps *= np.sqrt(10 ** (-DECAY_DB / 10 * np.arange(PATHS)))
        taps /= np.linalg.norm(taps) / np.sqrt(rng.uniform(0.5, 1.5))
        offset = rng.uniform(-1, 1) * options.offset_hz / options.sample_rate
        source = zeromq.pull_source(gr.sizeof_gr_complex, 1, address)
        channel = channels.channel_model(0.0, offset, 1.0, taps.tolist(), number, False)
        graph.connect(source, channel, (adder, number))
    # Its amplitude is that of a complex sample, in which I and Q have half the power each.
    noise = analog.noise_source_c(analog.GR_GAUSSIAN, np.sqrt(2 * options.noise_var), options.seed)
    graph.connect(noise, (adder, len(options.addresses)))
    sink = zeromq.push_sink(gr.sizeof_gr_complex, 1, "tcp://127.0.0.1:*")
    graph.connect(adder, sink)
    return graph, sink


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("addresses", nargs="+")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise-var", type=float, default=1.0, help="of I and of Q")
    parser.add_argument("--offset-hz", type=float, default=5.0, help="largest frequency offset of a device")
    parser.add_argument("--sample-rate", type=float, default=5e6)
    graph, sink = flow_graph(parser.parse_args())
    graph.start()
    print(sink.last_endpoint(), flush=True)
    signal.sigwait([signal.SIGTERM, signal.SIGINT])
    graph.stop()
    graph.wait()
