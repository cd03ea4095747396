"""Whatever people write into titles, labels and names is text: on the page, in figures, on a terminal."""

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

import fakes
import small
from airfeel import commands
from airfeel._checks import visible
from airfeel.config import load_config
from airfeel.lab.plan import Experiment, remember_experiment
from airfeel.lab.progress import Live, Overview
from browser import opened

pytest.importorskip("altair")

from airfeel.lab.report import write_report

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
    "terminal": "\x1b[31mred\x07 \x9b2J\x7f\r\ttab \ufffe",
    "formula": "=1+1",
}
ALL = "".join(ATTACKS.values())
COUNT = "document.querySelectorAll('.legend.name').length"
TEXTS = "[...document.querySelectorAll('.legend.name')[{}].children].map(button => button.textContent)"
MARKS = "[...document.querySelectorAll('#figure-dots .mark-symbol.role-mark path')]"
EVERYWHERE = "document.documentElement.textContent"
CELLS = [["=1+1", "+1 dB", "-1 dB", "@x"], ["-1e-3", "+2", -5, -0.5, None, 'a "b", c']]
SAFE_CELLS = """'=1+1,'+1 dB,'-1 dB,'@x\n-1e-3,+2,-5,-0.5,,"a ""b"", c"\n"""
# Every character that no terminal, XML or page may get as it is.
STEERING = [*range(0x20), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFFFE, 0xFFFF]
STEERED = "".join(map(chr, STEERING))
SOME = "\0\x1b[31m\x7f\x9b\r\n\t\u2028\u202e\u2066\uffff"
NAME = f"{SOME[1:]}\udcff"  # of a file
RAW = re.compile(f"[{re.escape(STEERED)}\ud800-\udfff]")


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
        fakes.write_run(load_config(None, {"scheme": "a_dsgd", "rounds": 2, "dataset": label}), tmp_path)
    for label in labels:
        (tmp_path / "runs" / label.replace("/", "")).mkdir()
    add_dots(tmp_path, labels)
    return tmp_path


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
            assert f"{place} {visible(ALL)}" in text
        assert window.see("document.title") == f"page {visible(ALL)}"
        labels = [visible(label) for label in ATTACKS.values()]
        named = [window.see(TEXTS.format(place)) for place in range(window.see(COUNT))]
        assert labels in named
        assert sorted(f"a_dsgd, dataset = {label}" for label in labels) in map(sorted, named)
        for note in report.left_out:
            assert note in text
        assert len(report.left_out) == len(ATTACKS)
        point_at_every_mark(window)
        assert window.see(f"toCsv({json.dumps(CELLS)})") == SAFE_CELLS
        quiet(window)


def point_at_every_mark(window):
    """Move over curves and dots, so that every box of values opens."""
    window.see("document.querySelector('#figure-dots').scrollIntoView({ behavior: 'instant' })")
    boxes = window.see(f"{MARKS}.map(mark => mark.getBoundingClientRect().toJSON())")
    assert boxes
    for box in boxes:
        move_to(window, box)
        window.until("document.querySelector('#vg-tooltip-element.visible') !== null")
    assert f"setting {visible(ALL)}" in window.see(
        "document.querySelector('#vg-tooltip-element').textContent"
    )
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


# --- a terminal, figures and tables ------------------------------------------------------------------------


def plain(text):
    """Whether nothing in a text can steer a terminal; lines end as they do."""
    return not RAW.search(text.replace("\n", ""))


def test_control_characters_are_written_out_and_nothing_else():
    assert visible(STEERED + "\udcff") == "".join(f"\\u{code:04x}" for code in [*STEERING, 0xDCFF])
    for text in ("", "Größe × −3 ± ½ 中文 שלום \U0001f469\u200d\U0001f680", "\\u001b [red]"):
        assert visible(text) == text
    assert visible("one\ntwo\r\n", keep="\n") == "one\ntwo\\u000d\n"


@pytest.fixture
def steered(tmp_path):
    """Results with control characters in title, labels, settings and the names of folders and files."""
    experiment = Experiment(
        name="steered",
        title=f"title {SOME} [/]",
        caption=f"caption {SOME}",
        rounds=2,
        seeds=[0],
        base={"dataset": f"data {SOME}"},
        curves=[{"label": f"{label}{SOME}", "scheme": "tsa_ga"} for label in ("[/]", "=1+1")],
        figures=[{"name": "steered", "title": f"figure {SOME}"}],
    )
    (tmp_path / "steered.toml").write_text(experiment.to_toml())
    fakes.write_experiment(experiment, tmp_path)
    listed = tmp_path / "experiments/steered.json"
    listed.write_text(listed.read_text().replace("=1+1", "=1+1\\udcff"))
    (tmp_path / f"runs/{NAME}airfeel: all is well").mkdir()
    (tmp_path / f"experiments/{NAME}.toml").write_text("title = 1\n")
    return tmp_path


def test_a_label_cannot_end_a_report(steered):
    ended = small.call(["airfeel", "report", str(steered)])  # without care, the drawing aborts the process
    assert ended.returncode == 0, ended.stderr
    assert plain(ended.stdout) and plain(ended.stderr)
    for words in (f"title {SOME} [/]", f"[/]{SOME}", f"=1+1\udcff{SOME}"):
        assert visible(words) in ended.stdout
    for note in (f"{NAME}airfeel: all is well: not finished", f"experiment {NAME} is left out"):
        assert visible(note) in ended.stderr
    drawn = [*ElementTree.parse(steered / "figures/steered.svg").getroot().itertext()]
    assert visible(f"figure {SOME}") in drawn and any(visible(f"[/]{SOME[:6]}") in text for text in drawn)
    assert all((steered / f"figures/steered.{kind}").stat().st_size for kind in ("png", "pdf"))
    page = re.sub(r"<script>.*?</script>", "", (steered / "report.html").read_text(), flags=re.S)
    assert plain(page) and visible(f"caption {SOME}", keep="\n") in page
    for table in ("results.csv", "runs.csv"):
        assert plain((steered / table).read_text())


def test_nothing_that_commands_say_steers_a_terminal(steered):
    commands = {
        ("sweep", steered / "steered.toml", "--out", steered): (0, f"title {SOME} [/]"),
        ("report", steered, "--csv"): (0, "results.csv"),
        ("run", "--set", f"rounds={NAME}"): (2, "rounds = "),
        ("run", "--set", f"a{NAME}b=3"): (2, f"a{NAME}b = 3: unknown key"),
        ("run", f"--{NAME}"): (2, "Unknown option"),
        ("run", f"{NAME}.toml"): (2, "cannot be read"),
        ("sweep", f"{NAME}.toml"): (2, "cannot be read"),
        ("data", f"no{NAME}"): (2, "no"),
        ("report", steered / NAME, "--csv"): (2, "has no run under"),
    }
    for command, (code, words) in commands.items():
        ended = small.call(["airfeel", *map(str, command)])
        assert (ended.returncode, plain(ended.stdout + ended.stderr)) == (code, True), (command, ended)
        assert visible(words) in ended.stdout + ended.stderr


def test_commands_have_one_way_to_stdout():
    printing = [
        path.name for path in Path(commands.__file__).parent.glob("*.py") if " print(" in path.read_text()
    ]
    assert printing == ["__init__.py"]


@pytest.mark.parametrize("kind", [Live, Overview])
def test_what_is_said_above_a_bar_is_no_markup(kind, tmp_path):
    file = io.StringIO()
    display = kind(Console(file=file, force_terminal=True, width=40))
    notes = [f"run-{STEERED} failed: [/] [red]{'long ' * 20}:smile:"]
    with display:
        if kind is Live:
            display.begin(2, 0, notes)
        else:
            display.begin([], 0, tmp_path)
            display.note(*notes)
    assert visible(notes[0], keep="\n") in file.getvalue()
