"""In the place of radios: plays what devices send over paths of its own, and records what a server hears.

python radios.py gains.npy          the gains of four devices, from preambles that they send in turn
python radios.py rounds 20          twenty rounds of own_radio.py
"""

import sys
import time
from pathlib import Path

import numpy as np
import sigmf

from airfeel.radio.frame import Frame

RATE, SILENCE = 5e6, 500  # samples before whatever is sent
PATHS = np.random.default_rng(1).standard_normal((4, 3, 2)) @ [0.5, 0.5j]  # three paths of each device
NOISE = np.random.default_rng(2)


def air(sent):
    """Return what is heard of samples (devices' numbers and samples): the only thing that is not a file."""
    heard = sum(np.convolve(samples, PATHS[device]) for device, samples in sent.items())
    return np.pad(heard, SILENCE) + NOISE.standard_normal((len(heard) + 2 * SILENCE, 2)) @ [1, 1j]


def measure(path):
    """Write the gains of the used subcarriers, all from windows that begin at the same sample of a turn."""
    frame, level, gains, start = Frame(symbols=0), 30.0, [], None
    for device in range(len(PATHS)):
        recorded = air({device: level * frame.preamble})
        start = frame.find(recorded) - 4 if start is None else start
        gains.append(frame.response(recorded[start:]) / level)
    np.save(path, gains)


def play(place):
    """Play the files of a round as soon as all are there, and write what is heard."""
    first = place / "device-000.sigmf-meta"
    while not first.exists():
        time.sleep(0.1)
    devices = sigmf.fromfile(str(first)).get_global_field("airfeel:devices")
    files = {device: place / f"device-{device:03d}.sigmf-meta" for device in devices}
    while not all(path.exists() for path in files.values()):
        time.sleep(0.1)
    heard = air({device: sigmf.fromfile(str(path)).read_samples() for device, path in files.items()})
    heard.astype("<c8").tofile(place / "heard.sigmf-data")
    told = sigmf.SigMFFile(global_info={"core:datatype": "cf32_le", "core:sample_rate": RATE})
    told.add_capture(0)
    (place / "heard.part").write_text(told.dumps())
    (place / "heard.part").rename(place / "heard.sigmf-meta")


if __name__ == "__main__":
    if sys.argv[1].endswith(".npy"):
        measure(sys.argv[1])
    else:
        for t in range(1, int(sys.argv[2]) + 1):
            play(Path(sys.argv[1]) / f"round-{t:05d}")
