"""Rounds, symbols, seconds and joules until an accuracy: hand-made records, and the command line."""

from pathlib import Path

import pytest

import fakes
import small
from airfeel.cli import main
from airfeel.lab.exhibits.links import level, snr_db
from airfeel.lab.exhibits.reaching import reaching_table, usual_target
from airfeel.lab.plan import check_target
from airfeel.lab.store import FinishedRun, RecordColumns
from airfeel.radio.units import RadioUnits

pytest.importorskip("altair")
RADIO = {"radio__bandwidth_hz": 1e6, "radio__tx_power_dbm": 10.0, "radio__path_loss_db": 100.0}


def run(accuracies, seconds=None):
    """Return records of rounds of 100 symbols; None stands for a round that was not evaluated."""
    rows = [{"round": t, "accuracy": a, "symbols": 100 * t} for t, a in enumerate(accuracies, start=1)]
    if seconds is not None:
        rows = [row | {"air_seconds": seconds * row["round"], "joules": 2 * row["round"]} for row in rows]
    return rows


def shown(**curves):
    """Return curves with records by seed; a name may end with a variant."""
    lines = {tuple(name.partition("_")[::2]): dict(enumerate(runs)) for name, runs in curves.items()}
    found = {line: {seed: fakes.finished(rows) for seed, rows in of.items()} for line, of in lines.items()}
    return fakes.selection(None, found)


def test_one_row_per_curve_with_the_mean_of_the_seeds_that_reach_it():
    """The first evaluated round counts."""
    radio = [run([0.1, None, 0.7, 0.2, 0.8], 0.5), run([0.1, 0.2, 0.3, 0.8], 0.5), run([0.1], 0.5)]
    curves = {"with_A": radio, "without": [run([0.9])], "never": [run([0.2])], "theory": [[{"round": 1}]]}
    head, first, second, third = reaching_table(shown(**curves), 0.7)
    assert head == ["curve", "seeds that reach it", "rounds", "symbols", "seconds on air", "joules"]
    assert first[:2] == ["with, A", "2 of 3"]
    assert first[2:] == ["3 and 4", "300 and 400", "1.5 and 2", "6 and 8"]
    assert second == ["without", "1 of 1", "1", "100", "-", "-"]
    assert third == ["never", "0 of 1", "-", "-", "-", "-"]


def test_a_target_that_everybody_reaches():
    assert usual_target(shown(a=[run([0.3, 0.83]), run([0.9])])) == 0.8
    assert usual_target(shown(a=[run([0.02])])) is None


@pytest.mark.parametrize("target", [0, 80, -1, float("nan")])
def test_an_accuracy_is_a_share(target):
    with pytest.raises(ValueError, match=r"--target-accuracy = .* such as 0.8 for 80 %"):
        check_target(target)


def test_the_snr_that_belongs_to_p():
    def finished(settings, symbols):
        rows = [{"round": t, "symbols": count} for t, count in enumerate(symbols, start=1)]
        return FinishedRun(Path("run"), {}, RecordColumns(rows), settings=settings)

    paper = {"uplink.power": 500.0, "channel.noise_var": 1.0}
    assert snr_db(finished(paper, [785, 1570])) == pytest.approx(-1.96, abs=0.01)
    assert snr_db(finished(paper | {"channel.noise_var": 10.0}, [0, 785])) == pytest.approx(-11.96, abs=0.01)
    assert snr_db(finished(paper, [0, 0])) is None and snr_db(finished({"uplink.power": "x"}, [785])) is None
    radio = {"radio.bandwidth_hz": 20e6, "radio.tx_power_dbm": 23.0, "radio.path_loss_db": 120.0}
    assert snr_db(finished(radio | {"radio.noise_figure_db": 7.0}, [10])) == pytest.approx(-3.0, abs=0.05)
    assert snr_db(finished(radio | {"radio.other": 1}, [10])) is None


def test_the_snr_in_a_cell_is_that_of_the_edge_and_of_its_devices():
    """20 MHz, 23 dBm, 7 dB: -3 dB over 120 dB, which the records tell as joules over energy."""
    units = RadioUnits(20e6, 23.0, 120.0, 7.0)
    radio = {"radio.bandwidth_hz": 20e6, "radio.tx_power_dbm": 23.0, "radio.noise_figure_db": 7.0}
    rows = [{"round": 1, "symbols": 785, "energy": 391.0, "joules": units.joules(391.0)}]
    cell = {"channel.kind": "cell", "channel.losses_db": [120.0, 100.0, 90.0], "devices.count": 2, "seed": 0}

    def told(settings, rows=rows):
        return level([FinishedRun(Path("run"), {}, RecordColumns(rows), settings=settings)])

    assert told(radio) == "-3.0"
    assert told(radio | cell) == "-3.0 (devices -3.0 to 17.0)"
    assert told(cell | {"uplink.power": 785.0}) == "0.0 (devices 0.0 to 20.0)"
    assert told(radio, [{"round": 1, "symbols": 785}]) == ""
    for wrong in ({"devices.count": 10**12}, {"seed": "x"}, {"channel.radius": -1}, {"channel.other": 1}):
        assert told(radio | cell | wrong) == "-3.0"


def test_the_report_tells_what_it_takes(data, tmp_path, capsys):
    for scheme in ("tsa_ga", "error_free"):
        words = small.command(data, tmp_path / "out", rounds=6, scheme=scheme, **RADIO)
        small.succeed(words)
    capsys.readouterr()
    assert main(["report", str(tmp_path / "out"), "--target-accuracy", "0.3"]) in (0, None)
    shown = capsys.readouterr().out
    assert "Until 30 % accuracy" in shown and "seconds on air" in shown and "joules" in shown
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Until 30 % accuracy" in page and '"air_seconds":[' in page and "SNR per symbol (dB)" in page
    for name in ("runs-seconds", "runs-joules"):
        assert (tmp_path / "out" / "figures" / f"{name}.svg").exists()
    header = (tmp_path / "out" / "results.csv").read_text().splitlines()[0]
    assert {"air_seconds", "joules"} <= set(header.split(","))
