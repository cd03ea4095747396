"""Any value for any key: one sentence for each mistake, or two rounds without a warning."""

import math
import warnings

import pytest

import small
from airfeel.config import build_config
from airfeel.simulation.loop import train
from fuzzing import cases, magnitude, share

DATA = small.arrays(train=60, test=20)
BASE = {"rounds": 2, "devices.count": 3, "devices.samples": 8, "run.threads": 1, "dataset": "unused"}
CHOICES = {
    "scheme": [
        *("tsa_ga", "turbo_cs", "a_dsgd", "common_k", "error_free", "dense", "tsa_ga_tuned"),
        *("low_rank", "sign_vote", "d_dsgd"),
    ],
    "partition.kind": ["iid", "classes", "dirichlet"],
    "channel.kind": ["gaussian", "fading"],
    "uplink.policy": ["equal", "long_term"],
    "server.optimizer": ["sgd", "adam"],
    "server.schedule": ["constant", "step", "cosine", "inverse"],
    "receiver.amplitude_message": ["expansion", "moments", "joint"],
    "receiver.precision": ["float32", "float64"],
}
# What may be large only as long as nobody computes it: time and memory are not what is tested here.
COSTLY = {"rounds", "devices.count", "devices.samples", "devices.local_steps", "receiver.max_iterations"}
NUMBERS = [
    *("uplink.ratio", "uplink.sparsity", "uplink.power", "channel.noise_var", "channel.threshold"),
    *("channel.rician", "channel.csi_error", "channel.phase_error", "receiver.tolerance"),
    *("receiver.activity", "receiver.p01", "receiver.beta", "devices.learning_rate", "devices.spread"),
    *("devices.participation", "devices.dropout", "partition.alpha", "server.learning_rate"),
    *("server.momentum", "server.schedule_factor", "model.l2"),
]
FADING = {"channel.threshold", "channel.rician", "channel.csi_error", "channel.phase_error"}
SHARES = {
    *("uplink.ratio", "uplink.sparsity", "receiver.activity", "receiver.p01", "receiver.beta"),
    *("devices.participation", "devices.dropout", "server.momentum", "server.schedule_factor"),
}
WHOLE = [
    *(*COSTLY, "seed", "devices.batch_size", "partition.classes", "receiver.window", "receiver.learn_from"),
    *("server.schedule_every", "run.evaluate_every", "run.checkpoint_every", "uplink.block"),
]
NONSENSE = [
    *(None, True, "x", "", [], [[]], {}, {"a": {"b": 1}}, math.nan, math.inf),
    *(-1, -1.5, 10**400, 10**5000),
]


def draw_value(rng, key):
    """Return a value for a key: mostly a legal one, sometimes at the end of its range, sometimes nonsense."""
    if rng.random() < 0.03:
        return NONSENSE[rng.integers(len(NONSENSE))]
    if key in CHOICES:
        return str(rng.choice(CHOICES[key]))
    if key in COSTLY:
        return int(rng.integers(1, 4))
    if key in WHOLE:
        return int(rng.choice([1, 2, 3, 7, 10**15]))
    if key in SHARES and rng.random() < 0.9:
        return share(rng)
    kind = rng.integers(3)
    if kind == 0:
        return magnitude(rng, -30, 30)
    return float(rng.uniform(0, 1)) if kind == 1 else float(rng.choice([0.0, 1.0, 1e-30, 1e30, 1e-9, 50.0]))


def draw_settings(rng):
    """Return settings by dotted key, half of them about what the configuration can name."""
    settings = dict(BASE) | {"scheme": draw_value(rng, "scheme")}
    keys = [*CHOICES, *NUMBERS, *WHOLE]
    for key in rng.choice(keys, rng.integers(1, 7), replace=False):
        settings[str(key)] = draw_value(rng, str(key))
    if FADING & settings.keys() and rng.random() < 0.95:
        settings["channel.kind"] = "fading"
    for key, wanted in (("partition.alpha", "dirichlet"), ("partition.classes", "classes")):
        if key in settings and rng.random() < 0.9:
            settings["partition.kind"] = wanted
    kind = settings.get("partition.kind")
    if kind == "classes":
        settings.setdefault("partition.classes", 2)
    if kind == "dirichlet":
        settings.setdefault("partition.alpha", draw_value(rng, "partition.alpha"))
    if rng.random() < 0.02:
        settings[str(rng.choice(["uplink.rato", "a.b.c", "uplink", "devices.count.x"]))] = 1
    return settings


def check_configuration(rng):
    """Build, train two rounds, and read the records."""
    settings = draw_settings(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            config = build_config({}, settings)
            records = list(train(config, dataset=DATA))
        except ValueError as error:
            require_sentences(str(error))
            return
    assert len(records) == config.rounds
    for record in records:
        record.to_json()  # refuses what is not finite


def require_sentences(text):
    """Every line short, without Python's own words."""
    for line in text.splitlines():
        assert 20 < len(line) < 700, line
        assert "Traceback" not in line and "Error" not in line and "sys." not in line, line


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_any_configuration(count, record_property):
    cases(check_configuration, count, record_property, "configurations")
