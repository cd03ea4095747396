"""The script that counts the package: it finds names with two meanings, and modules that belong elsewhere."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytest.importorskip("grimp")
SPEC = importlib.util.spec_from_file_location("count", ROOT / "tools" / "count.py")
count = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(count)


def test_it_counts_the_package(capsys):
    assert count.main([str(ROOT / "src" / "airfeel")]) == 0
    assert "longest chain of imports" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"a": "class Air: ...", "b": "class Air: ..."}, "class Air: in a.py and b.py"),
        ({"a": "from made_up_tree import b"}, "b.py (1 lines): only made_up_tree.a imports it"),
    ],
)
def test_a_fault_is_named(files, fault, tmp_path, capsys):
    folder = tmp_path / "made_up_tree"
    folder.mkdir()
    for name, text in {"__init__": "", "b": "", **files}.items():
        (folder / f"{name}.py").write_text(f"{text}\n")
    assert count.main(["--check", str(folder)]) == 1
    assert fault in capsys.readouterr().out
    assert count.main([str(folder)]) == 0  # it only counts


def test_a_part_that_a_registry_finds_is_no_fault():
    texts = {Path("part.py"): "@CHANNELS.register('wire')\nclass Wire: ...\n", Path("user.py"): ""}
    assert not count.small_modules(texts, {"made.user": {"made.part"}, "made.part": set()}, "made")
