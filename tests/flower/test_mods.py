"""Beside other mods, with other records, in half precision, started twice."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

from flwr.app import MetricRecord
from flwr.clientapp.mod import arrays_size_mod, message_size_mod

import flower_apps as apps
from airfeel.flower import AirAvg, air_mod
from flower_hostile import MODEL, QUIET, SCHEMES, left, towards

LESS_DOWN = [{**SCHEMES[0], "downlink": "changed", "exact": []}, {**SCHEMES[1], "downlink": 4}]


@pytest.mark.parametrize(
    "given", SCHEMES[:3] + LESS_DOWN, ids=lambda given: "-".join(map(str, given.values()))
)
@pytest.mark.parametrize("size", [message_size_mod, arrays_size_mod])
def test_mods_that_weigh_messages_stand_before_or_after(given, size):
    found = []
    for mods in ([air_mod], [size, air_mod], [air_mod, size]):
        app = apps.ClientApp()

        @app.train(mods=mods)
        def answer(message, context):
            content = {"arrays": apps.record(towards(apps.arrays(message.content["arrays"]), 0, 0))}
            content |= {
                "metrics": MetricRecord({"num-examples": 3}),
                "control": apps.record({"c": np.ones(5)}),
            }
            return apps.Message(apps.RecordDict(content), reply_to=message)

        strategy = AirAvg(**{**QUIET, **given})
        found.append(apps.arrays(strategy.start(apps.LocalGrid(app, 3), apps.record(MODEL), 3).arrays))
        assert all(len(report.heard) == 3 for report in strategy.rounds)
    assert all(np.array_equal(found[0][k], other[k]) for other in found for k in MODEL)


def test_the_same_object_starts_twice():
    strategy, grid = AirAvg("scheduled", 0.5, **QUIET), apps.LocalGrid(apps.app(towards), 4)
    first, second = (apps.arrays(strategy.start(grid, apps.record(MODEL), 3).arrays) for _ in range(2))
    assert all(len(report.heard) == 4 for report in strategy.rounds) and len(strategy.rounds) == 3
    assert all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("given", SCHEMES[:3], ids=lambda given: "-".join(map(str, given.values())))
def test_a_model_in_half_precision_learns_and_stays_so(given):
    half = {name: array.astype(np.float16) if array.ndim else array for name, array in MODEL.items()}

    def step(model, device, round):
        return {name: array.astype(half[name].dtype) for name, array in towards(model, device, round).items()}

    strategy = AirAvg(**{**QUIET, **given})
    found = apps.arrays(strategy.start(apps.LocalGrid(apps.app(step), 4), apps.record(half), 20).arrays)
    assert {name: array.dtype for name, array in found.items()} == {k: a.dtype for k, a in half.items()}
    assert all(len(report.heard) == 4 for report in strategy.rounds)
    assert left(found) < 0.1 and (found["running_mean"] == 20).all() and found["n"] == 40
