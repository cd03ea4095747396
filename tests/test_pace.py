"""What is said of the time left: soon, now and then, and never a number that nothing is known of."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from airfeel import _pace
from airfeel._pace import Pace
from airfeel.experiments.campaigns.overview import CampaignLines


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_the_time_left_follows_from_what_was_done_since_the_start():
    clock = Clock()
    pace = Pace(100, done=20, clock=clock)
    assert pace.left(20) == ""
    clock.now += 8
    assert pace.per_second(30) == pytest.approx(10 / 8)
    assert pace.left(30) == "56 s left"
    assert pace.left(120) == "0 s left"


def test_something_is_said_within_seconds_and_then_rarely():
    clock, said = Clock(), []
    pace = Pace(300, clock=clock)
    for step in range(1, 301):
        clock.now += 0.25
        pace.tell(step, said.append, f"step {step}")
    assert said == ["step 12, 72 s left", "step 132, 42 s left", "step 252, 12 s left"]


def test_a_campaign_without_a_terminal_speaks_before_its_first_run_ends(tmp_path, monkeypatch):
    clock, said = Clock(), []
    monkeypatch.setattr("airfeel.experiments.campaigns.overview.Pace", lambda *now: Pace(*now, clock=clock))
    lines = CampaignLines()
    monkeypatch.setattr(lines, "note", said.append)
    lines.begin([SimpleNamespace(label=name, effort=50.0, rounds=50) for name in "ab"], 0, tmp_path)
    records = Path(tmp_path, "runs", "a", "rounds.jsonl")
    records.parent.mkdir(parents=True)
    clock.now += 4
    lines.update()
    assert said == []  # no round is there: nothing is known of the time left
    records.write_text("{}\n" * 5)
    lines.update()
    lines.update()
    assert said == ["0/2 runs  5%  about 76 s left"]
    clock.now += 31
    records.write_text("{}\n" * 25)
    lines.update()
    assert said[1:] == ["0/2 runs  25%  about 105 s left"]


def test_a_span_has_the_unit_people_use_for_it():
    assert [_pace.duration(seconds) for seconds in (4.2, 150, 4 * 3600)] == ["4.2 s", "2 min", "4.0 h"]
