"""A small data set on disk and in memory, for tests that need a run but not MNIST."""

import contextlib
import io
import itertools
import struct
import subprocess
import sys

import numpy as np

from airfeel.cli import main
from airfeel.learning.readers import NAMES
from airfeel.simulation.records import Progress

SIDE, CLASSES = 8, 4


def arrays(train=600, test=200):
    """Noisy images of one pattern per class: easy to learn, impossible to get entirely right."""
    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 2, (CLASSES, SIDE, SIDE)) * 160

    def draw(count):
        labels = rng.integers(0, CLASSES, count)
        noise = rng.normal(48, 60, (count, SIDE, SIDE))
        return np.clip(patterns[labels] * 0.4 + noise, 0, 255).astype(np.uint8), labels

    return (*draw(train), *draw(test))


def write_folder(folder):
    """Write the arrays as the four idx files of a data set folder."""
    folder.mkdir(parents=True, exist_ok=True)
    images, labels, test_images, test_labels = arrays()
    for stem, block in (
        ("train-images-idx3-ubyte", images),
        ("train-labels-idx1-ubyte", labels),
        ("t10k-images-idx3-ubyte", test_images),
        ("t10k-labels-idx1-ubyte", test_labels),
    ):
        head = struct.pack(">BBBB", 0, 0, 8, block.ndim) + struct.pack(f">{block.ndim}I", *block.shape)
        (folder / stem).write_bytes(head + block.astype(np.uint8).tobytes())
    return folder


def write_npz(place, arrays):
    """Write four arrays into one file."""
    np.savez(place / "mine.npz", **dict(zip(NAMES, arrays, strict=True)))
    return place / "mine.npz"


def write_npy(place, arrays):
    """Write four arrays into a folder, each in a file of its own."""
    (place / "mine").mkdir(exist_ok=True)
    for name, array in zip(NAMES, arrays, strict=True):
        np.save(place / "mine" / f"{name}.npy", array)
    return place / "mine"


SETTINGS = {
    "scheme": "tsa_ga",  # whose checkpoints hold most
    "devices.count": 5,
    "devices.samples": 100,
    "devices.learning_rate": 0.5,
    "uplink.ratio": 0.3,
}


def command(folder, out, **settings):
    """Return the command line of a run on the small data set; dots in keys are written as two underscores."""
    flat = {"dataset": str(folder)} | SETTINGS | {k.replace("__", "."): v for k, v in settings.items()}
    words = [word for key, value in flat.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "airfeel", "run", *words, "--out", str(out)]


def run(words, **options):
    """Run a command to its end and return it with its output as text; the time is a guard against none."""
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600, **options)


def call(words):
    """Do the same as :func:`run` in this process, which saves starting another one."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words[words.index("airfeel") + 1 :])
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def succeed(words):
    """Do the same, with nothing but success."""
    done = call(words)
    assert done.returncode == 0, done.stderr
    return done


def stop_after(rounds):
    """Return a question that is answered with yes from so many rounds on."""
    asked = itertools.count(1)
    return lambda: next(asked) >= rounds


class Heard(Progress):
    """Remembers after which round a run began, and why; and does something after every round."""

    def __init__(self, then=lambda: None):
        self.then = then

    def begin(self, rounds, done, notes):
        self.done, self.notes = done, list(notes)

    def update(self, record):
        self.then()
