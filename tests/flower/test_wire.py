"""What stands in messages beside arrays: little, weighed exactly; plans come back as they were."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import flower_apps as apps
from airfeel.flower import AirAvg, wire
from airfeel.flower.local import LocalGrid


class Weighed(LocalGrid):
    """A grid that compares the short way to weigh messages with the long one."""

    replies = ()

    def send_and_receive(self, messages, *, timeout=None):
        messages = list(messages)
        found = super().send_and_receive(messages)
        self.replies = (*self.replies, *found)
        for message in (*messages, *found):
            beside = wire.message_bytes(message) - wire.payload(message.content)
            assert wire.beside(message) == beside
        return found


@pytest.mark.parametrize(
    "given",
    [{"compression": 100}, {"scheme": "scheduled", "ratio": 0.1}, {"scheme": "scheduled", "downlink": 4}],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_a_reply_has_at_most_six_hundred_bytes_beside_its_arrays(given):
    grid = Weighed(apps.app(apps.drift), 3)
    AirAvg(**given, fraction_evaluate=0.0).start(grid, apps.record({"w": np.ones((50, 60), np.float32)}), 3)
    assert len(grid.replies) == 9
    assert all(wire.beside(reply) <= 600 for reply in grid.replies)


def test_a_plan_comes_back_as_it_was_in_fewer_bytes():
    places = np.flatnonzero(np.random.default_rng(1).random(30_000) < 0.04).astype(np.int32)
    plan = {"chosen": places, "ages": np.full(len(places), 3, np.int32), "layout": "784cx10c 10", "move": 0.5}
    plan |= {"signs": np.array([-1, 1]), "shares": np.linspace(0, 1, 5), "table": np.arange(6).reshape(2, 3)}
    records = wire.plan_records(plan)
    found = wire.read_plan(apps.RecordDict(records))
    assert found.keys() == plan.keys()
    for name, value in plan.items():
        assert np.asarray(found[name]).dtype == np.asarray(value).dtype and np.array_equal(found[name], value)
    sent = apps.arrays(records[wire.PLAN])
    assert sent["plan.chosen"].nbytes < places.nbytes / 4
    with pytest.raises(ValueError, match="coded numbers: must be at most 100"):
        wire.read_plan(apps.RecordDict(records), 100)
