"""What is said of the time left: soon, now and then, and never a number that nothing is known of."""

import io
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import airfeel as af
import fakes
import small
from airfeel._timing import Timer
from airfeel.config import load_config
from airfeel.lab import report
from airfeel.lab.progress import CampaignLines, Live
from airfeel.simulation import records as progress
from airfeel.simulation.assembly import Own, assemble
from airfeel.simulation.loop import start, steps


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_the_time_left_follows_from_the_steps_after_the_first():
    clock, told = Clock(), []
    timer = Timer(100, done=20, clock=clock)
    for done, seconds in [(20, 0), (20.9, 30), (21, 10), (22, 1), (23, 1), (23.9, 1), (24, 1), (30, 2)]:
        clock.now += seconds
        told.append((timer.per_second(done), timer.left(done)))
    # The first step took 40 s, the next ones 1 s, and then come 3 in a second.
    assert told[:3] == [(0, "")] * 3 and told[3:5] == [(1, ""), (1, "")]
    assert [left for _, left in told[5:]] == ["", "101 s left", "46.7 s left"]
    assert timer.per_second(30) == pytest.approx(9 / 6)
    assert timer.left(120) == "0 s left"


def test_something_is_said_within_seconds_and_then_rarely():
    clock, said = Clock(), []
    timer = Timer(300, clock=clock)
    for step in range(1, 301):
        clock.now += 0.25
        timer.tell(step, said.append, f"step {step}")
    assert said == ["step 12, 72 s left", "step 132, 42 s left", "step 252, 12 s left"]


def test_a_campaign_without_a_terminal_speaks_before_its_first_run_ends(tmp_path, monkeypatch):
    clock, said = Clock(), []
    monkeypatch.setattr("airfeel.lab.progress.Timer", lambda *now: Timer(*now, clock=clock))
    lines = CampaignLines()
    monkeypatch.setattr(lines, "note", said.append)
    config = SimpleNamespace(rounds=50)
    lines.begin([SimpleNamespace(label=name, effort=50.0, config=config) for name in "ab"], 0, tmp_path)
    records = Path(tmp_path, "runs", "a", "rounds.jsonl")
    records.parent.mkdir(parents=True)
    clock.now += 4
    lines.update()
    lines.update()
    assert said == ["0/2 runs  0%  the first rounds are under way"]  # nothing is known of the time left
    for rounds in (1, 2, 5):
        clock.now += 1
        records.write_text("{}\n" * rounds)
        lines.update()
        lines.update()
    assert said[1:] == [
        "0/2 runs  5%  about 47.5 s left"
    ]  # four rounds in two seconds, the first not counted
    clock.now += 31
    records.write_text("{}\n" * 25)
    lines.update()
    assert said[2:] == ["0/2 runs  25%  about 103 s left"]


@pytest.fixture
def clock(monkeypatch):
    """A clock for the lines of a run."""
    clock = Clock()
    monkeypatch.setattr(progress, "Timer", partial(Timer, clock=clock))
    return clock


def ended(round):
    return SimpleNamespace(round=round, accuracy=0.5, nmse_db=None, cumulative_nmse_db=None)


def test_a_long_round_speaks_before_it_ends(clock, capsys):
    lines = progress.Lines()
    lines.begin(100, 2, [])
    for device in range(1, 21):
        clock.now += 2
        lines.within(device, 20)
    # 3 s are over after the second device, and 30 s later after the seventeenth.
    assert capsys.readouterr().err.splitlines() == [
        "round 3/100  2 of 20 devices trained",
        "round 3/100  17 of 20 devices trained",
    ]
    for round in range(3, 7):
        lines.update(ended(round))
        clock.now += 40
    lines.within(10, 20)
    assert (
        capsys.readouterr().err.splitlines()[-1] == "round 7/100  10 of 20 devices trained  about 71 min left"
    )


def test_short_rounds_are_not_told_device_by_device(clock, capsys):
    lines = progress.Lines()
    lines.begin(1000, 0, [])
    for round in range(1, 11):
        for device in range(1, 21):
            clock.now += 0.1
            lines.within(device, 20)
        lines.update(ended(round))
    assert capsys.readouterr().err == "round 2/1000  accuracy 0.5000  0.5 rounds/s\n"


def test_a_live_line_tells_the_time_left_by_the_same_rule(clock, monkeypatch):
    monkeypatch.setattr("airfeel.lab.progress.Timer", partial(Timer, clock=clock))
    screen = io.StringIO()
    live = Live(Console(file=screen, force_terminal=True, width=60))  # as narrow as any

    def shown():
        live._bar.refresh()
        return screen.getvalue().rpartition("\x1b[2K")[2]

    with live:
        live.begin(100, 0, [])
        for round, seconds in enumerate([60, 1, 1], 1):
            clock.now += seconds
            live.update(ended(round))
            assert "left" not in shown() and ("rounds/s" in shown()) == (round > 1)
            assert f"{round}/100" in shown()
        clock.now += 1
        live.update(ended(4))
        assert "1 rounds/s  96 s left" in shown()


SCRIPT = """
import logging
import sys
import airfeel as af
import small

for out in sys.argv[1:]:
    print("run", file=sys.stderr, flush=True)
    af.run(small.SETTINGS, rounds=20, dataset=small.arrays(), out=out, progress=True)
    print("train", file=sys.stderr, flush=True)
    list(af.train(small.SETTINGS, rounds=20, dataset=small.arrays(), progress=True))
    logging.basicConfig(level=logging.INFO)
"""


def test_a_script_shows_its_progress_in_a_file(tmp_path):
    """Nobody has to configure logging; who has, as this script in its second half, sees no line twice."""
    words = [sys.executable, "-c", SCRIPT, tmp_path / "first", tmp_path / "second"]
    with open(tmp_path / "errors", "w") as errors:
        done = subprocess.run(words, stderr=errors, cwd=Path(__file__).parent, check=False)
    said = (tmp_path / "errors").read_text()
    assert done.returncode == 0, said
    tenths = [f"{round}/20" for round in range(2, 21, 2)]
    lines = [line for line in said.splitlines() if line.startswith(("run", "train", "round"))]
    # Others come only where the machine is busy: of other rounds, and of devices that have trained.
    told = [line.split()[:2][-1] for line in lines if "devices trained" not in line]
    told = [word for word in told if word in ("run", "train", *tenths)]
    assert told == 2 * ["run", *tenths, "train", *tenths]
    assert said.count("round ") == sum(line.startswith("round") for line in lines)


def test_nothing_is_said_unless_asked_for(capfd):
    settings = small.SETTINGS | {"rounds": 3}
    assert len(list(af.train(settings, dataset=small.arrays()))) == 3
    assert capfd.readouterr() == ("", "")


def test_a_record_is_told_when_it_is_drawn(capsys):
    records = af.train(small.SETTINGS, dataset=small.arrays(), rounds=3, progress=True)
    assert capsys.readouterr().err == ""
    for round in (1, 2, 3):
        next(records)
        assert f"round {round}/3  accuracy 0." in capsys.readouterr().err


def test_every_device_that_trains_is_counted_once_in_its_round():
    settings = small.SETTINGS | {"rounds": 2, "devices.participation": 0.5, "run.threads": 3}
    parts = assemble(load_config(None, settings), Own(dataset=small.arrays()))
    heard = []
    computing = round(parts.config.devices.count * 0.5 + 1e-9)
    assert len(list(steps(parts, start(parts), lambda *now: heard.append(now)))) == 2
    assert heard == 2 * [(done, computing) for done in range(1, computing + 1)]


def test_a_report_says_what_it_does(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "Timer", partial(Timer, clock=Clock()))
    fakes.write_run(load_config(None, {"rounds": 5}), tmp_path)
    said = []
    report.write_report(tmp_path, told=said.append)
    assert said == [f"reading the runs in {tmp_path}", "drawing the figures", "writing the page"]
