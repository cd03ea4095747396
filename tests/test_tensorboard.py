"""The TensorBoard example, run as its first lines say, and read back."""

import struct
import sys
from pathlib import Path

import pytest

import small

EXAMPLE = Path(__file__).parents[1] / "examples" / "tensorboard_log.py"


def scalars(path):
    """Read a TensorBoard event file: length, checksum, event, checksum, one after the other."""
    from tensorboardX.proto.event_pb2 import Event

    content, place, found = path.read_bytes(), 0, {}
    while place < len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        event = Event.FromString(content[place + 12 : place + 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, []).append((event.step, value.simple_value))
        place += 12 + length + 4
    return found


def test_the_example_logs_every_round(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    data = small.write_folder(tmp_path / "data")
    settings = [f"{key}={value}" for key, value in small.SETTINGS.items()]
    words = [sys.executable, str(EXAMPLE), "logs", f"dataset={data}", "rounds=3", *settings]
    process = small.run(words, cwd=tmp_path)
    assert process.returncode == 0, process.stderr
    (events,) = (tmp_path / "logs").iterdir()
    logged = scalars(events)
    assert [step for step, _ in logged["accuracy"]] == [1, 2, 3]
    assert all(0 < value <= 1 for _, value in logged["accuracy"])
    assert {"nmse_db", "energy", "symbols", "loss"} <= set(logged)
