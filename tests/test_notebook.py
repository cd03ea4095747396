"""The notebook of the first hour, carried out by a real kernel in an empty folder."""

import re
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbclient and ipykernel")
nbclient = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
pytest.importorskip("vl_convert", reason="needs the extra report")

PATH = Path(__file__).parents[1] / "examples" / "first_hour.ipynb"
LONGEST = 600  # seconds for one cell, on a machine that has much else to do


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    """What every cell with code gave, in order."""
    notebook, folder = nbformat.read(PATH, as_version=4), tmp_path_factory.mktemp("notebook")
    where = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(notebook, timeout=LONGEST, kernel_name="python3", resources=where).execute()
    assert [path.name for path in folder.iterdir()] == ["results"]
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.long
def test_progress_ends_with_the_last_round_of_every_scheme(outputs):
    said = "".join(output.get("text", "") for output in outputs[1])
    assert said.count("round 60/60") >= 3


@pytest.mark.long
def test_our_own_scheme_is_nearest_to_a_perfect_channel_with_as_many_symbols(outputs):
    text = "".join(output.text for output in outputs[2])
    found = dict(re.findall(r"^(\w+) +accuracy ([\d.]+)%", text, flags=re.M))
    assert float(found["tsa_ga"]) < float(found["scheduled"]) <= float(found["dense"]) + 1
    assert len(set(re.findall(r"after ([1-9][\d,]*) symbols", text))) == 1


@pytest.mark.long
def test_runs_draw_themselves_and_are_a_table(outputs):
    (picture,) = outputs[3]
    assert picture.data["image/svg+xml"].startswith("<svg") and "<path" in picture.data["image/svg+xml"]
    (table,) = outputs[4]
    assert all(scheme in table.data["text/html"] for scheme in ("dense", "scheduled", "tsa_ga"))


@pytest.mark.long
def test_memory_makes_the_receiver_work(outputs):
    errors = [float(error) for error in re.findall(r": (-?[\d.]+) dB", outputs[5][0].text)]
    assert errors[0] > -4 and errors[-1] < -20


def test_it_is_stored_without_outputs():
    cells = nbformat.read(PATH, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
