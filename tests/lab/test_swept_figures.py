"""Figures over a swept key: right values at right places, a plot for each combination of the others."""

import xml.etree.ElementTree as ElementTree

import pytest

import fakes
from airfeel.lab.plan import Experiment

pytest.importorskip("altair")

from airfeel.lab.exhibits.curves import PlotPosition, arrange
from airfeel.lab.report import make_chapter
from airfeel.lab.table import interval

RATES, ROUNDS = (0.01, 0.1, 0.3), 20


def experiment(**figure):
    """Learning rates and two partitions; labels say both."""
    kinds = {"IID": {"kind": "iid"}, "χ = 2": {"kind": "classes", "classes": 2}}
    return Experiment(
        name="swept",
        title="Swept",
        rounds=ROUNDS,
        seeds=[0, 1, 2],
        curves=[{"label": scheme, "scheme": scheme} for scheme in ("error_free", "tsa_ga", "common_k")],
        variants=[
            {"label": f"η = {rate}, {kind}", "devices": {"learning_rate": rate}, "partition": of}
            for rate in reversed(RATES)  # drawn in the order of the values, whatever that of the file
            for kind, of in kinds.items()
        ],
        figures=[{"name": "swept", "title": "Swept", "x": "devices.learning_rate", **figure}],
    )


def drawn(out, missing=0, **figure):
    of = experiment(**figure)
    fakes.write_experiment(of, out, missing)
    collected = fakes.collected(of, out)
    (drawing,) = make_chapter(collected).drawings
    return drawing, collected


def test_final_accuracy_by_value_in_a_plot_for_every_other_setting(tmp_path):
    drawing, collected = drawn(tmp_path)
    payload = drawing.payload()
    assert payload["split"] and payload["variants"] == ["IID", "χ = 2"]
    assert payload["axes"]["round"]["scale"]["type"] == "log"
    assert payload["axes"]["round"]["title"] == "devices.learning_rate"
    found = {(payload["names"][c["name"]], payload["variants"][c["variant"]]): c for c in payload["curves"]}
    assert len(found) == 6
    for (curve, kind), course in found.items():
        assert course["round"] == list(RATES) and course["seeds"] == 3 and "symbols" not in course
        for rate, mean, half in zip(RATES, course["mean"], course["half"], strict=True):
            runs = collected.lines[curve, f"η = {rate}, {kind}"].values()
            last = [sum(row["accuracy"] for row in [run.rows[-2], run.rows[-1]]) / 2 for run in runs]
            expected = interval(last)
            assert mean == pytest.approx(expected.value, rel=1e-4)
            assert half == pytest.approx(expected.high - expected.value, rel=1e-2)


def test_what_is_missing_leaves_a_gap(tmp_path):
    """The runs of the last two variants of the last curve are not there."""
    drawing, _ = drawn(tmp_path, missing=6)
    lengths = {(curve.name, curve.variant): curve.along("round") for curve in drawing.curves}
    assert lengths["common_k", "IID"] == [0.1, 0.3] and lengths["tsa_ga", "IID"] == list(RATES)


def test_plots_are_named_by_what_their_variants_share():
    variants = {
        "η = 1, near": {"η": 1, "far": 0},
        "η = 2, near": {"η": 2, "far": 0},
        "η = 1, far": {"η": 1, "far": 1},
        "η = 2, far": {"η": 2, "far": 1},
    }
    assert arrange(variants, "η") == {
        label: PlotPosition(label.split(", ")[1], settings["η"]) for label, settings in variants.items()
    }
    alone = {label: of for label, of in variants.items() if of["far"]}
    assert {place.plot for place in arrange(alone, "η").values()} == {""}
    nameless = dict(zip("abcd", variants.values(), strict=True))
    assert arrange(nameless, "η")["a"] == PlotPosition("far = 0", 1.0)


@pytest.mark.parametrize("x", ["uplink.power", "partition.kind", "partition.classes", "scheme", "rounds"])
def test_an_axis_must_be_a_number_in_every_variant(x):
    rule = r"must be one of \['round', 'symbols', 'air_seconds', 'joules', 'devices.learning_rate'\]"
    with pytest.raises(ValueError, match=f"figures.x = '{x}': {rule}"):
        experiment(x=x)


def test_a_power_has_its_snr_below_it(tmp_path):
    """10 log10(P / 785) dB; as lines of their own in the image, and in the names of the courses."""
    grid = {"scheme": ["tsa_ga", "common_k", "error_free"], "uplink": {"power": [50.0, 500.0, 1000.0]}}
    of = Experiment(name="grid", title="Grid", rounds=4, seeds=[0], grid=grid)
    fakes.write_experiment(of, tmp_path)
    swept, _, course, *_ = make_chapter(fakes.collected(of, tmp_path)).drawings
    below = ["SNR -12.0 dB", "SNR -2.0 dB", "SNR 1.1 dB"]
    assert swept.figure.below == below and swept.variants == [""]
    _, svg, _ = swept.save(tmp_path / "swept")
    texts = [text for text in ElementTree.parse(svg).getroot().itertext() if text.strip()]
    assert {"50", "500", "1000", *below} <= set(texts)
    assert course.variants == [
        f"uplink.power = {p} ({b})" for p, b in zip((50.0, 500.0, 1000.0), below, strict=True)
    ]
