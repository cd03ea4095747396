"""Sweeps that people can read: figures that suit the keys, a row per run, mistakes told before the first."""

import csv
import re

import pytest

import fakes
import small
from airfeel.lab.plan import Experiment, ResultsFolder
from airfeel.lab.results import FIRST, list_runs, read_results, write_runs

ROUNDS = 20
SCHEMES = ["tsa_ga", "common_k"]


def experiment(**more):
    grid = {"scheme": SCHEMES, **more.pop("grid", {"uplink": {"ratio": [0.05, 0.1, 0.2]}})}
    return Experiment(name="mine", title="Mine", rounds=ROUNDS, seeds=[0, 1], grid=grid, **more)


def exhibit(of, folder):
    pytest.importorskip("altair")
    from airfeel.lab.report import make_chapter

    fakes.write_experiment(of, folder)
    return make_chapter(fakes.collected(of, folder))


# --- figures -----------------------------------------------------------------------------------------------


def test_without_a_swept_number_courses_are_shown(tmp_path):
    shown = exhibit(experiment(grid={}), tmp_path)
    assert [d.figure.metric for d in shown.drawings] == ["accuracy", "nmse_db", "cumulative_nmse_db"]
    assert {d.figure.x for d in shown.drawings} == {"round"}


def test_a_swept_number_becomes_the_x_axis(tmp_path):
    first, *others = exhibit(experiment(), tmp_path).drawings
    assert (first.figure.x_title, first.figure.metric) == ("uplink.ratio", "accuracy")
    assert {curve.name for curve in first.curves} == set(SCHEMES)
    for curve in first.curves:
        low, mean, high = (curve.columns[key] for key in ("low", "mean", "high"))
        assert curve.along("round") == [0.05, 0.1, 0.2] and (low < mean).all() and (mean < high).all()
    assert [(d.figure.x_title, d.figure.metric) for d in others] == [
        ("uplink.ratio", "cumulative_nmse_db"),
        ("communication round", "accuracy"),
        ("communication round", "nmse_db"),
        ("communication round", "cumulative_nmse_db"),
    ]


def test_two_swept_numbers_become_a_map_for_each_curve(tmp_path):
    grid = {"uplink": {"ratio": [0.05, 0.1, 0.2], "power": [50.0, 200.0, 500.0]}}
    drawings = exhibit(experiment(grid=grid), tmp_path).drawings
    maps = [d for d in drawings if d.figure.name.startswith("mine-map")]
    assert [d.figure.title.rpartition(": ")[2] for d in maps] == SCHEMES
    specs = [d.payload()["spec"] for d in maps]
    domains = [spec["layer"][0]["encoding"]["color"]["scale"]["domain"] for spec in specs]
    assert domains[0] == domains[1]
    (rows,) = specs[0]["datasets"].values()
    assert {(row["x"], row["y"]) for row in rows} == {
        (s, p) for s in (0.05, 0.1, 0.2) for p in (50, 200, 500)
    }
    found = fakes.collected(experiment(grid=grid), tmp_path)
    finals = found.ends("final")["tsa_ga", "uplink.ratio = 0.1, uplink.power = 200.0"]
    wanted = sum(finals.values()) / 200
    assert next(row["mean"] for row in rows if (row["x"], row["y"]) == (0.1, 200)) == pytest.approx(wanted)
    for path in maps[0].save(tmp_path / "map"):
        assert path.stat().st_size > 1000


def test_few_values_of_a_second_key_become_plots_beside_one_another(tmp_path):
    grid = {"uplink": {"ratio": [0.05, 0.1, 0.2], "power": [50.0, 500.0]}}
    first, *_ = exhibit(experiment(grid=grid), tmp_path).drawings
    assert first.figure.name == "mine-swept" and first.split
    plots = ["uplink.power = 50.0 (SNR -15.0 to -8.9 dB)", "uplink.power = 500.0 (SNR -5.0 to 1.1 dB)"]
    assert first.variants == plots  # P over 0.2 N and over 0.05 N, with N = 7850


def test_the_file_decides_where_it_names_figures(tmp_path):
    grid = {"uplink": {"ratio": [0.05, 0.1], "power": [50.0, 500.0]}}
    figures = [{"name": "own", "title": "Own", "x": "uplink.power", "y": "uplink.ratio", "metric": "nmse_db"}]
    shown = exhibit(experiment(grid=grid, figures=figures), tmp_path)
    assert [d.figure.name for d in shown.drawings] == ["own-1", "own-2"]
    assert shown.drawings[0].figure.metric == "nmse_db"


# --- one row per run ---------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    of = experiment()
    fakes.write_experiment(of, tmp_path, missing=1)
    fakes.write_run(of.runs()[-1].config, tmp_path, finish=False)
    return tmp_path


def test_runs_csv_has_a_row_for_each_run_with_all_keys(results):
    with write_runs(ResultsFolder(results)).open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[: len(FIRST)] == list(FIRST)
    assert [row["status"] for row in rows].count("finished") == 11
    assert {row["run"] for row in rows} == {path.name for path in (results / "runs").iterdir()}
    (open_,) = [row for row in rows if row["status"] == "unfinished"]
    assert (open_["rounds"], open_["final_accuracy"], open_["scheme"]) == (str(ROUNDS), "", "")
    found = fakes.collected(experiment(), results)
    for (curve, variant), runs in found.lines.items():
        for seed, run in runs.items():
            (row,) = [row for row in rows if row["run"] == run.folder.name]
            assert (row["seed"], row["scheme"], row["uplink.ratio"]) == (
                str(seed),
                curve,
                variant.split()[-1],
            )
            assert float(row["final_accuracy"]) == pytest.approx(
                found.ends("final")[curve, variant][seed] / 100
            )
            assert float(row["best_accuracy"]) == max(r["accuracy"] for r in run.rows)
            assert float(row["seconds"]) == pytest.approx(ROUNDS * 0.05)


def test_a_damaged_run_is_named_so(results):
    path = next(results.glob("runs/tsa_ga-*/summary.json"))
    path.write_text("{}")
    rows = {row["run"]: row["status"] for row in list_runs(ResultsFolder(results))}
    assert rows[path.parent.name] == "damaged"


def test_a_table_of_runs_in_a_script(results):
    pandas = pytest.importorskip("pandas")
    table = read_results(results, per="run")
    assert isinstance(table, pandas.DataFrame) and len(table) == 12
    assert list(table.columns[: len(FIRST)]) == list(FIRST)
    best = table[table.status == "finished"].groupby("scheme").best_accuracy.max()
    assert set(best.index) == set(SCHEMES)
    with pytest.raises(ValueError, match="per = 'seed': must be"):
        read_results(results, per="seed")


def test_the_command_writes_tables_alone(results, tmp_path_factory):
    ended = small.succeed(["airfeel", "report", str(results), "--csv"])
    assert ended.stdout.split() == [str(results / "results.csv"), str(results / "runs.csv")]
    assert not (results / "report.html").exists()
    nothing = tmp_path_factory.mktemp("nothing")
    ended = small.call(["airfeel", "report", str(nothing), "--csv"])
    assert ended.returncode == 2 and f"{nothing}: has no run under" in ended.stderr


# --- before the first run ----------------------------------------------------------------------------------


def sweep(folder, text, *words):
    (folder / "mine.toml").write_text(text)
    return small.call(["airfeel", "sweep", str(folder / "mine.toml"), "--out", str(folder / "out"), *words])


def test_a_dry_run_says_what_it_would_take_and_computes_nothing(data, tmp_path):
    text = (
        f"seeds = [0, 1]\n[base]\nrounds = 3\ndataset = '{data}'\ndevices.count = 2\ndevices.samples = 50\n"
    )
    text += "[grid]\nscheme = ['error_free', 'common_k']\nuplink.ratio = [0.1, 0.2]\n"
    ended = sweep(tmp_path, text, "--dry-run", "--workers", "2")
    assert ended.returncode == 0, ended.stderr
    said = r"6 runs, 0 of them finished already; about [\d.]+ s with 2 workers, .*; about [\d.]+ GB of memory"
    assert re.match(said, ended.stdout)  # error_free reads no ratio, so it is computed once for both
    assert not (tmp_path / "out").exists()
    assert sweep(tmp_path, text, "--workers", "1").returncode == 0
    ended = sweep(tmp_path, text, "--dry-run")
    assert re.fullmatch(r"(\d) runs, \1 of them finished already\n", ended.stdout)


def test_a_dry_run_of_data_that_are_not_here_fetches_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path / "empty"))
    ended = small.succeed(["airfeel", "reproduce", "fig5a", "--dry-run", "--out", str(tmp_path / "out")])
    assert ended.stdout.startswith("18 runs, 0 of them finished already; time and memory are known once")
    assert not (tmp_path / "out").exists() and not (tmp_path / "empty").exists()
