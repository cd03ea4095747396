"""A package that knows airfeel, installed beside it: its parts work by name, and airfeel is not edited."""

import csv
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import processes
import small

EXAMPLES = Path(__file__).parents[1] / "examples"
PARTS = ("own_scheme", "own_channel", "own_task", "own_data")  # what the package has in it
ENTRY_POINTS = """[airfeel.schemes]
largest = airfeel_beside.own_scheme:Largest
broken = airfeel_beside:Nothing

[airfeel.channels]
path_loss = airfeel_beside.own_channel:PathLoss

[airfeel.models]
layer = airfeel_beside.own_task:HiddenLayer

[airfeel.datasets]
stripes = airfeel_beside.own_data:stripes
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install a wheel into a folder of its own, with pip."""
    home = tmp_path_factory.mktemp("beside")
    wheel, info = home / "airfeel_beside-1.0-py3-none-any.whl", "airfeel_beside-1.0.dist-info"
    files = {
        "airfeel_beside/__init__.py": "",
        **{f"airfeel_beside/{part}.py": (EXAMPLES / f"{part}.py").read_text() for part in PARTS},
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: airfeel-beside\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": ENTRY_POINTS,
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, "--target", home / "site", wheel], check=True, capture_output=True)
    return home / "site"


def airfeel(site, *words):
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return small.run(processes.airfeel(*words), env=os.environ | {"PYTHONPATH": path})


def settings(**flat):
    return [word for key, value in flat.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


SMALL = settings(devices__count=4, devices__samples=60, devices__learning_rate=0.5, rounds=6)
LAYER = settings(model__features=144, model__classes=4)
BY_NAME = settings(scheme="largest", channel__kind="path_loss", model__kind="layer", dataset="stripes")


@pytest.mark.long
def test_lists_and_configurations_show_them_with_their_help(site):
    listed = airfeel(site, "list").stdout
    for words in (
        "largest              The coordinates that were largest when they were last heard, and some by",
        "path_loss            Devices spread evenly over a disc of radius 1",
        "layer                ",
        "stripes              Grey images of stripes",
    ):
        assert f"  {words}" in listed
    shown = airfeel(site, "--quiet", "config", *BY_NAME)
    assert shown.returncode == 0, shown.stderr
    help = "share of the symbols whose coordinates are drawn by chance"
    for line in (
        f"chance = 0.5             # {help}",
        "exponent = 3.0           # of the path loss",
        "hidden = 32",
    ):
        assert f"\n{line}" in shown.stdout
    elsewhere = airfeel(site, "--quiet", "config").stdout  # where other parts are chosen
    assert f"# chance = 0.5           # {help} (scheme = largest)" in elsewhere
    assert "# features = 784" in elsewhere


def test_they_run_and_resume_in_a_folder(site, tmp_path):
    options = settings(uplink__chance=0.25, channel__exponent=2.5, model__hidden=6)
    words = ["run", *SMALL, *LAYER, *BY_NAME, *options, "--out", tmp_path]
    done = airfeel(site, *words)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert len((folder / "rounds.jsonl").read_text().splitlines()) == 6
    written = (folder / "config.toml").read_text()
    assert all(word in written for word in ("chance = 0.25", "exponent = 2.5", "hidden = 6", "source.scheme"))
    again = airfeel(site, *words)
    assert "finished before, not repeated" in again.stderr
    assert "largest" in (tmp_path / "results.csv").read_text()


@pytest.mark.long
def test_a_mistake_is_one_sentence_with_the_nearest_key(site, tmp_path):
    sentences = {
        "uplink.chanse=1": "uplink.chanse = 1: unknown key, the nearest valid key is 'uplink.chance'",
        "uplink.chance=never": "--set: uplink.chance = 'never': must be a",
        "scheme=largets": "did you mean 'largest'?",
        "scheme=broken": "'broken': must name something in 'airfeel_beside', which has no 'Nothing'",
    }
    for change, sentence in sentences.items():
        done = airfeel(site, "run", *SMALL, *BY_NAME, "--set", change, "--out", tmp_path)
        assert done.returncode == 2
        assert sentence in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.long
def test_a_sweep_compares_them_with_our_own_and_the_report_shows_them_everywhere(data, site, tmp_path):
    sweep = tmp_path / "mine.toml"
    sweep.write_text(
        f"""title = "Our own against random choice"
seeds = [0, 1]
[base]
dataset = "{data}"
rounds = 4
devices.count = 4
devices.samples = 60
uplink.ratio = 0.5
[grid]
scheme = ["largest", "airfeel_beside.own_scheme:Largest", "common_k"]
channel.kind = ["path_loss", "gaussian"]
"""
    )
    out = tmp_path / "out"
    done = airfeel(site, "sweep", sweep, "--out", out, "--workers", "1")
    assert done.returncode == 0, done.stderr
    with (out / "results.csv").open() as file:
        found = {(row["scheme"], row["channel.kind"], row["seed"]) for row in csv.DictReader(file)}
    schemes = ("largest", "airfeel_beside.own_scheme:Largest", "common_k")
    assert found == {(s, c, seed) for s in schemes for c in ("path_loss", "gaussian") for seed in "01"}
    # Nothing is imported because a file names it: the report is the same where the package is not installed.
    for place in (site, tmp_path / "empty"):
        told = airfeel(place, "report", out)
        assert told.returncode == 0, told.stderr
        page = (out / "report.html").read_text()
        assert all(scheme in told.stdout and scheme in page for scheme in schemes)
