"""The page as strangers see it, in a browser, at three widths, in light and in dark."""

import re

import pytest

import fakes
from airfeel.lab.plan import Experiment, shipped
from browser import opened

pytest.importorskip("altair")


from airfeel.lab.report import write_report

pytestmark = pytest.mark.long

SIZES = [(1400, 900), (1100, 900), (390, 844)]
LABELS = "[...document.querySelectorAll('#figure-{} .role-axis-label text')].map(t => t.textContent)"
BOX = "document.querySelector('.first .chart svg').getBoundingClientRect().toJSON()"
# Everything that reaches beyond the window, but for what is in a box that scrolls.
BEYOND = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, pre, svg, .tip') &&
  e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"""
# Maps of which a part can be seen only by scrolling.
CUT_MAPS = """[...document.querySelectorAll('.chart.own svg.marks')].filter(e =>
  e.getBoundingClientRect().right > innerWidth + 1).map(e => e.closest('figure').id)"""
# Boxes in the dark that are as light as paper.
LIGHT = """[...document.querySelectorAll('body, body *, svg rect, svg .background')].filter(e => {
  const style = getComputedStyle(e), paint = e.closest('svg') ? style.fill : style.backgroundColor;
  const [r, g, b, a = 1] = (paint.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const box = e.getBoundingClientRect();
  const light = a > 0.5 && Math.min(r, g, b) > 200 && box.width * box.height > 400;
  return light && !e.closest('defs, clipPath, text');
}).map(e => e.outerHTML.slice(0, 80))"""


def sweep():
    """A sweep over two keys, which is shown by maps, plots over a key and courses."""
    return Experiment(
        name="sweep",
        title="A sweep",
        rounds=20,
        seeds=[0, 1],
        grid={
            "scheme": ["tsa_ga", "common_k"],
            "uplink": {"ratio": [0.05, 0.1, 0.2], "power": [50.0, 200.0, 500.0]},
        },
    )


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The page of a figure of the paper (first), the demo and a sweep; nobody computed the courses."""
    folder = tmp_path_factory.mktemp("results")
    for experiment in (shipped("demo").shortened(40), shipped("fig5a").shortened(40), sweep()):
        fakes.write_experiment(experiment, folder)
    return write_report(folder)


def possible(shown):
    """Shares are between 0 and 100 %, rounds among those that there are."""
    labels = shown.see(LABELS.format("demo"))
    shares = [float(text.strip("%")) for text in labels if text.endswith("%")]
    rounds = [float(text) for text in labels if not text.endswith("%")]
    assert shares and min(shares) >= 0 and max(shares) <= 100
    assert rounds and min(rounds) >= 0 and max(rounds) <= 40


@pytest.mark.browser
@pytest.mark.parametrize("size", SIZES)
def test_strangers_see_a_whole_page(report, chromium, tmp_path_factory, size):
    width, height = size
    window = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    with opened(chromium, report.page.as_uri(), tmp_path_factory.mktemp("profile")) as shown:
        shown.call("Emulation.setDeviceMetricsOverride", **window)
        shown.go(report.page.as_uri())
        assert shown.see("document.documentElement.scrollWidth") == width
        assert shown.see(BEYOND) == []
        assert shown.see(CUT_MAPS) == []
        box = shown.see(BOX)
        assert box["bottom"] <= height and box["right"] <= width  # the main figure is within the first screen
        assert shown.see("document.querySelector('h1').textContent").startswith(shipped("fig5a").title)
        assert shown.see("document.querySelector('h1 + p').textContent").startswith("25 devices together")
        possible(shown)
        dark = [{"name": "prefers-color-scheme", "value": "dark"}]
        shown.call("Emulation.setEmulatedMedia", features=dark)
        assert shown.see(LIGHT) == []
        assert shown.said == []
        assert set(shown.asked) == {report.page.as_uri()}


def test_the_page_explains_the_words_it_uses_and_no_others(report):
    html = report.page.read_text()
    glossary = html[html.index('<section id="glossary">') :].partition("</section>")[0]
    for word in ("N, s, s/N", "k/N", "P", "A-DSGD", "support chain", "amplitude chain", "NMSE", "TSA-GA"):
        assert f"<dt>{word}</dt>" in glossary
    assert "<dt>χ</dt>" not in glossary and "<dt>D-DSGD</dt>" not in glossary


def test_claims_are_shown_of_complete_figures_alone(tmp_path):
    fakes.write_experiment(shipped("fig5a").shortened(30), tmp_path)
    report = write_report(tmp_path)
    assert not report.verdicts and "Claims of the paper" not in report.page.read_text()
    assert not (tmp_path / "claims.json").exists()


def test_single_runs_show_their_settings(tmp_path):
    for run in shipped("fig5a").shortened(12, 2).runs():
        fakes.write_run(run.config, tmp_path)
    (chapter,) = write_report(tmp_path).chapters
    tables = {table.title: table.rows for table in chapter.section("settings")}
    assert ["uplink.power", "500.0"] in tables["All runs"] or "uplink.power" in tables["Each"][0]
    assert tables["Each"][1][:2] == ["error_free", "0, 1"]
    assert chapter.opening.startswith("25 devices together learned handwritten digits (mnist) over one noisy")
    assert chapter.opening.endswith("10 times fewer symbols than the model has weights.")
    assert re.match(r"\S+ points of accuracy lost with tsa_ga, ", chapter.headline), chapter.headline
    assert chapter.trained.startswith("25 devices train a model (softmax) of 7,850 weights on mnist for 12")


def test_a_single_run_without_radio_is_not_said_to_have_one(tmp_path):
    fakes.write_run(shipped("fig5a").shortened(12, 1).runs()[0].config, tmp_path)
    report = write_report(tmp_path)
    (chapter,) = report.chapters
    assert chapter.opening.endswith("(mnist) without any radio.") and "noise" not in chapter.trained
    assert "exact sum" in chapter.trained
    assert "Bands are" not in report.page.read_text()  # of one seed
