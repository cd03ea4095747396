"""The report: right averages, a page that draws itself without a network, figures one can look at."""

import dataclasses
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from scipy import stats

from airfeel.config import load_config
from airfeel.experiments.groups import average, group_runs, interval, read_runs
from airfeel.experiments.rundir import open_run
from airfeel.simulation.records import Record

altair = pytest.importorskip("altair")

from airfeel.experiments import page  # noqa: E402
from airfeel.experiments.report import summary_table, text_table, write_report  # noqa: E402

ROUNDS = 12


def accuracy(seed, round):
    return 0.5 + 0.02 * round + 0.01 * seed


def add_run(out, scheme, seed, finish=True, **settings):
    config = load_config(None, {"scheme": scheme, "seed": seed, "rounds": ROUNDS, **settings})
    with open_run(config, out) as folder:
        for round in range(1, ROUNDS + 1):
            facts = dict.fromkeys(field.name for field in dataclasses.fields(Record))
            facts |= {"round": round, "loss": 1 / round, "symbols": 785 * round}
            facts["accuracy"] = accuracy(seed, round) if round % 2 == 0 else None
            facts["nmse_db"] = None if scheme == "error_free" else -float(round)
            folder.append(Record(**facts).to_json(), round, 0.0)
        if finish:
            folder.finish({})


@pytest.fixture
def results(tmp_path):
    for seed in range(3):
        add_run(tmp_path, "error_free", seed)
        add_run(tmp_path, "tsa_ga", seed)
    return tmp_path


def test_interval_is_students():
    values = [0.3, 0.5, 0.4, 0.45]
    expected = stats.t.interval(0.95, 3, loc=0.4125, scale=stats.sem(values))
    mean = interval(7, values)
    assert (mean.low, mean.high) == pytest.approx(expected, rel=1e-12)
    assert interval(7, [0.3]).low == interval(7, [0.3]).high == 0.3


def test_seeds_are_averaged_round_by_round(results):
    groups = group_runs(read_runs(results)[0])
    assert [(g.label, len(g.runs)) for g in groups] == [("error_free", 3), ("tsa_ga", 3)]
    means = average(groups[0], "accuracy")
    assert [m.x for m in means] == [2, 4, 6, 8, 10, 12]
    assert [m.value for m in means] == pytest.approx([accuracy(1, r) for r in (2, 4, 6, 8, 10, 12)])
    assert average(groups[0], "nmse_db") == []


def test_labels_name_what_differs(tmp_path):
    for ratio in (0.05, 0.1):
        for seed in range(2):
            add_run(tmp_path, "tsa_ga", seed, **{"uplink.ratio": ratio})
    add_run(tmp_path, "a_dsgd", 0)
    labels = [group.label for group in group_runs(read_runs(tmp_path)[0])]
    assert labels == ["tsa_ga, uplink.ratio = 0.05", "tsa_ga, uplink.ratio = 0.1", "a_dsgd"]


def test_unfinished_and_damaged_runs_are_named_and_left_out(results):
    add_run(results, "a_dsgd", 0, finish=False)
    damaged = next(results.glob("runs/tsa_ga-*/rounds.jsonl"))
    damaged.write_text(damaged.read_text().replace("0.5", "0.9", 1))
    report = write_report(results)
    assert len(report.left_out) == 2
    assert {row[0]: row[1] for row in report.table[1:]} == {"error_free": "3", "tsa_ga": "2"}
    html = report.page.read_text()
    assert all(note in html for note in report.left_out)


def test_a_folder_without_runs_is_one_sentence(tmp_path):
    with pytest.raises(ValueError, match="has no finished run under"):
        write_report(tmp_path)


def test_table_shows_the_last_round(results):
    rows = summary_table(group_runs(read_runs(results)[0]))
    half = stats.t.ppf(0.975, 2) * 0.01 / 3**0.5
    assert rows[1] == ["error_free", "3", "12", f"0.7500 ± {half:.4f}", "0.0833 ± 0.0000", "-", "9,420"]
    assert rows[2][5] == "-12.0 ± 0.0"
    lines = text_table(rows).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_files_are_written_and_are_what_they_claim(results):
    report = write_report(results)
    assert sorted(p.name for p in report.images) == [
        "accuracy.png", "accuracy.svg", "loss.png", "loss.svg", "nmse.png", "nmse.svg",
    ]  # fmt: skip
    for path in report.images:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            text = " ".join(ElementTree.parse(path).getroot().itertext())
            assert "tsa_ga" in text
            assert ("error_free" in text) == (path.stem != "nmse")
    again = write_report(results)
    assert again.page.read_bytes() == report.page.read_bytes()


def test_the_page_needs_no_network(results):
    html = write_report(results).page.read_text()
    outside = re.sub(r"<script>.*?</script>", "", html, flags=re.S)
    assert "http" not in outside.replace("http-equiv", "")
    assert not re.search(r"<script[^>]+src|<link[^>]+href=\"(?!data:)", html)


def test_text_cannot_break_out_of_the_page():
    html = page.render("<b>title", [["a"], ["<script>alert(1)</script>"]], [], ["</p><i>"])
    assert "<b>" not in html
    assert "<script>alert" not in html
    assert "<i>" not in html
    assert page._inline('"</script>"') == '"<\\/script>"'


@pytest.mark.browser
@pytest.mark.parametrize("size", ["1100,900", "390,800"])
def test_the_page_draws_in_a_browser_without_a_complaint(results, chromium, tmp_path, size):
    report = write_report(results)
    done = subprocess.run(
        [
            chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={size}", "--enable-logging=stderr",
            "--virtual-time-budget=5000", "--dump-dom", report.page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    drawn = re.findall(r'<div class="chart[^"]*" id="figure-(\w+)"[^>]*>.*?<svg', done.stdout, flags=re.S)
    assert drawn == ["accuracy", "nmse", "loss"]
    assert done.stdout.count('aria-roledescription="line mark"') == 3 + 2
