"""The ledger of misprints: every line names a test that calls the package, or says that it is about names."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LINES = [line for line in (ROOT / "docs" / "errata.md").read_text().splitlines() if line.startswith("|")]
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in LINES[2:]]


def names_used(function, functions):
    """Return the names that a function uses, those of its module's helpers and fixtures included."""
    seen, todo = set(), {function}
    while todo:
        name = todo.pop()
        seen.add(name)
        nodes = list(ast.walk(functions[name])) if name in functions else []
        found = {node.id for node in nodes if isinstance(node, ast.Name)}
        todo |= (found | {node.arg for node in nodes if isinstance(node, ast.arg)}) - seen
    return seen


def names_of_the_package(tree):
    """Return what a module imports from airfeel, under the names it uses."""
    for node in tree.body:
        module = node.module if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else []:
            if (module or alias.name).split(".")[0] == "airfeel":
                yield alias.asname or alias.name


def test_the_ledger_is_a_table_of_five_columns():
    assert len(ROWS) >= 15
    assert {len(row) for row in ROWS} == {5}
    assert all(all(row) for row in ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_line_names_a_test_of_the_package_or_concerns_names_only(row):
    if row[-1] == "names only":
        return
    file, function = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", row[-1]).groups()
    tree = ast.parse((ROOT / "tests" / file).read_text())
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert function in functions
    assert names_used(function, functions) & set(names_of_the_package(tree))
