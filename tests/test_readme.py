"""What the README shows is what one gets."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import small
from airfeel.commands.runs import _DEMO
from airfeel.lab.plan import shipped
from documents import blocks

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def demo():
    return re.search(r"<!-- demo -->\n```text\n(.*?)```", README, flags=re.S).group(1)


def test_it_is_short():
    assert len(README) < 6000
    shown = [text for _, language, text in blocks(ROOT / "README.md") if language == "python"]
    assert len(shown) == 3
    assert max(len([line for line in text.splitlines() if line]) for text in shown) < 10


def test_the_demo_it_shows_is_the_one_there_is():
    said = demo().replace("\n", " ")
    for name in _DEMO:
        experiment = shipped(name)
        assert f"{experiment.title}: " in said
        assert all(demo().count(f"\n{curve['label']}  ") == len(_DEMO) for curve in experiment.curves)


@pytest.mark.slow
def test_the_demo_prints_what_it_shows(tmp_path):
    """Word for word, and with the same numbers but for what another processor does to the last of them."""
    done = small.run([sys.executable, "-m", "airfeel", "--quiet", "demo", "--out", str(tmp_path)])
    assert done.returncode == 0, done.stderr
    said = done.stdout.partition("\nTo try next")[0].replace(str(tmp_path), "results/demo")
    number = r"-?\d+\.\d+"
    shown, found = (re.sub(r"\s+", " ", text).strip() for text in (demo(), said))
    assert re.sub(number, "x", found) == re.sub(number, "x", shown)
    numbers = [[float(one) for one in re.findall(number, text)] for text in (shown, found)]
    np.testing.assert_allclose(*numbers, atol=0.5)


def test_the_table_of_losses_is_made_of_the_kept_numbers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    study = importlib.import_module("study_field")
    cells = [list(study.CELLS)[place] for place in (0, 1, 3, 2)]  # the fifth of fifty before the half of ten
    columns = [(scheme, factor) for factor in (10, 25, 100) for scheme in ("scheduled, own rate", "ScaleCom")]
    rows = re.findall(r"^\| (?:every|a fifth|half).*$", README, flags=re.M)
    assert len(rows) == len(cells)
    for row, cell in zip(rows, cells, strict=True):
        told = [word.replace("*", "").split(" ± ") for word in row.split(" | ")[1:]]
        for words, (scheme, factor) in zip(told, columns, strict=True):
            lost = study.words(study.gaps(study.known(None), cell, scheme, factor, study.SEEDS))
            for word, number in zip(words, lost.split(" ± "), strict=len(words) == 2):
                last = 10 ** -len(word.rstrip(" |").partition(".")[2])  # the digit shown last
                assert abs(float(word.rstrip(" |")) - float(number)) < 0.51 * last, (row, lost)


def test_the_example_of_a_receiver_does_what_its_text_says(tmp_path):
    path = ROOT / "examples" / "receive.py"
    done = subprocess.run(
        [sys.executable, path], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    errors = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(errors) == 20
    assert errors[0] > -4
    assert max(errors[9:]) < -20


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (ROOT / target).exists(), target


def test_commands_and_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    pages = README + (ROOT / "CONTRIBUTING.md").read_text()
    for target in set(re.findall(r"^\$ make ([\w-]+)|`make ([\w-]+)`", pages, flags=re.M)):
        assert re.search(rf"^{''.join(target)}:", makefile, flags=re.M), target
