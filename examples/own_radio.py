"""A training whose rounds are files: radios play what devices send, and record what the server hears.

    python own_radio.py rounds gains.npy

``gains.npy`` holds the gains of the used subcarriers, (devices, 192), as radios have measured them. In every
round it writes a recording for each device into ``rounds/round-00001``, says so, and waits until somebody has
put ``heard.sigmf-meta`` and its samples beside them.
"""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import airfeel as af
from airfeel.radio.recordings import decode, write_round
from airfeel.radio.waveform import Waveform


@dataclass(frozen=True, kw_only=True)
class OverFiles(Waveform):
    """Frames of a waveform as files that radios play and record."""

    folder: Path
    measured: np.ndarray  # gains of the used subcarriers, (devices, used)
    patience: float = 3600.0  # seconds until a recording must be there

    def gains(self, num_devices, seed, round):
        return self.measured[:num_devices], self.measured[:num_devices]

    def propagate(self, frame, sent, devices, seed, round):
        place = write_round(self.folder, frame, sent, devices, seed, round)
        heard = place / "heard.sigmf-meta"
        print(f"play {place}/device-*.sigmf-data, and record {heard}", flush=True)
        end = time.monotonic() + self.patience
        while not heard.exists():
            if time.monotonic() > end:
                raise TimeoutError(f"{heard}: has not come in {self.patience:g} seconds")
            time.sleep(0.1)
        one = place / f"device-{devices[0]:03d}.sigmf-meta"
        return decode(heard, sent=one)[0].samples


if __name__ == "__main__":
    folder, gains = Path(sys.argv[1]), np.load(sys.argv[2])
    folder.mkdir()  # a new one: what was heard in another training would be taken for heard in this one
    channel = OverFiles(folder=folder, measured=gains)
    for record in af.train({"devices.count": len(gains), "rounds": 20}, channel=channel):
        print(record.round, record.accuracy)
