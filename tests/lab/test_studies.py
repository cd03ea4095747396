"""Studies of the theory as units of work: folders like those of runs, equal bytes, clear mistakes."""

import numpy as np
import pytest

import small
from airfeel.lab.plan import KINDS, ResultsFolder, read_experiment, remember_experiment, shipped
from airfeel.lab.report import loose_runs
from airfeel.lab.results import write_results
from airfeel.lab.store import finished, read_rows
from airfeel.lab.studies import recovery
from airfeel.lab.table import Results

SCHEMES = ["tsa_ga", "tsa_ga_no_support", "tsa_ga_no_amplitude", "turbo_cs", "a_dsgd", "a_dsgd_mmse"]
SMALL = {"size": 600, "ratio": 0.4, "activity": 0.1, "snr_db": 20.0, "rounds": 2}


@pytest.fixture
def trees(tmp_path):
    """The keys of a small study of every kind."""
    folder = small.write_folder(tmp_path / "data")
    bound = {
        "dataset": str(folder),
        "devices": {"count": 3, "samples": 60},
        "model": {"l2": 0.1},
        "uplink": {"ratio": 0.3},
        "rounds": 2,
    }
    return {"recovery": SMALL, "bound": bound}


def do(kind, tree, out, force=False, stop=lambda: False):
    work = KINDS[kind](tree, "here")
    return work.do(out, force, stop), out / "runs" / work.label


@pytest.mark.parametrize("kind", ["recovery", "bound"])
def test_equal_studies_are_equal_files_and_are_done_once(kind, trees, tmp_path):
    complete, path = do(kind, trees[kind], tmp_path / "a")
    assert complete and finished(path)["kind"] == kind
    assert path.name.startswith(f"{kind}-") and len(read_rows(path)) == 2
    assert len((path / "timings.jsonl").read_text().splitlines()) == 2
    _, again = do(kind, trees[kind], tmp_path / "b")
    assert (again / "rounds.jsonl").read_bytes() == (path / "rounds.jsonl").read_bytes()
    before = (path / "summary.json").stat().st_mtime_ns
    assert do(kind, trees[kind], tmp_path / "a")[0]
    assert (path / "summary.json").stat().st_mtime_ns == before
    do(kind, trees[kind], tmp_path / "a", force=True)
    assert (path / "summary.json").stat().st_mtime_ns > before


@pytest.mark.parametrize("kind", ["recovery", "bound"])
def test_a_study_of_no_known_experiment_is_named_and_left_out_of_a_report(kind, trees, tmp_path):
    _, path = do(kind, trees[kind], tmp_path)
    sentence = f"{path.name}: a study ({kind}) of no known experiment, left out"
    assert loose_runs(Results(ResultsFolder(tmp_path)), []) == ([], [sentence])


@pytest.mark.parametrize("kind", ["recovery", "bound"])
def test_a_stopped_study_starts_again(kind, trees, tmp_path):
    complete, path = do(kind, trees[kind], tmp_path, stop=small.stop_after(2))
    assert not complete and finished(path) is None
    assert do(kind, trees[kind], tmp_path)[0] and len(read_rows(path)) == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_receiver_recovers_what_is_predicted(scheme, tmp_path):
    tree = {"scheme": scheme, "size": 4000, "ratio": 0.5, "activity": 0.1, "snr_db": 20.0, "rounds": 6}
    _, path = do("recovery", tree, tmp_path)
    summary = finished(path)
    assert summary["scheme"] == scheme
    assert summary["steady_nmse_db"] == pytest.approx(summary["predicted_steady_nmse_db"], abs=1.0)
    assert summary["steady_nmse_db"] < -12


def test_receivers_meet_the_same_signals():
    """Only then a difference is one between receivers."""
    dct, gauss = (recovery.work({**SMALL, "scheme": scheme}, "x").config for scheme in ("turbo_cs", "a_dsgd"))
    for (_, one), (_, other) in zip(recovery._receptions(dct), recovery._receptions(gauss), strict=True):
        np.testing.assert_array_equal(one, other)


def test_snr_is_that_of_a_measurement():
    for scheme in ("turbo_cs", "a_dsgd"):
        tree = {**SMALL, "scheme": scheme, "beta": 1.0, "p01": 0.5, "rounds": 60}
        work = recovery.work(tree, "x").config
        pairs = [(r.operator @ x, r.observation) for r, x in recovery._receptions(work)]
        signal = np.mean([np.mean(clean**2) for clean, _ in pairs])
        noise = np.mean([np.mean((heard - clean) ** 2) for clean, heard in pairs])
        assert 10 * np.log10(signal / noise) == pytest.approx(20.0, abs=0.5)


def test_learning_starts_elsewhere_and_keeps_the_chain_on_record(tmp_path):
    _, path = do("recovery", {**SMALL, "learn": True, "p01": 0.05}, tmp_path)
    assert read_rows(path)[0]["p01"] == 0.005


@pytest.mark.parametrize(
    ("kind", "change", "sentence"),
    [
        ("recovery", {"ratio": 1.5}, "here: ratio = 1.5: must be a finite number > 0 and <= 1"),
        ("recovery", {"sise": 100}, "here: sise = 100: unknown key, the nearest valid key is 'size'"),
        ("recovery", {"scheme": "dense"}, "here: scheme = 'dense': must be one of"),
        ("recovery", {"activity": 0.9, "p01": 0.5}, "here: p01 = 0.5: must be <= (1 - activity)/activity"),
        ("recovery", {"learn": True, "scheme": "turbo_cs"}, "here: learn = True: must be false with scheme"),
        (
            "recovery",
            {"scheme": "a_dsgd", "size": 10**6},
            "here: size = 1000000: must be smaller for a dense",
        ),
        ("bound", {"model": {"l2": 0.0}}, "here: model.l2 = 0.0: must be > 0"),
        ("bound", {"devices": {"local_steps": 2}}, "here: devices.local_steps = 2: must be 1"),
        ("bound", {"uplink": {"ratio": -1.0}}, "here: uplink.ratio = -1.0: must be"),
    ],
)
def test_a_mistake_is_one_sentence(kind, change, sentence, trees):
    with pytest.raises(ValueError) as raised:
        KINDS[kind]({**trees[kind], **change}, "here")
    assert str(raised.value).startswith(sentence) and "\n" not in str(raised.value)


def test_studies_are_in_the_table(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(
        'kind = "recovery"\nrounds = 2\nseeds = [0]\n[base]\nsize = 300\n[grid]\nratio = [0.2, 0.4]\n'
    )
    experiment = read_experiment(file)
    runs = experiment.runs()
    for run in runs:
        run.do(tmp_path)
    remember_experiment(experiment, tmp_path, runs)
    lines = write_results(ResultsFolder(tmp_path)).read_text().splitlines()
    assert len(lines) == 5 and lines[0].endswith(",ratio") and lines[1].endswith(",0.2")


def test_studies_are_shortened_but_never_lengthened():
    cost = shipped("cost")
    assert cost.shortened(50).rounds == cost.rounds and cost.shortened(2).rounds == 2
    assert shipped("fig5a").shortened(1000).rounds == 1000
