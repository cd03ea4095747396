"""Every command and every block of code that the pages show can be carried out as it stands there."""

import sys

import pytest

from documents import ROOT, LaterPage, Page, blocks

PAGES = [
    "README.md",
    "docs/index.md",
    "docs/guide.md",
    "docs/recipes.md",
    "docs/experiments.md",
    "docs/data.md",
    "docs/planning.md",
    "docs/running.md",
    "docs/extending.md",
]
LATER = sorted(
    name
    for path in [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    if (name := path.relative_to(ROOT).as_posix()) not in PAGES and "_build" not in name
    if any(language in ("console", "python", "toml") for _, language, _ in blocks(path))
)

TRIED = [pytest.param(name, marks=pytest.mark.long) for name in PAGES]  # whose commands are carried out


def test_no_page_is_long():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/results").glob("*.md")]
    assert {path.name: len(text) for path in pages if len(text := path.read_text()) > 12_000} == {}


@pytest.mark.parametrize("name", [*TRIED, *LATER])
def test_every_block_works(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRFEEL_DEBUG", "1")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    before = set(sys.modules)
    page = Page(name) if name in PAGES else LaterPage(name)
    try:
        for line, language, text in blocks(ROOT / name):
            page.run(line, language, text)
    finally:
        for module in set(sys.modules) - before:
            if (tmp_path / f"{module}.py").exists():
                del sys.modules[module]
    if page.skipped:
        pytest.skip(f"all but what needs {', '.join(sorted(set(page.skipped)))}")
