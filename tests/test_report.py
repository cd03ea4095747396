"""The report: right averages, a page that draws itself without a network, figures one can look at."""

import csv
import json
import os
import re
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import airfeel as af
import fakes
import small
from airfeel.cli import main
from airfeel.config import load_config
from airfeel.lab.charts import SCHEMES as LOOKS
from airfeel.lab.charts import looks
from airfeel.lab.curves import Curve
from airfeel.lab.exhibits import Chapter, TextTable
from airfeel.lab.exhibits.finals import last_table, mean_gap_table, reception_table
from airfeel.lab.plan import Experiment, ResultsFolder, shipped
from airfeel.lab.report import _code, loose_runs, make_chapter, render, write_report
from airfeel.lab.table import Results, interval
from airfeel.lab.words import text_table
from airfeel.registry import SCHEMES
from browser import opened

pytest.importorskip("altair")

ROUNDS = 12
STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF"}


def accuracy(seed, round):
    return 0.5 + 0.02 * round + 0.01 * seed


def add_run(out, scheme, seed, finish=True, **settings):
    config = load_config(None, {"scheme": scheme, "seed": seed, "rounds": ROUNDS, **settings})
    ended, found = {3: "diverged", 5: "iteration limit", 6: "iteration limit"}, []
    for round in range(1, ROUNDS + 1):
        facts = fakes.EMPTY | {"round": round, "loss": 1 / round, "symbols": 785 * round}
        facts["accuracy"] = accuracy(seed, round) if round % 2 == 0 else None
        if scheme != "error_free":
            facts |= {"nmse_db": -float(round), "cumulative_nmse_db": -2.0 * round}
            facts["status"] = ended.get(round, "converged")
        found.append(facts)
    fakes.write_run(config, out, finish, found)


@pytest.fixture
def results(tmp_path):
    for seed in range(3):
        add_run(tmp_path, "error_free", seed)
        add_run(tmp_path, "tsa_ga", seed)
    return tmp_path


@pytest.mark.long
def test_the_band_of_two_seeds_goes_from_one_to_the_other(tmp_path):
    runs = {seed: fakes.finished([{"round": 5, "accuracy": value}]) for seed, value in enumerate((0.2, 0.6))}
    ((_, _, point),) = fakes.selection(None, {("tsa_ga", ""): runs}).course("accuracy")
    assert (point["mean"], point["low"], point["high"]) == pytest.approx((0.4, 0.2, 0.6))
    for seed in range(2):
        add_run(tmp_path, "tsa_ga", seed)
    assert "two seeds only" in write_report(tmp_path).page.read_text()
    add_run(tmp_path, "tsa_ga", 2)
    page = write_report(tmp_path).page.read_text()
    assert "Bands are 95 %" in page and "two seeds only" not in page


def loose(out):
    """Return the runs of a folder without experiments."""
    results = Results(ResultsFolder(out))
    return results.loose(loose_runs(results, [])[0])


def test_seeds_are_averaged_round_by_round(results):
    shown = loose(results)
    assert {curve: len(runs) for (curve, _), runs in shown.lines.items()} == {"error_free": 3, "tsa_ga": 3}
    (_, _, means), _ = shown.course("accuracy")
    assert list(means["round"]) == [2, 4, 6, 8, 10, 12]
    assert means["mean"] == pytest.approx([accuracy(1, r) for r in (2, 4, 6, 8, 10, 12)])
    assert [line for line, _, _ in shown.course("nmse_db")] == [("tsa_ga", "")]


def test_labels_name_what_differs_of_what_a_scheme_reads(tmp_path):
    for ratio in (0.05, 0.1):
        for seed in range(2):
            add_run(tmp_path, "tsa_ga", seed, **{"uplink.ratio": ratio})
    for seed, ratio in enumerate((0.05, 0.1)):
        add_run(tmp_path, "error_free", seed, **{"uplink.ratio": ratio, "name": f"run{seed}"})
    add_run(tmp_path, "a_dsgd", 0)
    labels = [(curve, len(runs)) for (curve, _), runs in loose(tmp_path).lines.items()]
    ours = [("tsa_ga, uplink.ratio = 0.05", 2), ("tsa_ga, uplink.ratio = 0.1", 2)]
    assert labels == [("error_free", 2), *ours, ("a_dsgd", 1)]


def test_a_scheme_looks_alike_everywhere_and_no_two_curves_do():
    assert set(LOOKS) == {name for name in SCHEMES.names() if SCHEMES.is_built_in(name)}
    every = {name: name for name in ("error_free", "tsa_ga", "scheduled", "a_dsgd", "mine:Own")}
    found = looks(every)
    assert found["tsa_ga"] == looks({"TSA-GA": "tsa_ga"})["TSA-GA"]
    assert found["error_free"] == looks({"x": "a_dsgd", "error-free": "dense"})["error-free"]
    twice = looks({"one": "tsa_ga", "two": "tsa_ga", "three": "mine:Own"})
    assert twice["one"] == found["tsa_ga"]
    many = looks({str(place): "mine:Own" for place in range(30)})
    for of in (found, twice, many):
        assert len({json.dumps(look) for look in of.values()}) == len(of)


def test_long_curves_are_thinned_and_keep_their_ends_and_extremes():
    x = np.arange(1.0, 100_001.0)
    mean = np.sin(x / 5e3)
    mean[77_777] = 9.0
    thin = Curve("c", "", {"round": x, "mean": mean, "low": mean - 1, "high": mean + 1}).thinned().columns
    assert len(thin["mean"]) <= 400 and thin["round"][[0, -1]].tolist() == [1, 100_000]
    assert thin["high"].max() == 10.0 and thin["low"].min() == (mean - 1).min()


def test_unfinished_and_damaged_runs_are_named_and_left_out(results):
    add_run(results, "a_dsgd", 0, finish=False)
    damaged = next(results.glob("runs/tsa_ga-*/rounds.jsonl"))
    damaged.write_text(damaged.read_text().replace("0.5", "0.9", 1))
    unsealed = next(results.glob("runs/error_free-*"))
    (unsealed / "manifest.json").unlink()
    report = write_report(results)
    assert len(report.left_out) == 3
    assert f"{unsealed.name}: manifest.json is missing; left out" in "".join(report.left_out)
    _, *rows = report.chapters[0].tables[0].rows
    assert [row[:2] for row in rows] == [["error_free", "2"], ["tsa_ga", "2"]]
    html = report.page.read_text()
    assert all(note in html for note in report.left_out)


@pytest.mark.long
def test_an_experiment_without_its_list_of_runs_is_named_and_its_runs_stay(campaign):
    (campaign / "experiments" / "sweep.json").unlink()
    report = write_report(campaign)
    assert [chapter.name for chapter in report.chapters] == ["fig5a", "runs"]
    assert report.left_out == [
        "experiment sweep is left out: the list of its runs is missing or damaged; "
        "the command that computed it writes it again"
    ]
    shown = [row[0] for row in report.chapters[1].tables[0].rows[1:]]
    expected = ["error_free", "tsa_ga, uplink.ratio = 0.04", "tsa_ga, uplink.ratio = 0.1"]
    assert shown == [*expected, "a_dsgd, uplink.ratio = 0.04", "a_dsgd, uplink.ratio = 0.1"]


def test_table_shows_the_last_round(results):
    rows = last_table(loose(results))
    half = stats.t.ppf(0.975, 2) * 0.01 / 3**0.5
    assert rows[0][5:9] == ["NMSE (dB)", "cumulative NMSE (dB)", "diverged", "at the limit"]
    none = ["-"] * 4
    assert rows[1] == ["error_free", "3", "12", f"0.7500 ± {half:.4f}", "0.0833 ± 0.0000", *none, "9,420"]
    assert rows[2][5:9] == ["-12.0 ± 0.0", "-24.0 ± 0.0", "3", "6"]
    lines = text_table(rows).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_files_are_written_and_are_what_they_claim(results):
    report = write_report(results)
    figures = ("accuracy", "cumulative-nmse", "loss", "nmse")
    assert sorted(p.name for p in report.images) == [
        f"{name}.{kind}" for name in figures for kind in ("pdf", "png", "svg")
    ]
    for path in report.images:
        if path.suffix in STARTS:
            assert path.read_bytes().startswith(STARTS[path.suffix])
        else:
            text = " ".join(ElementTree.parse(path).getroot().itertext())
            assert "tsa_ga" in text
            assert ("error_free" in text) == (not path.stem.endswith("nmse"))
    again = write_report(results)
    assert again.page.read_bytes() == report.page.read_bytes()


def test_every_file_of_a_run_is_read_once(results, monkeypatch):
    fakes.draw_nothing(monkeypatch)
    opened, real = Counter(), os.open

    def spy(path, *rest, **more):
        opened[str(path)] += 1
        return real(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    write_report(results)
    written = [path for path in results.glob("runs/*/*") if path.name != ".lock"]
    assert len(written) == 6 * 5 and {opened[str(path)] for path in written} == {1}


def test_the_page_needs_no_network(results):
    html = write_report(results).page.read_text()
    outside = re.sub(r"<script[^>]*>.*?</script>", "", html, flags=re.S)
    assert "http" not in outside.replace("http-equiv", "")
    assert not re.search(r"<script[^>]+src|<link[^>]+href=\"(?!data:)", html)


def test_text_cannot_break_out_of_the_page():
    chapter = Chapter(
        "x", "<b>title", "<i>", tables=[TextTable("<u>", [["a"], ["<script>alert(1)</script>"]])]
    )
    html = render("<b>title", [chapter], environment={"<s>": "<s>"}, notes=["</p><i>"])
    outside = re.sub(r"<script>(?!alert).*?</script>", "", html, flags=re.S)
    assert not re.search(r"<(b|i|u|s)>|<script>alert", outside)


def test_inlined_code_cannot_end_its_element():
    code = _code("'</script>' + '</SCRIPT >' + '<!--' + '<b>'\r\n1\r2")
    assert code == "'\\x3c/script>' + '\\x3c/SCRIPT >' + '\\x3c!--' + '<b>'\n1\n2"


# --- experiments -------------------------------------------------------------------------------------------


def sweep(curves=("error_free", "tsa_ga", "a_dsgd"), ratios=(0.1, 0.04), **more):
    """An experiment of a few curves under a few variants."""
    return Experiment(
        name="sweep",
        title="A sweep",
        rounds=ROUNDS,
        seeds=[0, 1, 2],
        curves=[{"label": curve.replace("_", "-"), "scheme": curve} for curve in curves],
        variants=[{"label": f"s/N = {ratio}", "uplink": {"ratio": ratio}} for ratio in ratios],
        figures=[
            {"name": "sweep", "title": "Accuracy"},
            {"name": "error", "title": "NMSE", "metric": "nmse_db"},
        ],
        **more,
    )


@pytest.fixture
def campaign(tmp_path):
    """Two experiments, one without a run, and runs of no experiment."""
    fakes.write_experiment(sweep(), tmp_path, missing=1)
    fakes.write_experiment(shipped("fig5a").shortened(ROUNDS, 2), tmp_path)
    add_run(tmp_path, "tsa_ga", 7)
    (tmp_path / "campaign.json").write_text('{"seconds": 4260.0, "workers": 2, "engine": "processes"}')
    return tmp_path


def table_of(shown, title):
    """Return the rows of one table of a chapter."""
    return next(table.rows for table in make_chapter(shown).tables if table.title == title)


def test_final_accuracy_is_that_of_the_last_tenth_seed_by_seed(tmp_path):
    experiment = sweep().shortened(rounds=30)
    fakes.write_experiment(experiment, tmp_path)
    collected = fakes.collected(experiment, tmp_path)

    def late(curve, seed):
        return sum(collected.lines[curve, "s/N = 0.1"][seed].rows.values("accuracy")[-3:]) / 3

    table = table_of(collected, "Final accuracy")
    assert table[0] == ["curve", "s/N = 0.1", "s/N = 0.04"]
    values = [100 * late("tsa-ga", seed) for seed in range(3)]
    mean, half = sum(values) / 3, stats.t.ppf(0.975, 2) * stats.sem(values)
    assert table[2][:2] == ["tsa-ga", f"{mean:.2f} ± {half:.2f}"]
    gaps = [100 * late("error-free", seed) - value for seed, value in enumerate(values)]
    half = stats.t.ppf(0.975, 2) * stats.sem(gaps)
    gap_table = table_of(collected, "Gap to error-free")
    assert gap_table[1][:2] == ["tsa-ga", f"{sum(gaps) / 3:.2f} ± {half:.2f}"]
    assert [row[0] for row in mean_gap_table(collected)[1:]] == ["tsa-ga", "a-dsgd"]


def test_the_mean_gap_is_taken_over_the_variants_all_curves_share(tmp_path):
    fakes.write_experiment(sweep(), tmp_path, missing=3)
    assert mean_gap_table(fakes.collected(sweep(), tmp_path)) == []  # one curve has a single variant


def test_errors_of_rounds_and_of_their_sum_and_rounds_that_did_not_settle(tmp_path):
    experiment = sweep(("error_free", "common_k", "tsa_ga", "a_dsgd")).shortened(rounds=30)
    fakes.write_experiment(experiment, tmp_path)
    collected = fakes.collected(experiment, tmp_path)
    heading, *rows = reception_table(collected)
    counted = ["diverged", "at the limit", "of rounds"]
    assert heading == ["curve", "variant", "NMSE (dB)", "cumulative NMSE (dB)", *counted]
    found = {row[0]: row[2:] for row in rows if row[1] == "s/N = 0.1"}
    assert found["error-free"] == ["-"] * 5
    assert found["common-k"][1:] == ["-26.9 ± 0.0", "-", "-", "-"]  # a radio, but no receiver
    assert found["tsa-ga"][1:] == ["-26.6 ± 0.0", "0", "0", "90"]
    assert found["a-dsgd"][2:] == ["9", "9", "90"]
    errors = collected.ends("nmse_db")["tsa-ga", "s/N = 0.1"].values()
    assert found["tsa-ga"][0] == interval(errors).words(".1f")
    (shown,) = [table for table in make_chapter(collected).tables if table.title == "Recovery"]
    assert shown.rows == [heading, *rows] and "errors that cancel from round to round" in shown.note
    finals = [cell for row in table_of(collected, "Final accuracy")[1:] for cell in row[1:]]
    assert [row[2] for row in reception_table(collected, accuracy=True)[1:]] == finals


def test_the_page_has_everything_about_the_experiments(campaign):
    report = write_report(campaign)
    assert [chapter.name for chapter in report.chapters] == ["fig5a", "sweep", "runs"]
    assert report.chapters[1].missing.startswith("1 of 18 runs")
    html = re.sub(r"<script>.*?</script>", "", report.page.read_text(), flags=re.S)
    for text in ("Computed in 71 min by 2 workers", "0.5 × uplink.ratio", "Python", "NumPy", "results.csv"):
        assert (text in html) == (text != "0.5 × uplink.ratio")
    assert str(campaign) not in html
    assert {path.name for path in report.images if path.suffix == ".png"} == {
        "fig5a.png", "sweep.png", "error.png",
        "accuracy.png", "nmse.png", "cumulative-nmse.png", "loss.png",
    }  # fmt: skip
    assert report.page.stat().st_size < 2e6


@pytest.mark.long
def test_claims_are_judged_and_shown(tmp_path):
    for name in ("fig7", "fig8"):
        fakes.write_experiment(shipped(name), tmp_path)
    report = write_report(tmp_path)
    judged = json.loads((tmp_path / "claims.json").read_text())
    assert [verdict["number"] for verdict in judged] == [verdict.number for verdict in report.verdicts]
    html = re.sub(r"<script>.*?</script>", "", report.page.read_text(), flags=re.S)
    shown = re.findall(r"<tr><td>(\d+)</td>.*?<span class=\"verdict (\w+)\">(.) ", html, re.S)
    assert [int(number) for number, _, _ in shown] == [verdict.number for verdict in report.verdicts]
    assert {"good": "✓", "bad": "✗"}.items() <= {kind: sign for _, kind, sign in shown}.items()
    assert report.data == [tmp_path / name for name in ("results.csv", "runs.csv", "claims.json")]


@pytest.mark.long
def test_figures_of_the_same_name_get_files_of_their_own(tmp_path):
    for name in ("one", "two"):
        fakes.write_experiment(sweep().model_copy(update={"name": name}), tmp_path)
    names = [d.figure.name for chapter in write_report(tmp_path).chapters for d in chapter.drawings]
    assert names == ["sweep", "error", "two-sweep", "two-error"]


def test_the_command_prints_tables_and_files(campaign, capsys):
    assert main(["report", str(campaign)]) == 0
    printed = capsys.readouterr().out
    assert "Mean gap to error-free" in printed
    assert "1 of 18 runs are missing" in printed
    assert printed.rstrip().endswith("loss.pdf")


# --- in a browser ------------------------------------------------------------------------------------------

LINES = "document.querySelectorAll('#figure-{} .mark-line path').length"


@pytest.fixture
def shown(campaign, chromium, tmp_path_factory):
    """The page of the two experiments, open in a browser."""
    report = write_report(campaign)
    with opened(chromium, report.page.as_uri(), tmp_path_factory.mktemp("profile")) as window:
        window.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(campaign))
        yield window


@pytest.mark.browser
def test_the_page_works_in_a_browser(shown, campaign):
    counts = {name: shown.see(LINES.format(name)) for name in ("fig5a", "sweep", "error", "accuracy", "loss")}
    assert counts == {"fig5a": 6, "sweep": 6, "error": 4, "accuracy": 1, "loss": 1}
    legends_hide_and_show(shown)
    the_axis_can_be_symbols(shown)
    plots_can_be_zoomed_and_asked(shown)
    numbers_can_be_saved(shown, campaign)
    assert shown.said == []
    assert len(shown.asked) == 1  # the page itself


def legends_hide_and_show(shown):
    button = "document.querySelectorAll('#figure-sweep .legend.{} button')[{}]"
    curve, variant = button.format("name", 1), button.format("variant", 0)
    shown.see(f"{curve}.click()")
    shown.until(f"{LINES.format('sweep')} === 4")
    assert shown.see(f"{curve}.getAttribute('aria-pressed')") == "false"
    shown.see(f"{variant}.click()")
    shown.until(f"{LINES.format('sweep')} === 2")
    shown.see(f"{curve}.click()")
    shown.see(f"{variant}.click()")
    shown.until(f"{LINES.format('sweep')} === 6")
    shown.see(f"{curve}.dispatchEvent(new MouseEvent('dblclick'))")
    shown.until(f"{LINES.format('sweep')} === 2")
    shown.see("document.querySelectorAll('#figure-sweep .legend.name button').forEach(b => b.click())")


def the_axis_can_be_symbols(shown):
    title = "document.querySelector('#figure-fig5a .role-axis-title text').textContent"
    assert shown.see(title) == "communication round"
    shown.see("document.querySelector('#figure-fig5a [data-x=symbols]').click()")
    shown.until(f"document.querySelector('#figure-fig5a svg.marks') && {title} === 'channel uses (symbols)'")
    shown.until(f"{LINES.format('fig5a')} === 5")  # error-free uses none
    note = shown.see("document.querySelector('#figure-fig5a .note').textContent")
    assert note == "uses no channel: error-free"
    shown.see("document.querySelector('#figure-fig5a [data-x=round]').click()")
    shown.until(f"document.querySelector('#figure-fig5a svg.marks') && {title} === 'communication round'")


def plots_can_be_zoomed_and_asked(shown):
    labels = "document.querySelectorAll('#figure-fig5a .role-axis-label text')"
    ticks = f"[...{labels}].map(t => t.textContent).sort().join()"
    all_of_it = shown.see(ticks)
    button = "document.querySelector('#figure-fig5a [title=\"{}\"]').click()"
    shown.see("document.querySelector('#figure-fig5a').scrollIntoView({ behavior: 'instant' })")
    box = shown.see("document.querySelector('#figure-fig5a .chart').getBoundingClientRect().toJSON()")
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def point(kind, x=x, y=y, **more):
        shown.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def drag():
        held = {"button": "left", "buttons": 1}
        point("mousePressed", clickCount=1, **held)
        point("mouseMoved", x=x + 100, **held)
        point("mouseReleased", x=x + 100, button="left", clickCount=1)

    point("mouseMoved")
    shown.until("getComputedStyle(document.querySelector('#figure-fig5a .tip')).display === 'block'")
    assert shown.see("document.querySelectorAll('#figure-fig5a .tip tr').length") == 6
    with_control = {"deltaX": 0, "deltaY": -300, "modifiers": 2}
    for look in (lambda: shown.see(button.format("zoom in")), lambda: point("mouseWheel", **with_control)):
        look()
        shown.until(f"{ticks} !== '{all_of_it}'")
        near = shown.see(ticks)
        drag()  # only now is there anything beyond the edge
        shown.until(f"{ticks} !== '{near}'")
        shown.see(button.format("show everything"))
        shown.until(f"{ticks} === '{all_of_it}'")
    before = shown.see("scrollY")
    point("mouseWheel", deltaX=0, deltaY=100)
    shown.until(f"scrollY > {before}")  # the wheel alone moves the page, not the plot
    assert shown.see(ticks) == all_of_it


def wait_for(path):
    """Wait until a download is there and complete: the browser creates the file before it fills it."""
    end, before = time.monotonic() + 300, -1  # as long as the browser may take for anything
    while time.monotonic() < end:
        size = path.stat().st_size if path.exists() else 0
        partial = list(path.parent.glob("*.crdownload"))
        if size > 0 and size == before and not partial:
            break
        before = size
        time.sleep(0.2)
    return path


def numbers_can_be_saved(shown, campaign):
    shown.see("document.querySelector('#figure-sweep .csv').click()")
    wait_for(campaign / "sweep.csv")
    with (campaign / "sweep.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["curve", "variant", "round", "symbols", "mean", "low", "high", "seeds"]
    assert len(rows) == 6 * ROUNDS
    last = next(row for row in rows[::-1] if row["curve"] == "tsa-ga" and row["variant"] == "s/N = 0.1")
    assert (last["round"], last["symbols"], last["seeds"]) == (str(ROUNDS), str(785 * ROUNDS), "3")
    runs = fakes.collected(sweep(), campaign).lines["tsa-ga", "s/N = 0.1"]
    values = [row["accuracy"] for run in runs.values() for row in run.rows if row["round"] == ROUNDS]
    assert float(last["mean"]) == pytest.approx(sum(values) / 3, rel=1e-4)
    assert float(last["low"]) == pytest.approx(interval(values).low, abs=1e-3)


@pytest.mark.browser
def test_the_page_fits_paper(shown):
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    colour = "getComputedStyle(document.querySelector('.role-axis-label text')).fill"
    shown.call("Emulation.setEmulatedMedia", features=dark)
    assert shown.see(colour) == "rgb(232, 234, 237)"
    shown.call("Emulation.setEmulatedMedia", media="print", features=dark)
    assert shown.see(colour) == "rgb(0, 0, 0)"
    assert shown.see("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert shown.see("[...document.querySelectorAll('.tools, nav')].every(e => e.offsetHeight === 0)")
    assert shown.see("document.querySelector('.legend').offsetHeight") > 0
    assert shown.said == []


def test_a_run_draws_itself_and_others_beside_it(tmp_path):
    """Two seeds are one curve with a band; what was not recorded is one sentence."""
    given = {"dataset": small.arrays(), "out": tmp_path, "rounds": 3}
    first, second = (af.run(small.SETTINGS, seed=seed, **given) for seed in (0, 1))
    other = af.run(small.SETTINGS, scheme="dense", **given)
    drawing = first.plot(second, other)
    assert [(curve.name, curve.seeds) for curve in drawing.curves] == [("tsa_ga", 2), ("dense", 1)]
    assert drawing._repr_svg_().startswith("<svg")
    assert [curve.name for curve in first.plot(other, metric="nmse_db", x="symbols").curves] == ["tsa_ga"]
    with pytest.raises(
        ValueError, match="metric = 'accuracy': must be one that these runs have recorded along"
    ):
        first.plot(x="joules")
    with pytest.raises(ValueError, match="metric = 'speed': must be one of 'accuracy'"):
        first.plot(metric="speed")
