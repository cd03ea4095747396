"""A package that knows airfeel, installed beside it: its parts work by name, and airfeel is not edited."""

import csv
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CODE = '''
"""Parts for airfeel."""
from dataclasses import dataclass
from typing import Literal

import numpy as np

import airfeel as af
from airfeel.learning.models.softmax import SoftmaxRegression


@dataclass(frozen=True)
class Halves(af.ErrorFeedback):
    """The first half of the coordinates in odd rounds, the second in even ones.

    It ignores how many symbols it may send.
    """

    first: Literal["odd", "even"] = af.option("odd", "rounds in which the first half is sent")
    exact = True

    def init(self, shapes, setting):
        return af.size_of(shapes)

    def plan(self, state, seed, round):
        start = 0 if (round % 2 == 1) == (self.first == "odd") else state // 2
        return {"start": start, "stop": start + state // 2}

    def compress(self, plan, accumulated):
        remainder = accumulated.copy()
        remainder[:, plan["start"] : plan["stop"]] = 0
        return af.Sent(accumulated[:, plan["start"] : plan["stop"]], remainder)

    def decode(self, state, plan, heard):
        mean = np.zeros(state)
        mean[plan["start"] : plan["stop"]] = heard.observation
        return af.Estimate(mean), state


@dataclass(frozen=True)
class Night:
    """Half of the devices sleep in every round."""

    noise_var: float = af.option(1.0, "sigma_e^2")
    asleep: float = af.option(0.5, "share of the devices that sleep")

    def link(self, num_devices, symbols, seed, round):
        awake = af.stream(seed, "night", round).random(num_devices) >= self.asleep
        one = np.ones(num_devices)
        return af.Link(awake, one, one, self.noise_var)


def ridge(data, *, penalty: float = 0.01):
    """Softmax regression with a penalty."""
    return SoftmaxRegression(int(np.prod(data.shape)), data.classes, l2=penalty)


def blobs():
    """Bright spots in four corners."""
    draw = af.stream(0, "blobs")
    labels = draw.integers(0, 4, 900)
    images = draw.integers(0, 120, (900, 8, 8), dtype=np.uint8)
    images[np.arange(900), labels // 2 * 6, labels % 2 * 6] = 255
    return af.Dataset.from_arrays(images[:700], labels[:700], images[700:], labels[700:], name="blobs")
'''

ENTRY_POINTS = """[airfeel.schemes]
halves = airfeel_beside:Halves
broken = airfeel_beside:Nothing

[airfeel.channels]
night = airfeel_beside:Night

[airfeel.models]
ridge = airfeel_beside:ridge

[airfeel.datasets]
blobs = airfeel_beside:blobs
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Install a wheel into a folder of its own, with pip."""
    home = tmp_path_factory.mktemp("beside")
    wheel, info = home / "airfeel_beside-1.0-py3-none-any.whl", "airfeel_beside-1.0.dist-info"
    files = {
        "airfeel_beside.py": CODE,
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


def airfeel(site, *words, cwd=None):
    path = os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    return subprocess.run(
        [sys.executable, "-m", "airfeel", *map(str, words)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


def settings(**flat):
    return [word for key, value in flat.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


SMALL = settings(devices__count=4, devices__samples=60, devices__learning_rate=0.5, rounds=6)
BY_NAME = settings(scheme="halves", channel__kind="night", model__kind="ridge", dataset="blobs")
BY_PLACE = settings(
    scheme="airfeel_beside:Halves",
    channel__kind="airfeel_beside:Night",
    model__kind="airfeel_beside:ridge",
    dataset="airfeel_beside:blobs",
)


@pytest.mark.long
def test_lists_and_configurations_show_them_with_their_help(site):
    listed = airfeel(site, "list").stdout
    for words in (
        "halves               The first half of the coordinates in odd rounds, the second in even ones",
        "night                Half of the devices sleep",
        "ridge                Softmax regression with a penalty",
        "blobs                Bright spots",
    ):
        assert f"  {words}" in listed
    shown = airfeel(site, "--quiet", "config", *BY_NAME)
    assert shown.returncode == 0, shown.stderr
    assert 'first = "odd"            # rounds in which the first half is sent' in shown.stdout
    assert "asleep = 0.5             # share of the devices that sleep" in shown.stdout
    assert "penalty = 0.01" in shown.stdout
    elsewhere = airfeel(site, "--quiet", "config").stdout  # where other parts are chosen
    assert '# first = "odd"          # rounds in which the first half is sent (scheme = halves)' in elsewhere
    assert "# penalty = 0.01" in elsewhere


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(BY_NAME, id="entry point"),
        pytest.param(BY_PLACE, id="module:Name", marks=pytest.mark.long),
    ],
)
def test_they_run_and_resume_in_a_folder(site, named, tmp_path):
    options = settings(uplink__first="even", channel__asleep=0.3, model__penalty=0.02)
    words = ["run", *SMALL, *named, *options, "--out", tmp_path]
    done = airfeel(site, *words)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.strip())
    assert len((folder / "rounds.jsonl").read_text().splitlines()) == 6
    written = (folder / "config.toml").read_text()
    assert 'first = "even"' in written and "penalty = 0.02" in written and "source.scheme" in written
    again = airfeel(site, *words)
    assert "finished before, not repeated" in again.stderr
    assert "halves" in (tmp_path / "results.csv").read_text() or "Halves" in folder.name


@pytest.mark.long
def test_a_mistake_is_one_sentence_with_the_nearest_key(site, tmp_path):
    sentences = {
        "uplink.fist=even": "uplink.fist = 'even': unknown key, the nearest valid key is 'uplink.first'",
        "uplink.first=never": "--set: uplink.first = 'never': must be one of 'odd', 'even'",
        "scheme=halfes": "did you mean 'halves'?",
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
        f"""title = "Halves against random choice"
seeds = [0, 1]
[base]
dataset = "{data}"
rounds = 4
devices.count = 4
devices.samples = 60
uplink.ratio = 0.5
[grid]
scheme = ["halves", "airfeel_beside:Halves", "common_k"]
channel.kind = ["night", "gaussian"]
"""
    )
    out = tmp_path / "out"
    done = airfeel(site, "sweep", sweep, "--out", out, "--workers", "1")
    assert done.returncode == 0, done.stderr
    with (out / "results.csv").open() as file:
        found = {(row["scheme"], row["channel.kind"], row["seed"]) for row in csv.DictReader(file)}
    schemes = ("halves", "airfeel_beside:Halves", "common_k")
    assert found == {(s, c, seed) for s in schemes for c in ("night", "gaussian") for seed in "01"}
    # Nothing is imported because a file names it: the report is the same where the package is not installed.
    for place in (site, tmp_path / "empty"):
        told = airfeel(place, "report", out)
        assert told.returncode == 0, told.stderr
        page = (out / "report.html").read_text()
        assert all(scheme in told.stdout and scheme in page for scheme in schemes)
