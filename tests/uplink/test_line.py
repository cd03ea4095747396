"""The line of a round: how deep it is, who goes along it, and a few of its numbers."""

import traceback
from pathlib import Path

import pytest

import small
from airfeel.receivers.problem import Problem
from airfeel.receivers.tsaga import TSAGA


def test_from_the_loop_to_the_linear_step_there_are_few_frames(tmp_path, monkeypatch):
    real, depths = Problem.linear_step, []

    def traced(*given):
        names = [Path(frame.filename).name for frame in traceback.extract_stack()]
        depths.append(len(names) - 1 - names.index("loop.py"))
        return real(*given)

    monkeypatch.setattr(Problem, "linear_step", traced)
    folder = small.write_folder(tmp_path / "data")
    words = small.command(folder, tmp_path / "out", scheme="tsa_ga", rounds=2)
    small.succeed(words)
    assert 0 < max(depths) <= 14


@pytest.mark.flower
@pytest.mark.parametrize("audit", [False, True])
def test_a_receiver_runs_once_in_a_round_of_flower(audit, monkeypatch):
    """What its estimate is measured by costs no second run: clients say what their signals stand for."""
    import flower_apps as apps
    from airfeel.flower import AirAvg

    real, calls = TSAGA.receive, []
    monkeypatch.setattr(TSAGA, "receive", lambda *given: calls.append(1) or real(*given))
    options = {"min_available_nodes": 3, "fraction_evaluate": 0.0}
    strategy = AirAvg("tsa_ga", 0.5, "gaussian", audit=audit, **options)
    strategy.start(apps.LocalGrid(apps.app(apps.drift), 3), apps.record(apps.model()), 2)
    assert len(calls) == 2 and [report.nmse_db is not None for report in strategy.rounds] == [audit] * 2
