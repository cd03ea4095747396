"""What broken or hostile clients and servers send: kinds of replies by name, and entries of plans."""

import numpy as np
from flwr.app import ConfigRecord, MetricRecord

import flower_apps as apps
from airfeel.flower import AirAvg, wire

QUIET = {"fraction_evaluate": 0.0}
MODEL = {"w": np.zeros((8, 30), np.float32), "running_mean": np.zeros(4, np.float32), "n": np.array(0)}
GOAL = np.random.default_rng(8).standard_normal((8, 30)).astype(np.float32)
BAD = 1006  # the one of twelve clients with the median weight
DENSE = {"scheme": "dense", "ratio": 1.0}
SCHEMES = [{"scheme": "scheduled", "ratio": 0.5}, {"compression": 3}, {"scheme": "common_k", "ratio": 0.5}]
SCHEMES += [{"scheme": "low_rank", "ratio": 0.5}, DENSE]
SCHEMES += [{"scheme": "common_k", "ratio": 0.5, "channel": "gaussian", "exchange": "two"}]


def towards(model, device, round):
    return {
        "w": model["w"] + 0.3 * (GOAL - model["w"]),
        "running_mean": model["running_mean"] + 1,
        "n": model["n"] + 2,
    }


def train(fault=None, rounds=8, step=towards, clip=3.0, **given):
    strategy = AirAvg(**{**QUIET, **(given or DENSE)}, clip=clip)
    grid = apps.Faulty(apps.app(step), 12, fault or (lambda round, node, reply: [reply]))
    return strategy, apps.arrays(strategy.start(grid, apps.record(MODEL), rounds).arrays)


def left(found):
    return float(np.linalg.norm(found["w"] - GOAL) / np.linalg.norm(GOAL))


def signal(reply, change):
    apps.with_signal(reply, **{name: change(a) for name, a in apps.signal(reply).items()})


def facts(record, **values):
    def change(reply):
        for key, value in values.items():
            reply.content[record][key.replace("_", "-") if record == "metrics" else key] = value

    return change


def exact(**arrays):
    def change(reply):
        if "arrays" in reply.content:
            reply.content["arrays"] = apps.record({**apps.arrays(reply.content["arrays"]), **arrays})

    return change


def loud(reply, factor):
    """Send a signal that is so much longer, with the energy that it then has."""
    with np.errstate(all="ignore"):
        signal(reply, lambda a: (a * factor).astype(a.dtype) if a.dtype.kind == "f" else a[::-1])
    if (told := reply.content[wire.ROUND]).get("energy") is not None:
        told["energy"] = float(told["energy"]) * factor**2


NAN = float("nan")
HOSTILE = {
    "exact huge": exact(running_mean=np.full(4, 1e300)),
    "exact large": exact(running_mean=np.full(4, 1e30, np.float32)),
    "exact long double": exact(running_mean=np.full(4, NAN, np.longdouble)),
    "exact complex": exact(running_mean=np.full(4, NAN * 1j)),
    "exact text": exact(running_mean=np.array(["a"] * 4)),
    "exact number": exact(n=np.array(2**62)),
    "exact float for int": exact(n=np.array(1e300)),
    "exact shape": exact(running_mean=np.zeros(10**5, np.float32)),
    "exact more": exact(other=np.zeros(3)),
    "signal text": lambda r: signal(r, lambda a: a.astype("U9")),
    "signal object": lambda r: signal(r, lambda a: a.astype(np.complex128)),
    "signal empty": lambda r: signal(r, lambda a: a[:0]),
    "signal nan": lambda r: signal(r, lambda a: a * a.dtype.type(0) + np.array(NAN).astype(a.dtype)),
    "signal long": lambda r: signal(r, lambda a: np.zeros(10**6, a.dtype)),
    "signal reversed": lambda r: loud(r, -1000.0),
    "signal reversed, longest": lambda r: loud(r, -1e18),
    "metric list": facts("metrics", loss=[1.0, 2.0]),
    "metric other": facts("metrics", another=1.0),
    "metric nan": facts("metrics", loss=NAN),
    "weight list": facts("metrics", num_examples=[3.0]),
    "weight huge": facts("metrics", num_examples=1e300),
    "weight large": facts("metrics", num_examples=10**9),
    "weight whole": facts("metrics", num_examples=2**63 - 1),
    "weight nan": facts("metrics", num_examples=NAN),
    "weight zero": facts("metrics", num_examples=0),
    "energy huge": facts(wire.ROUND, energy=1e308),
    "energy large": facts(wire.ROUND, energy=1e50),
    "energy negative": facts(wire.ROUND, energy=-1.0),
    "energy list": facts(wire.ROUND, energy=[1.0]),
    "round": facts(wire.ROUND, round=[2]),
    "digest": facts(wire.ROUND, digest=NAN),
    "client": facts(wire.ROUND, client=NAN),
    "client huge": facts(wire.ROUND, client=2**62, device=-(2**62)),
    "device": facts(wire.ROUND, device=[]),
    "record kind": lambda r: r.content.update({wire.ROUND: ConfigRecord({"round": "x"})}),
    "metrics kind": lambda r: r.content.update({"metrics": MetricRecord({})}),
    "nothing": lambda r: [r.content.pop(name) for name in list(r.content)],
}


def hostile_value(draw, value, size):
    """Return something else in the place of an entry of a plan."""
    strange = [2 * 10**8, -1, 0, 2**62, NAN, 1e300, None, "x" * 1000, [], {}, True]
    if not isinstance(value, np.ndarray):
        return strange[draw.integers(len(strange))]
    with np.errstate(all="ignore"):
        changed = [value * 0 - 7, value + 2**30, value * 1e200, np.full(value.shape, np.inf)]
        changed += [value[:0], value[None], np.repeat(value, 5), np.zeros(50 * (size + 256))]
        changed += [value.astype("U3"), value.astype(np.complex64)]
    return changed[draw.integers(len(changed))]


def hostile_word(draw):
    """Return something else in the place of a number or word of a record; None to leave it out."""
    strange = [2**62, -(2**62), -1, 0, 3, NAN, 1e300, "", "x" * 1000, "a\nb", "*" * 500, "[" * 500, "{" * 500]
    strange += [True, b"x", [1] * 1000, ["x"], None]
    return strange[draw.integers(len(strange))]
