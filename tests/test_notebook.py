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
    assert list(folder.iterdir()) == []
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.long
def test_progress_ends_with_the_last_round_of_every_scheme(outputs):
    lines = [output.data["text/plain"] for output in outputs[1]]
    assert [line.split(":")[0] for line in lines] == ["error_free", "tsa_ga", "turbo_cs"]
    assert all("round 60 of 60" in line for line in lines)


@pytest.mark.long
def test_memory_gains_accuracy_and_costs_no_symbol(outputs):
    text = "".join(output.text for output in outputs[2])
    found = dict(re.findall(r"^(\w+) +accuracy ([\d.]+)%", text, flags=re.M))
    assert float(found["turbo_cs"]) < float(found["tsa_ga"]) <= float(found["error_free"]) + 2
    assert len(set(re.findall(r"after ([1-9][\d,]*) symbols", text))) == 1


@pytest.mark.long
def test_pictures_are_inline(outputs):
    pictures = [output.data.get("image/svg+xml", "") for cell in outputs[3:] for output in cell]
    assert len(pictures) == 2
    assert all(picture.startswith("<svg") and "<path" in picture for picture in pictures)


def test_it_is_stored_without_outputs():
    cells = nbformat.read(PATH, as_version=4).cells
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
