"""``airfeel reproduce`` as a user calls it: every shipped experiment, on the real data."""

import csv
import json

import pytest

import small
from airfeel.lab.figures import PAPER, RIVALS, SHIPPED
from airfeel.lab.plan import select


def reproduce(out, *words):
    small.succeed(["airfeel", "reproduce", *words, "--out", str(out)])
    with (out / "results.csv").open() as file:
        return list(csv.DictReader(file))


BENCHMARKS = tuple(name for name in SHIPPED if name.startswith("bench-"))
# Many runs, PyTorch, and data of 170 MB.
LARGE = ("rates", "models", "cifar", *RIVALS, "rivals-cifar", *BENCHMARKS)
SMALL = tuple(name for name in SHIPPED if name not in (*LARGE, "demo", "demo-half"))  # these have tests


@pytest.mark.parametrize(
    ("names", "rounds"),
    [
        (("fig5a",), 1),
        pytest.param(SMALL, 2, marks=pytest.mark.long),
        pytest.param(LARGE, 1, marks=pytest.mark.slow),
    ],
)
def test_every_shipped_experiment_runs_a_round_or_two(tmp_path, names, rounds):
    rows = reproduce(tmp_path, *names, "--rounds", str(rounds), "--seeds", "1")
    assert {row["experiment"] for row in rows} == set(names)
    planned = {run.label for e in select(names) for run in e.shortened(rounds, 1).runs()}
    assert {path.parent.name for path in tmp_path.glob("runs/*/summary.json")} == planned
    assert json.loads((tmp_path / "campaign.json").read_text())["runs"] == len(planned)
    ratios = {row["uplink.ratio"] for row in rows if row["experiment"] == "fig6"}
    assert ratios == ({"0.5", "0.2", "0.1", "0.04"} if "fig6" in names else set())
    assert "" not in {row["accuracy"] for row in rows if row["experiment"] == "fig5a"}


@pytest.mark.slow
def test_the_whole_paper_in_a_hurry(tmp_path):
    rows = reproduce(tmp_path, "all", "--quick")
    assert {row["experiment"] for row in rows} == set(PAPER)
    small.succeed(["airfeel", "report", str(tmp_path)])
    assert (tmp_path / "report.html").stat().st_size > 1e6
    assert {"fig5a.png", "fig6b.svg", "fig8.png"} <= {path.name for path in (tmp_path / "figures").iterdir()}
    assert not (tmp_path / "claims.json").exists()  # 50 rounds decide nothing
