"""The examples with trackers, run as their first lines say on back ends of this machine, and read back."""

import json
import os
import sqlite3
import struct
import sys
from pathlib import Path

import pytest

import small

EXAMPLES = Path(__file__).parents[1] / "examples"
LOGGED = {"accuracy", "nmse_db", "energy", "symbols", "loss"}


def run_example(name, folder, where, **environment):
    """Log three rounds of a small run."""
    data = small.write_folder(folder / "data")
    settings = [f"{key}={value}" for key, value in small.SETTINGS.items()]
    words = [sys.executable, str(EXAMPLES / name), where, f"dataset={data}", "rounds=3", *settings]
    done = small.run(words, cwd=folder, env=os.environ | environment)
    assert done.returncode == 0, done.stderr


def check(logged):
    """Every round is there, and the numbers are those of a training."""
    assert set(logged) >= LOGGED
    assert [step for step, _ in logged["accuracy"]] == [1, 2, 3]
    assert all(0 < value <= 1 for _, value in logged["accuracy"])


def test_tensorboard(tmp_path):
    pytest.importorskip("tensorboardX", reason="needs tensorboardX")
    run_example("tensorboard_log.py", tmp_path, "logs")
    (events,) = (tmp_path / "logs").iterdir()
    check(tensorboard_scalars(events))


@pytest.mark.tracker
def test_mlflow(tmp_path):
    pytest.importorskip("mlflow", reason="needs mlflow-skinny")
    pytest.importorskip("alembic", reason="needs sqlalchemy and alembic")
    run_example("mlflow_log.py", tmp_path, "sqlite:///mlflow.db", MLFLOW_DISABLE_TELEMETRY="true")
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        rows = database.execute("select key, step, value from metrics order by step").fetchall()
        settings = dict(database.execute("select key, value from params").fetchall())
        (status,) = database.execute("select status from runs").fetchone()
    logged = {}
    for key, step, value in rows:
        logged.setdefault(key, []).append((step, value))
    check(logged)
    assert status == "FINISHED"
    assert settings["scheme"] == "tsa_ga"
    assert float(settings["uplink.ratio"]) == small.SETTINGS["uplink.ratio"]


@pytest.mark.tracker
def test_wandb(tmp_path):
    pytest.importorskip("wandb", reason="needs wandb")
    run_example("wandb_log.py", tmp_path, "mine", WANDB_MODE="offline", WANDB_SILENT="true")
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    check(wandb_history(path))


def tensorboard_scalars(path):
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


def wandb_history(path):
    """Read an offline run: behind 7 bytes, records in the form of LevelDB's log, in blocks of 32 KB."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, block, whole, found = path.read_bytes(), 7, 2**15, b"", {}
    while place + 7 <= len(content):
        if place % block > block - 7:  # no head fits there, so the next block begins
            place += block - place % block
            continue
        length, kind = struct.unpack_from("<HB", content, place + 4)
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            row = {item.nested_key[0]: json.loads(item.value_json) for item in _items(Record, whole)}
            for name, value in row.items():
                found.setdefault(name, []).append((row["_step"], value))
            whole = b""
    return found


def _items(kind, content):
    """Return the numbers of one round, if a record is about one."""
    record = kind.FromString(content)
    return record.history.item if record.WhichOneof("record_type") == "history" else []
