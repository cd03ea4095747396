"""Every command and every block of code that the pages show can be carried out as it stands there."""

import sys

import pytest

from documents import ROOT, Page, blocks

PAGES = ["README.md", "docs/guide.md", "docs/recipes.md", "docs/experiments.md", "docs/extending.md"]

pytestmark = pytest.mark.once


@pytest.mark.parametrize("name", PAGES)
def test_every_block_works(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    before = set(sys.modules)
    page = Page(name)
    try:
        for line, language, text in blocks(ROOT / name):
            page.run(line, language, text)
    finally:
        for module in set(sys.modules) - before:
            if (tmp_path / f"{module}.py").exists():
                del sys.modules[module]
    if page.skipped:
        pytest.skip(f"all but what needs {', '.join(sorted(set(page.skipped)))}")
