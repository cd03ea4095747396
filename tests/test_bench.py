"""The settings of the leaderboard, its table, and a scheme of one's own on it."""

import sys
import tomllib
import zlib
from pathlib import Path

import numpy as np
import pytest

import small
from airfeel.commands.bench import _experiment
from airfeel.config import load_config
from airfeel.lab.figures import BENCH
from airfeel.learning.catalogue.kjv import LENGTH, TEST_EVERY, read_books

BOOKS = {"ot": ["In the beginning was light. " * 40, "And it came to pass. " * 30], "nt": ["Verily " * 300]}


def marked(text):
    """A book as the module has it: words in marks, a note and a heading, which are no text."""
    words = " ".join(f'<w lemma="strong:H1">{word}</w>' for word in text.split())
    return f"<div/><title>Of\nBooks</title>{words}<note>or <i>light</i></note>\n".encode()


def write_module(folder):
    for part, books in BOOKS.items():
        packed = [zlib.compress(marked(book)) for book in books]
        ends = np.cumsum([0, *map(len, packed)])
        rows = [(ends[i], len(packed[i]), len(marked(book))) for i, book in enumerate(books)]
        (folder / f"{part}.bzs").write_bytes(np.array(rows, "<u4").tobytes())
        (folder / f"{part}.bzz").write_bytes(b"".join(packed))


def test_a_text_becomes_pieces_of_one_book_each_with_the_next_characters_as_labels(tmp_path):
    write_module(tmp_path)
    train, labels, test, test_labels = read_books(tmp_path)
    texts = [" ".join(book.split()) for books in BOOKS.values() for book in books]
    codes = sorted(set("".join(texts)))
    pieces = np.concatenate([train, test])
    assert len(pieces) == sum((len(text) - 1) // LENGTH for text in texts)
    assert len(test) == len(pieces) // TEST_EVERY
    for inputs, following in ((train, labels), (test, test_labels)):
        assert inputs.shape == following.shape and inputs.dtype == np.int16
        np.testing.assert_array_equal(inputs[:, 1:], following[:, :-1])
    found = ["".join(codes[code] for code in piece) for piece in train]
    assert found[0] == texts[0][:LENGTH]
    assert all(any(piece in text for text in texts) for piece in found)


def test_a_scheme_without_radio_that_counts_symbols_is_another_run_with_another_ratio():
    def labels(scheme):
        return {load_config(None, {"scheme": scheme, "uplink.ratio": ratio}).label() for ratio in (0.1, 0.2)}

    assert len(labels("split")) == 2
    assert len(labels("stc")) == 1  # it says itself how much it sends


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ("--setting nowhere", "--setting nowhere: must be one of cifar, mnist, paper, text"),
        ("--set scheme=stc", "--set scheme=stc: must not be given, as SCHEMES names the schemes"),
    ],
)
def test_an_impossible_request_is_told(given, rule):
    done = small.call([sys.executable, "-m", "airfeel", "bench", "scheduled", *given.split()])
    assert done.returncode == 2
    assert rule in done.stderr


@pytest.mark.parametrize("name", BENCH)
def test_every_setting_takes_a_scheme_of_ones_own(name):
    found = _experiment(["common_k", "common_k"], name.removeprefix("bench-"), ["uplink.order=turns"])
    curves = {run.curve for run in found.runs()}
    assert curves == {"error-free", "common_k"} and len(found.curves) == 2
    assert {run.config.uplink.order for run in found.runs() if run.curve == "common_k"} == {"turns"}
    assert type(found).model_validate(tomllib.loads(found.to_toml())) == found


def test_a_scheme_of_ones_own_gets_its_rows(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pandas")
    from airfeel.commands import Computing
    from airfeel.commands.bench import bench
    from airfeel.lab import plan

    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    base = {"dataset": str(small.write_folder(tmp_path / "data")), **small.SETTINGS}
    of_paper = plan.shipped("bench-paper").model_copy(update={"base": base})
    monkeypatch.setattr(plan, "shipped", lambda name: of_paper)
    how = Computing(workers=1, out=tmp_path / "out")
    given = {"setting": "d", "settings": ["uplink.chance=0.25"], "rounds": 2, "seeds": 1}
    bench(["own_scheme:Largest"], **given, computing=how)
    _, heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "scheme"
    own = [row.split() for row in rows if row.startswith("own_scheme:Largest")]
    assert [(row[1], row[3]) for row in own] == [("25", "1"), ("100", "1")]
    assert sum(row.startswith("error-free") for row in rows) == 2


def test_the_leaderboard_says_what_is_lost_sent_carried_and_told(tmp_path):
    pytest.importorskip("pandas")
    from airfeel.lab.api import compute
    from airfeel.lab.exhibits.leaderboard import HEADING, leaderboard_rows
    from airfeel.lab.plan import Experiment
    from airfeel.lab.table import Results

    folder = small.write_folder(tmp_path / "data")
    schemes = {"error-free": "dense", "a": "scheduled", "b": "common_k", "c": "split", "d": "eight_bit"}
    experiment = Experiment(
        name="board",
        title="Board",
        rounds=3,
        seeds=[0, 1],
        base={"dataset": str(folder), **small.SETTINGS, "uplink.ratio": 0.5},
        curves=[{"label": label, "scheme": scheme} for label, scheme in schemes.items()],
        figures=[{"name": "board", "title": "Board", "kind": "leaderboard"}],
    )
    results, begun = compute([experiment], tmp_path / "out", workers=1)
    heading, *rows = leaderboard_rows(Results(results).of(begun[0]))
    assert heading == HEADING
    found = {row[0]: dict(zip(HEADING, row, strict=True)) for row in rows}
    size = small.SIDE**2 * small.CLASSES + small.CLASSES
    symbols = str(round(size / 2))
    assert next(iter(found)) == "error-free" and found["error-free"]["points lost"] == "-"
    assert {found[label]["symbols"] for label in "ab"} == {symbols}
    assert found["b"]["bits"] == f"{32 * int(symbols):,}" and found["b"]["carried"] == f"{4 * size:,}"
    assert found["c"]["symbols"] == found["c"]["carried"] == "-"
    blocks = -(-int(found["d"]["bits"].replace(",", "")) // 8) - size  # bytes beside one for a coefficient
    assert blocks == 2 * -(-size // 256)
    assert int(found["a"]["told"].replace(",", "")) > 2 * int(symbols)


def test_kept_runs_that_a_folder_lacks_stay_as_long_as_they_are_planned(tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    from airfeel.lab.api import compute
    from airfeel.lab.plan import Experiment

    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "docs" / "results")
    import keep

    monkeypatch.setattr(keep, "HERE", tmp_path / "kept")
    for name in ("numbers", "tables", "figures"):
        (tmp_path / "kept" / name).mkdir(parents=True)
    (tmp_path / "kept" / "claims.json").write_text("[]")
    base = {"dataset": str(small.write_folder(tmp_path / "data")), **small.SETTINGS}
    board = {"name": "bench-paper", "title": "Leaderboard", "kind": "leaderboard"}

    def kept(out, ratios, schemes):
        """Keep what a folder has computed of an experiment that plans more."""
        whole = Experiment(
            name="bench-paper",
            title="Board",
            rounds=3,
            seeds=[0],
            base=base,
            variants=[{"label": f"{ratio}", "uplink.ratio": ratio} for ratio in ratios],
            curves=[{"label": scheme, "scheme": scheme} for scheme in ("split", "eight_bit")],
            figures=[board],
        )
        compute([whole], tmp_path / out, workers=1)
        for run in (tmp_path / out / "runs").iterdir():
            if not run.name.startswith(schemes):
                (run / "summary.json").unlink()
        keep.main(tmp_path / out, "bench-paper")
        table = (tmp_path / "kept" / "tables" / "bench-paper.md").read_text()
        return table, {run.folder.name.split("-")[0] for run in keep.kept_runs("bench-paper")}

    first, _ = kept("first", [0.5, 0.25], ("split", "eight_bit"))
    again, schemes = kept("second", [0.5, 0.25], "split")
    assert again == first and schemes == {"split", "eight_bit"}
    fewer, _ = kept("third", [0.5], "split")
    assert "0.25" in first and "0.25" not in fewer and "eight_bit | 0.5" in fewer
