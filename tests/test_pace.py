"""What is said of the time left: soon, now and then, and never a number that nothing is known of."""

import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import fakes
import small
from airfeel import _pace
from airfeel._pace import Pace
from airfeel.config import load_config
from airfeel.experiments.campaigns.overview import CampaignLines
from airfeel.experiments.report import report
from airfeel.experiments.runs import progress
from airfeel.simulation import start, steps
from airfeel.simulation.assembly import Own, assemble


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
    lines.update()
    assert said == ["0/2 runs  0%  the first rounds are under way"]  # nothing is known of the time left
    records.write_text("{}\n" * 5)
    lines.update()
    lines.update()
    assert said[1:] == ["0/2 runs  5%  about 76 s left"]
    clock.now += 31
    records.write_text("{}\n" * 25)
    lines.update()
    assert said[2:] == ["0/2 runs  25%  about 105 s left"]


@pytest.fixture
def clock(monkeypatch):
    """A clock for the lines of a run."""
    clock = Clock()
    monkeypatch.setattr(progress, "Pace", partial(Pace, clock=clock))
    return clock


def test_a_long_round_speaks_before_it_ends(clock, caplog):
    lines = progress.Lines()
    with caplog.at_level(logging.INFO, logger="airfeel"):
        lines.begin(10, 2, [])
        for device in range(1, 21):
            clock.now += 2
            lines.within(device, 20)
    # 3 s are over after the second device, and 30 s later after the seventeenth.
    assert caplog.messages == [
        "round 3/10  2 of 20 devices trained  about 5 min left",
        "round 3/10  17 of 20 devices trained  about 5 min left",
    ]


def test_short_rounds_are_not_told_device_by_device(clock, caplog):
    lines = progress.Lines()
    with caplog.at_level(logging.INFO, logger="airfeel"):
        lines.begin(1000, 0, [])
        for round in range(1, 11):
            for device in range(1, 21):
                clock.now += 0.1
                lines.within(device, 20)
            lines.update(SimpleNamespace(round=round, accuracy=0.5, nmse_db=None, cumulative_nmse_db=None))
    assert [line.partition("  ")[0] for line in caplog.messages] == ["round 2/1000"]


def test_every_device_that_trains_is_counted_once_in_its_round():
    settings = small.SETTINGS | {"rounds": 2, "devices.participation": 0.5, "run.threads": 3}
    parts = assemble(load_config(None, settings), Own(dataset=small.arrays()))
    heard = []
    computing = round(parts.config.devices.count * 0.5 + 1e-9)
    assert len(list(steps(parts, start(parts), lambda *now: heard.append(now)))) == 2
    assert heard == 2 * [(done, computing) for done in range(1, computing + 1)]


def test_a_report_says_what_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "Pace", partial(Pace, clock=Clock()))
    fakes.write_run(load_config(None, {"rounds": 5}), tmp_path)
    said = []
    report.write_report(tmp_path, told=said.append)
    assert said == [f"reading the runs in {tmp_path}", "drawing the figures", "writing the page"]


def test_a_span_has_the_unit_people_use_for_it():
    assert [_pace.duration(seconds) for seconds in (4.2, 150, 4 * 3600)] == ["4.2 s", "2 min", "4.0 h"]
