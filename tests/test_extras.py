"""A part that is not installed: the sentence names packages and a command that works in a clone."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import small
from airfeel._extras import missing

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
HIDE = (
    "import sys\nfor name in {names}: sys.modules[name] = None\nfrom airfeel.__main__ import start\nstart()"
)


@pytest.mark.parametrize("extra", ["torch", "report", "dask", "sigmf"])
def test_the_command_asks_for_what_the_project_declares(extra):
    sentence = str(missing(extra, "this needs"))
    words = shlex.split(sentence.partition(": ")[2])
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert {re.sub(r"\s", "", word) for word in words[4:]} == {
        re.sub(r"\s", "", one) for one in EXTRAS[extra]
    }
    assert "airfeel" not in " ".join(words[4:])  # which no registry is sure to have


@pytest.mark.parametrize(
    ("names", "arguments", "words"),
    [
        (["altair"], ["report", "."], ["figures need altair", " -m pip install "]),
        (["altair"], ["demo"], ["figures need altair", " -m pip install "]),
        (["distributed"], ["reproduce", "fig2", "--engine", "tcp://localhost:1"], ["distributed"]),
        (["sigmf"], ["receive", "heard.sigmf-meta"], ["recordings need sigmf", " -m pip install "]),
        (["torch"], ["run", "--set", "model.kind=mlp", "--set", "rounds=1"], ["torch", " -m pip install "]),
    ],
)
def test_the_command_line_says_it_in_one_sentence(data, tmp_path, names, arguments, words):
    (tmp_path / "heard.sigmf-meta").write_text("{}")
    settings = ["--set", f"dataset={data}"] if arguments[0] == "run" else []
    code = HIDE.format(names=names)
    done = small.run([sys.executable, "-c", code, *arguments, *settings], cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("airfeel: ")
    assert all(word in last for word in words), last
    assert not list(tmp_path.rglob("summary.json"))  # nobody trains first
