"""Tables over all runs: renewed by what has changed, with the bytes of a table written anew."""

import csv
import json
import math
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import airfeel as af
import fakes
from airfeel.lab import plan as folders
from airfeel.lab.plan import Experiment, ResultsFolder, remember_experiment
from airfeel.lab.results import csv_table, write_results
from airfeel.lab.rundir import open_run
from airfeel.lab.store import RecordColumns

ROUNDS = 3


def config(seed, scheme="tsa_ga", **settings):
    return af.load_config(None, {"scheme": scheme, "seed": seed, "rounds": ROUNDS, **settings})


def experiment(name="sweep", key="ratio", values=(0.15, 0.2)):
    base, grid = {"scheme": "tsa_ga"}, {"uplink": {key: list(values)}}
    return Experiment(name=name, title=name, rounds=ROUNDS, seeds=[0, 1], base=base, grid=grid)


def renewed(out):
    """Renew the table; return it after holding it against one written anew from the same files."""
    table = write_results(ResultsFolder(out)).read_bytes()
    copy = out.parent / f"{out.name}-copy"
    shutil.copytree(out, copy)
    (copy / ".results.json").unlink()
    assert write_results(ResultsFolder(copy)).read_bytes() == table
    shutil.rmtree(copy)
    return table.decode().splitlines()


@pytest.fixture
def out(tmp_path):
    """Two runs of no experiment, in the table."""
    for seed in range(2):
        fakes.write_run(config(seed), tmp_path / "out")
    assert len(renewed(tmp_path / "out")) == 1 + 2 * ROUNDS
    return tmp_path / "out"


@pytest.fixture
def read(monkeypatch):
    """The names of the runs that are read."""
    labels, real = [], folders.examine
    monkeypatch.setattr(folders, "examine", lambda path: labels.append(path.name) or real(path))
    return labels


def test_only_the_new_run_is_read(out, read):
    fakes.write_run(config(2), out)
    table = write_results(ResultsFolder(out)).read_text().splitlines()
    assert read == [config(2).label()]
    assert len(table) == 1 + 3 * ROUNDS
    write_results(ResultsFolder(out))
    assert len(read) == 1


def test_a_run_computed_again_replaces_its_lines(out, read):
    first, label = renewed(out), config(1).label()
    read.clear()
    path = out / "runs" / label
    rows = [json.loads(line) for line in (path / "rounds.jsonl").read_text().splitlines()]
    with open_run(config(1), out) as folder:
        folder.reopen(forget=True)
        for row in rows[:-1]:
            folder.append(json.dumps(row | {"accuracy": 0.125}), row["round"], 0.1)
        folder.finish({})
    write_results(ResultsFolder(out))
    assert read == [label]
    second = renewed(out)
    assert len(second) == len(first) - 1 and sum(",0.125," in line for line in second) == ROUNDS - 1


def test_runs_that_disappear_or_are_damaged_leave_the_table_and_come_back(out, read):
    gone, damaged = (out / "runs" / config(seed).label() for seed in range(2))
    shutil.move(gone, out / "aside")
    content = (damaged / "rounds.jsonl").read_bytes()
    (damaged / "rounds.jsonl").write_bytes(content + b"{}\n")
    assert len(renewed(out)) == 1
    read.clear()
    write_results(ResultsFolder(out))
    assert read == []  # nor is what is known to be damaged read again and again
    (damaged / "rounds.jsonl").write_bytes(content)
    shutil.move(out / "aside", gone)
    assert len(renewed(out)) == 1 + 2 * ROUNDS


def test_curves_of_one_scheme_can_be_told_apart(out):
    curves = [
        {"label": "any", "scheme": "common_k"},
        {"label": "in turns", "scheme": "common_k", "uplink": {"order": "turns"}},
        {"label": "the first again", "scheme": "common_k"},  # the same run: it stands in the table once
    ]
    orders = Experiment(name="orders", title="orders", rounds=ROUNDS, seeds=[0], curves=curves)
    fakes.write_experiment(orders, out)
    lines = list(csv.DictReader(renewed(out)))[::ROUNDS]
    assert [(line["experiment"], line["scheme"], line["curve"]) for line in lines] == [
        ("orders", "common_k", "any"),
        ("orders", "common_k", "in turns"),
        ("run", "tsa_ga", ""),
        ("run", "tsa_ga", ""),
    ]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("-1 dB", "'-1 dB"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", r"\u0009=1"),
        ("a\x1b\n\udcff", r"a\u001b\u000a\udcff"),
        ("a=1", "a=1"),
        (-1.5, "-1.5"),
        ("-1e-3", "-1e-3"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        (None, ""),
        (["=1"], "['=1']"),
    ],
)
def test_text_in_a_table_is_text_and_a_number_a_number(value, cell):
    assert list(csv.reader(csv_table([[value, 0]]).decode().splitlines())) == [[cell, "0"]]


def test_experiments_claim_runs_and_add_columns(out):
    begun = experiment()
    fakes.write_experiment(begun, out, missing=1)
    assert renewed(out)[0].endswith(",uplink.ratio")
    assert [line.split(",")[0] for line in renewed(out)[1::ROUNDS]] == ["sweep"] * 3 + ["run"] * 2
    fakes.write_run(begun.runs()[-1].config, out)
    assert [line.split(",")[0] for line in renewed(out)[1::ROUNDS]] == ["sweep"] * 4 + ["run"] * 2
    fakes.write_experiment(experiment("other", "power", [600.0, 50.0]), out)
    assert renewed(out)[0].endswith(",uplink.power,uplink.ratio")
    for path in (out / "experiments").glob("sweep.*"):
        path.unlink()
    assert renewed(out)[0].endswith(",status,downlink,air_seconds,downlink_seconds,joules,curve,uplink.power")


SPOIL = {
    "table gone": lambda out: (out / "results.csv").unlink(),
    "table edited": lambda out: (out / "results.csv").write_text("experiment\n"),
    "index gone": lambda out: (out / ".results.json").unlink(),
    "index empty": lambda out: (out / ".results.json").write_text(""),
    "index of another kind": lambda out: (out / ".results.json").write_text("[1, 2]"),
    "index without blocks": lambda out: change(out, blocks=None),
    "lengths that do not fit": lambda out: change(out, blocks=[[None, "x", [1], 5]]),
    "another version": lambda out: change(out, airfeel="0.0.1"),
}


def change(out, **facts):
    index = json.loads((out / ".results.json").read_text())
    (out / ".results.json").write_text(json.dumps(index | facts))


@pytest.mark.parametrize("kind", SPOIL)
def test_what_does_not_fit_is_written_anew(out, read, kind):
    before = renewed(out)
    read.clear()
    SPOIL[kind](out)
    write_results(ResultsFolder(out))
    assert len(read) == 2
    assert renewed(out) == before


def test_many_at_once_lose_nothing(out):
    def add(seed):
        fakes.write_run(config(seed), out)
        write_results(ResultsFolder(out))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(10, 22)))
    table = (out / "results.csv").read_text()
    assert table.count("\n") == 1 + 14 * ROUNDS
    assert table.splitlines() == renewed(out)


def test_records_in_columns_are_given_back_as_they_were():
    """Whole numbers, fractions, truth values, words and nothing, each with its type."""
    values = [(1, 0.5, None, True, "ok", 2**70, 1, None), (2, None, None, False, None, 3, 0.5, 4)]
    rows = [dict(zip("abcdefgh", of, strict=True)) for of in values]
    found = RecordColumns(rows)
    for given in (list(found), [found[0], found[-1]]):
        assert repr(given) == repr(rows)
    assert [repr(found.values(key)) for key in "bz"] == ["[0.5, None]", "[None, None]"]


# --- for scripts -------------------------------------------------------------------------------------------


def test_results_are_listed_round_by_round_with_their_settings(out):
    free = config(7, "error_free", **{"uplink.ratio": 0.3})
    fakes.write_run(free, out)
    fakes.write_run(config(8), out, finish=False)
    rows = af.read_results(out).to_dict("records")
    assert len(rows) == 3 * ROUNDS
    assert {row["run"] for row in rows} == {one.label() for one in (config(0), config(1), free)}
    (last,) = [row for row in rows if row["seed"] == 7 and row["round"] == ROUNDS]
    assert (last["scheme"], last["uplink.ratio"]) == ("error_free", 0.3) and math.isnan(last["nmse_db"])
    assert last["accuracy"] == [*fakes.rows(free)][-1]["accuracy"]
    with pytest.raises(ValueError, match="has no finished run under"):
        af.read_results(out / "runs")


def test_a_table_needs_pandas_and_says_so(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="a pandas DataFrame: read_results needs"):
        af.read_results(out)


# --- work --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{", "3", '[{"curve": 1}]', '[{"curve": "a", "variant": "", "seed": 0, "label": "../x"}]']
)
def test_a_forged_list_of_runs_is_not_used(tmp_path, text):
    remember_experiment(experiment(), tmp_path, experiment().runs())
    (tmp_path / "experiments" / "sweep.json").write_text(text)
    found, (sentence,) = ResultsFolder(tmp_path).experiments()
    assert found == [] and sentence.startswith("experiment sweep is left out: the list of its runs")


def test_an_experiment_of_another_version_is_left_out_and_named(tmp_path):
    remember_experiment(experiment(), tmp_path, experiment().runs())
    path = tmp_path / "experiments" / "sweep.toml"
    path.write_text("next_year = 1\n" + path.read_text())
    found, (sentence,) = ResultsFolder(tmp_path).experiments()
    assert found == [] and "next_year = 1: unknown key" in sentence
