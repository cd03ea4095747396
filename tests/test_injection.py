"""Whatever people write into titles, labels and names is text on the page, and nothing of it runs."""

import dataclasses

import pytest

import fakes
from airfeel.config import load_config
from airfeel.experiments.campaigns.folder import remember_experiment
from airfeel.experiments.campaigns.plan import Experiment
from airfeel.experiments.runs.rundir import open_run
from airfeel.simulation.records import Record
from browser import opened

pytest.importorskip("altair")

from airfeel.experiments.report.report import write_report

pytestmark = pytest.mark.long

HIT = "window.hit=(window.hit||0)+1"
ATTACKS = {
    "upper case": f"</SCRIPT><script>{HIT}</script>",
    "mixed case": f"</ScRiPt ><SCRIPT>{HIT}</SCRIPT>",
    "comment": "<!--<script>",
    "picture": f"<img src=x onerror={HIT}>",
    "quotes": f"\"'`><svg onload='{HIT}'>${{{HIT}}}",
    "directions": "\u202eright\u200f \u2067to\u2069 left",
    "lines": "one\u2028two\u2029three",
    "entities": "&lt;b&gt; &amp;amp; \\u003cb\\u003e",
}
ALL = "".join(ATTACKS.values())
COUNT = "document.querySelectorAll('.legend.name').length"
TEXTS = "[...document.querySelectorAll('.legend.name')[{}].children].map(button => button.textContent)"
MARKS = "[...document.querySelectorAll('#figure-dots .mark-symbol.role-mark path')]"
EVERYWHERE = "document.documentElement.textContent"


@pytest.fixture
def hostile(tmp_path):
    """Results whose every free text is an attack."""
    labels = list(ATTACKS.values())
    experiment = Experiment(
        name="hostile",
        title=f"title {ALL}",
        caption=f"caption {ALL}",
        rounds=4,
        seeds=[0, 1],
        base={"dataset": f"./data {ALL}"},
        curves=[{"label": label, "scheme": "tsa_ga"} for label in labels],
        variants=[{"label": f"variant {label}", "uplink": {"ratio": 0.1}} for label in labels[:2]],
        figures=[{"name": "accuracy", "title": f"figure {ALL}", "caption": f"below {ALL}"}],
    )
    fakes.write_experiment(experiment, tmp_path)
    for label in labels:  # alone, so that the data set tells the curves apart
        add_run(tmp_path, label)
    for label in labels:
        (tmp_path / "runs" / label.replace("/", "")).mkdir()
    add_dots(tmp_path, labels)
    return tmp_path


def add_run(out, dataset):
    with open_run(load_config(None, {"scheme": "a_dsgd", "rounds": 2, "dataset": dataset}), out) as folder:
        for round in (1, 2):
            facts = dict.fromkeys(field.name for field in dataclasses.fields(Record))
            facts |= {"round": round, "accuracy": 0.1 * round, "loss": 1.0, "nmse_db": -1.0, "symbols": round}
            folder.append(Record(**facts).to_json(), round, 0.0)
        folder.finish({})


def add_dots(out, labels):
    """A figure with a tooltip for every mark."""
    experiment = Experiment(
        name="dots",
        title="dots",
        kind="recovery",
        rounds=2,
        seeds=[0],
        base={"size": 100, "ratio": 0.4, "activity": 0.1},
        curves=[{"label": label, "scheme": "turbo_cs"} for label in labels],
        variants=[{"label": f"setting {ALL}", "snr_db": 20.0}],
        figures=[{"name": "dots", "title": "dots", "kind": "recovery"}],
    )
    runs = experiment.runs()
    remember_experiment(experiment, out, runs)
    for run in runs:
        run.do(out)


@pytest.mark.browser
def test_text_is_text_and_nothing_runs(hostile, chromium, tmp_path_factory):
    report = write_report(hostile, title=f"page {ALL}")
    with opened(chromium, report.page.as_uri(), tmp_path_factory.mktemp("profile")) as window:
        text = window.see(EVERYWHERE)
        for place in ("page", "title", "caption", "figure", "below", "./data"):
            assert f"{place} {ALL}" in text
        assert window.see("document.title") == f"page {ALL}"
        labels = [drawn(label) for label in ATTACKS.values()]
        named = [window.see(TEXTS.format(place)) for place in range(window.see(COUNT))]
        assert labels in named
        assert sorted(f"a_dsgd, dataset = {label}" for label in labels) in map(sorted, named)
        for note in report.left_out:
            assert note in text
        assert len(report.left_out) == len(ATTACKS)
        point_at_every_mark(window)
        quiet(window)


def drawn(label):
    """A label as figures show it: no label can have several lines."""
    return label.replace("\u2028", " ").replace("\u2029", " ")


def point_at_every_mark(window):
    """Move over curves and dots, so that every box of values opens."""
    window.see("document.querySelector('#figure-dots').scrollIntoView({ behavior: 'instant' })")
    boxes = window.see(f"{MARKS}.map(mark => mark.getBoundingClientRect().toJSON())")
    assert boxes
    for box in boxes:
        move_to(window, box)
        window.until("document.querySelector('#vg-tooltip-element.visible') !== null")
    assert f"setting {drawn(ALL)}" in window.see("document.querySelector('#vg-tooltip-element').textContent")
    assert window.see("getComputedStyle(document.querySelector('#vg-tooltip-element')).position") == "fixed"
    window.see("document.querySelector('#figure-accuracy').scrollIntoView({ behavior: 'instant' })")
    box = window.see("document.querySelector('#figure-accuracy .chart').getBoundingClientRect().toJSON()")
    move_to(window, box)
    window.until("getComputedStyle(document.querySelector('#figure-accuracy .tip')).display === 'block'")


def move_to(window, box):
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    window.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)


def quiet(window):
    """Nothing ran, nothing was made of the text, nothing complained, nothing was asked for."""
    assert window.see("window.hit === undefined")
    assert window.see("document.querySelectorAll('img, object, iframe').length") == 0
    assert window.see("document.querySelectorAll('script').length") == 3
    names = "[...document.querySelectorAll('*')].flatMap(element => element.getAttributeNames())"
    assert window.see(f"{names}.filter(name => /^on/.test(name))") == []
    assert window.said == []
    assert len(window.asked) == 1


@pytest.mark.browser
def test_the_policy_stops_what_escaping_would_miss(hostile, chromium, tmp_path_factory):
    """Were there a hole, the browser itself would still run nothing: only the page's own scripts by hash."""
    report = write_report(hostile)
    with opened(chromium, report.page.as_uri(), tmp_path_factory.mktemp("profile")) as window:
        quiet(window)
        window.see(
            "document.body.insertAdjacentHTML('beforeend', `<img src='data:,' onerror='window.hit=1'>`);"
            "const script = document.createElement('script'); script.textContent = 'window.hit=2';"
            "document.body.append(script);"
        )
        window.until("document.images[0].complete")
        assert window.see("window.hit === undefined")
        refused = [entry["entry"]["text"] for entry in window.said if "entry" in entry]
        assert sum("Content Security Policy" in text for text in refused) >= 2
    policy = report.page.read_text().split('Content-Security-Policy" content="')[1].split('"')[0]
    assert "unsafe" not in policy
