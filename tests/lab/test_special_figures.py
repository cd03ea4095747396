"""Special figures: drawn from small experiments as chart and as files, with facts in words under them."""

import pytest

import fakes
import small
from airfeel.lab.exhibits import EXHIBITS, TextTable, figure_kinds
from airfeel.lab.plan import Experiment, FigureSpec

STUDY = {"title": "study", "kind": "recovery", "rounds": 2, "seeds": [0, 1]}
TRAINING = {"model": {"l2": 0.1}, "devices": {"count": 3, "samples": 60}, "uplink": {"ratio": 0.3}}
TRAINING |= {"run": {"record_aggregates": True}}


def experiments(data):
    """Return one small experiment for every special figure."""
    base, names = TRAINING | {"dataset": str(data)}, {"tsa_ga": "TSA-GA", "turbo_cs": "Turbo-CS"}
    curves = [{"label": label, "scheme": scheme} for scheme, label in names.items()]
    levels = [{"label": label, "snr_db": level} for label, level in (("loud", 20.0), ("noisy", 5.0))]
    sizes = [{"label": f"N = {size}", "size": size} for size in (300, 3000)]
    small_one = {"size": 400, "ratio": 0.4, "activity": 0.1}
    return {
        "recovery": STUDY | {"base": small_one, "curves": curves, "variants": levels},
        "cost": STUDY | {"base": {"ratio": 0.4}, "variants": sizes},
        "bound": STUDY | {"kind": "bound", "rounds": 3, "base": base | {"scheme": "tsa_ga"}},
        "magnitudes": STUDY | {"kind": "training", "rounds": 12, "base": base | {"scheme": "error_free"}},
    }


SPECIAL = [kind for kind in figure_kinds() if kind not in ("curves", "leaderboard")]  # tested elsewhere
FACTS = [kind for kind in SPECIAL if kind != "evolution"]


def exhibit(kind, shown, **options):
    """Return what an exhibit makes: drawings, and tables that have a row."""
    spec = FigureSpec(name=f"own-{kind}", title="What is shown", kind=kind, **options)
    found = [one for one in EXHIBITS.get(kind).target(shown, spec) if one is not None]
    tables = [one.rows for one in found if isinstance(one, TextTable) and len(one.rows) > 1]
    return [one for one in found if not isinstance(one, TextTable)], tables


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Collected results of one small experiment for every special figure."""
    out, found = tmp_path_factory.mktemp("results"), {}
    for kind, facts in experiments(small.write_folder(out / "data")).items():
        experiment = Experiment(name=kind, **facts)
        assert all(run.do(out) for run in experiment.runs())
        found[kind] = fakes.collected(experiment, out)
    return found | {"evolution": found["recovery"]}


@pytest.mark.parametrize("kind", SPECIAL)
def test_figures_are_drawn_as_chart_and_files_with_facts_in_text(kind, results, tmp_path):
    (drawing,), tables = exhibit(kind, results[kind])
    assert drawing.figure.name == f"own-{kind}" and drawing.figure.title == "What is shown"
    assert drawing.payload()["spec"]["width"] == "container"
    for path in drawing.save(tmp_path / drawing.figure.name):
        assert path.stat().st_size > 3000
    assert len(tables) == (kind in FACTS)
    for heading, *rows in tables:
        assert rows and all(len(row) == len(heading) for row in rows)
        assert all(isinstance(cell, str) for row in [heading, *rows] for cell in row)


@pytest.mark.parametrize("kind", SPECIAL)
def test_nothing_is_drawn_of_nothing(kind, results):
    assert exhibit(kind, fakes.selection(results[kind].experiment, {})) == ([], [])


def test_a_figure_can_show_one_variant(results):
    ((everything,), _), ((loud,), _) = (
        exhibit("evolution", results["evolution"], **options) for options in ({}, {"variant": "loud"})
    )
    assert names(everything) == ["TSA-GA, loud", "TSA-GA, noisy", "Turbo-CS, loud", "Turbo-CS, noisy"]
    assert names(loud) == ["TSA-GA", "Turbo-CS"]


def names(drawing):
    return drawing.payload()["names"]


def test_bounds_that_hold_are_counted(results):
    _, ((_, row),) = exhibit("bound", results["bound"])
    assert row[-1] == "6 of 6"
