"""What the README shows is what one gets."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def block(mark, language):
    return re.search(rf"<!-- {mark} -->\n```{language}\n(.*?)```", README, flags=re.S).group(1)


def test_the_example_runs_and_does_what_the_text_says(tmp_path):
    code = block("example", "python")
    assert len([line for line in code.splitlines() if line and not line.startswith("import")]) <= 12
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=True
    )
    errors = [float(line.split()[1]) for line in done.stdout.splitlines()]
    assert len(errors) == 20
    assert errors[0] > -4
    assert max(errors[9:]) < -20


def test_the_example_is_the_file_in_examples():
    assert block("example", "python") in (ROOT / "examples" / "receive.py").read_text()


@pytest.mark.parametrize("page", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (ROOT / target).exists(), target


def test_commands_and_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    pages = README + (ROOT / "CONTRIBUTING.md").read_text()
    for target in set(re.findall(r"^\$ make ([\w-]+)|`make ([\w-]+)`", pages, flags=re.M)):
        assert re.search(rf"^{''.join(target)}:", makefile, flags=re.M), target
