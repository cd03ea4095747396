"""The same small trainings from two source trees on one machine: are their records equal, byte for byte?

    git worktree add ../before HEAD~1
    python benchmarks/compare_trees.py ../before/src src
    python benchmarks/compare_trees.py ../before/src src --only scheduled flower

Every scheme, every channel, silent devices, participation, dropout, unequal devices, blocks of devices,
memories in files, radio units, power control that chooses, and Flower in one process (with PyTorch and Flower
where they are installed). Where ``rounds.jsonl`` differs, the fields that do are told with their largest
relative difference.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

SIDE, CLASSES, DEVICES, ROUNDS = 12, 4, 6, 8
BASE = {
    "rounds": ROUNDS,
    "seed": 3,
    "devices.count": DEVICES,
    "devices.samples": 80,
    "devices.learning_rate": 0.3,
    "uplink.ratio": 0.3,
    "uplink.power": 50.0,
    "run.threads": 1,
}
FADING = {"channel.kind": "fading", "channel.threshold": 0.9}
SCHEMES = "error_free dense scheduled tsa_ga tsa_ga_no_support tsa_ga_no_amplitude tsa_ga_tuned turbo_cs "
SCHEMES += "a_dsgd a_dsgd_mmse common_k low_rank sign_vote"
TRAININGS = {
    **{name: {"scheme": name} for name in SCHEMES.split()},
    "d_dsgd": {"scheme": "d_dsgd", "uplink.ratio": 1.0, "channel.noise_var": 0.1},
    "fading scheduled": {**FADING, "scheme": "scheduled", "channel.csi_error": 0.05},
    "fading tsa_ga": {**FADING, "scheme": "tsa_ga", "channel.phase_error": 0.2, "devices.dropout": 0.3},
    "silent rounds": {**FADING, "scheme": "common_k", "channel.threshold": 1.1, "devices.count": 2},
    "silent rounds scheduled": {
        **FADING,
        "scheme": "scheduled",
        "channel.threshold": 1.0,
        "devices.count": 2,
    },
    "participation": {"scheme": "tsa_ga", "devices.participation": 0.5, "devices.dropout": 0.2},
    "participation scheduled": {"scheme": "scheduled", "devices.participation": 0.5},
    "dropout error_free": {"scheme": "error_free", "devices.dropout": 0.4, "devices.spread": 0.6},
    "cell selection": {"scheme": "tsa_ga", "channel.kind": "cell", "uplink.policy": "selection"},
    "cell mse": {"scheme": "scheduled", "channel.kind": "cell", "uplink.policy": "mse"},
    "antennas": {"scheme": "turbo_cs", "channel.kind": "antennas", "devices.spread": 0.5},
    "response": {"scheme": "tsa_ga", "channel.kind": "response"},
    "response coordinates": {"scheme": "sign_vote", "channel.kind": "response"},
    "response low_rank": {"scheme": "low_rank", "channel.kind": "response"},
    "long-term power": {**FADING, "scheme": "low_rank", "uplink.policy": "long_term"},
    "blocks": {"scheme": "tsa_ga", "devices.participation": 0.7, "block": 2},
    "blocks chosen": {"scheme": "common_k", "channel.kind": "cell", "uplink.policy": "mse", "block": 2},
    "memory maps": {"scheme": "scheduled", "run.memory_map_above": 0, "devices.dropout": 0.3},
    "radio units": {
        "scheme": "tsa_ga",
        "uplink.power": None,
        "radio.bandwidth_hz": 1e5,
        "radio.tx_power_dbm": 10,
        "radio.path_loss_db": 105,
    },
    "cnn": {"scheme": "scheduled", "model.kind": "cnn", "rounds": 2, "uplink.ratio": 0.05},
    "cnn tsa_ga": {"scheme": "tsa_ga", "model.kind": "cnn", "rounds": 2},
}
FLOWER = {
    "flower digital": {"scheme": "scheduled", "fraction_train": 0.6},
    "flower air": {"scheme": "tsa_ga", "channel": "fading", "audit": True},
    "flower two messages": {"scheme": "common_k", "channel": "gaussian", "exchange": "two"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trees", nargs="*", help="two folders of sources, each with airfeel in it")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="trainings whose name has this")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    wanted = [name for name in available() if not options.only or any(part in name for part in options.only)]
    if options.into:
        return record(wanted, options.into)
    if len(options.trees) != 2:
        parser.error("two folders of sources are needed: the one before and the one now")
    with tempfile.TemporaryDirectory() as folder:
        found = [follow(tree, Path(folder) / str(i), options.only) for i, tree in enumerate(options.trees)]
        differing = [name for name in wanted if not told(name, *(place / name for place in found))]
    print(f"{len(wanted) - len(differing)} of {len(wanted)} trainings have the same bytes")
    return int(bool(differing))


def available():
    """Return the names of the trainings that this installation can carry out."""
    torch, flower = find_spec("torch") is not None, find_spec("flwr") is not None
    found = [name for name, keys in TRAININGS.items() if torch or keys.get("model.kind") != "cnn"]
    return [*found, *(FLOWER if flower else [])]


def follow(tree, into, only):
    """Record all trainings with the sources of one tree, in a process of its own."""
    if not (Path(tree) / "airfeel" / "__init__.py").is_file():
        raise SystemExit(f"{tree}: must be a folder of sources, with airfeel in it")
    environment = {**os.environ, "PYTHONPATH": str(Path(tree).resolve()), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(Path(__file__).resolve()), "--into", str(into)]
    subprocess.run([*command, *(["--only", *only] if only else [])], check=True, env=environment)
    return into


def told(name, before, now):
    """Print whether a training has the same bytes, and return it."""
    if before.read_bytes() == now.read_bytes():
        print(f"{name:<24} same")
        return True
    old, new = ([json.loads(line) for line in path.read_text().splitlines()] for path in (before, now))
    fields: dict[str, tuple[float, int]] = {}
    for one, two in zip(old, new, strict=True):
        for key in one.keys() | two.keys():
            if (apart := difference(one.get(key), two.get(key))) > 0:
                most, first = fields.get(key, (0.0, one["round"]))
                fields[key] = max(most, apart), first
    words = (f"{key} {most:.1e} from round {first}" for key, (most, first) in sorted(fields.items()))
    print(f"{name:<24} DIFFERS: {', '.join(words)}")
    return False


def difference(one, two):
    """Return the relative difference of two values, 0 where they are equal, infinite where not numbers."""
    if one == two:
        return 0.0
    if not all(isinstance(value, int | float) for value in (one, two)):
        return float("inf")
    return abs(one - two) / max(abs(one), abs(two))


def record(names, into):
    into.mkdir(parents=True)
    for name in names:
        (into / name).write_bytes(train(name, into) if name in TRAININGS else flower(**FLOWER[name]))


def train(name, folder):
    """Return the bytes of ``rounds.jsonl`` of one training."""
    import airfeel as af

    keys = {**BASE, **TRAININGS[name]}
    keys = {key: value for key, value in keys.items() if value is not None}
    height = keys.pop("block", None)
    if keys.get("channel.kind") == "response":
        keys["channel.source"] = str(responses(folder / "responses.npz"))
    with FewDevices(height):
        done = af.run(af.load_config(None, keys), dataset=data(), out=folder / f"{name} results")
    return (done.folder / "rounds.jsonl").read_bytes()


class FewDevices:
    """So many devices of this data in a block, while it is open; None: as the package has it."""

    def __init__(self, height):
        from importlib import import_module

        home = next(m for m in ("airfeel.uplink.memory", "airfeel.schemes.blocks") if _there(m))
        self.module, self.height = import_module(home), height

    def __enter__(self):
        self.before = self.module.BLOCK
        if self.height is not None:
            self.module.BLOCK = self.height * (SIDE * SIDE + 1) * CLASSES

    def __exit__(self, *_):
        self.module.BLOCK = self.before


def _there(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def data():
    """Return noisy images of one pattern per class, for training and for the test."""
    import numpy as np

    rng = np.random.default_rng(5)
    patterns = rng.integers(0, 2, (CLASSES, SIDE, SIDE)) * 160

    def draw(count):
        labels = rng.integers(0, CLASSES, count)
        noise = rng.normal(48, 60, (count, SIDE, SIDE))
        return np.clip(patterns[labels] * 0.4 + noise, 0, 255).astype(np.uint8), labels

    return (*draw(600), *draw(200))


def responses(path):
    """Write responses that fade from element to element, so that some symbols are left out."""
    import numpy as np

    if not path.exists():
        rng = np.random.default_rng(7)
        taps = rng.standard_normal((ROUNDS, DEVICES, 4)) + 1j * rng.standard_normal((ROUNDS, DEVICES, 4))
        np.savez(path, response=np.fft.fft(taps / 8**0.5, 64, axis=2))
    return path


def flower(scheme, fraction_train=1.0, **options):
    """Return what Flower in one process reports of every round, with a hash of the model."""
    os.environ.update(FLWR_TELEMETRY_ENABLED="0", FLWR_DISABLE_UPDATE_CHECK="1")
    import logging
    import random

    import numpy as np
    from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp

    from airfeel.flower import AirAvg, air_mod
    from airfeel.flower.local import LocalGrid

    logging.getLogger("flwr").setLevel(logging.ERROR)
    random.seed(1)  # Flower's choice of clients
    app = ClientApp()

    @app.train(mods=[air_mod])
    def train(message, context):
        device, round = context.node_config["partition-id"], message.content["config"]["server-round"]
        model = {name: array.numpy() for name, array in message.content["arrays"].items()}
        for i, (name, array) in enumerate(model.items()):
            noise = np.random.default_rng([device, round, i]).standard_normal(array.shape)
            model[name] = (0.9 * array + 0.05 * noise).astype(array.dtype)
        content = {"arrays": ArrayRecord({name: Array(array) for name, array in model.items()})}
        content["metrics"] = MetricRecord({"num-examples": 10 * (device + 1)})
        return Message(RecordDict(content), reply_to=message)

    rng = np.random.default_rng(3)
    shapes = {"weight": (12, 20), "bias": (12,), "kernel": (4, 2, 3, 3)}
    start = {name: Array(rng.standard_normal(shape).astype(np.float32)) for name, shape in shapes.items()}
    strategy = AirAvg(
        scheme,
        0.3,
        min_available_nodes=DEVICES,
        fraction_train=fraction_train,
        fraction_evaluate=0.0,
        **options,
    )
    lines, hashes = [], []

    def evaluate(round, arrays):
        hashes.append(
            hashlib.sha256(b"".join(array.numpy().tobytes() for array in arrays.values())).hexdigest()
        )

    strategy.start(LocalGrid(app, DEVICES), ArrayRecord(start), ROUNDS, evaluate_fn=evaluate)
    for report, model in zip(strategy.rounds, hashes[1:], strict=True):
        facts = {"round": report.round, "heard": list(report.heard), "alpha": report.alpha, "model": model}
        lines.append(json.dumps(facts | {"nmse_db": report.nmse_db, "energy": report.energy}))
    return "\n".join(lines).encode()


if __name__ == "__main__":
    sys.exit(main())
