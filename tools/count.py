"""Count the package: lines and modules, its longest chain of imports, names with two meanings, small modules.

    python tools/count.py [--check] [SOURCE]

``SOURCE`` is the folder of a package (src/airfeel by default). With ``--check`` it prints only what must not
be, and exits with 1 if there is any: a class name that is defined in two modules, or a short module that one
other imports and that could stand there. Imports that only a type checker follows do not count.
"""

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import grimp

SHORT = 60  # lines, below which a module with one importer belongs into that
APART = "lab"  # counted apart: what carries out and shows experiments, on top of all the rest
# Seams: parts that a registry finds, and folders of files that are found by name. One importer is enough.
PART = re.compile(r"^@[A-Z]+\.register\(", re.MULTILINE)
FOLDERS = ("commands", "models", "catalogue", "exhibits", "studies")


def main(arguments: list[str] | None = None) -> int:
    """Print the counts, or what must not be; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", nargs="?", type=Path, default=Path("src/airfeel"))
    parser.add_argument("--check", action="store_true", help="print only what must not be")
    options = parser.parse_args(arguments)
    source = options.source.resolve()
    texts = {path.relative_to(source): path.read_text() for path in sorted(source.rglob("*.py"))}
    imports = read_imports(source)
    faults = [f"class {name}: in {' and '.join(where)}" for name, where in homonyms(texts).items()]
    faults += [
        f"{path} ({texts[path].count(chr(10))} lines): only {user} imports it"
        for path, user in small_modules(texts, imports, source.name).items()
    ]
    if not options.check:
        print(table(texts))
        chain = longest_chain(imports)
        print(f"\nlongest chain of imports, {len(chain)} modules:", *chain, sep="\n  ")
        rest = {m: others for m, others in imports.items() if f".{APART}" not in m}
        print(f"without {APART}: {len(longest_chain(rest))} modules")
        print()
    print(*faults or ["no class name has two meanings, and no short module has one importer"], sep="\n")
    return int(options.check and bool(faults))


def read_imports(source: Path) -> dict[str, set[str]]:
    """Return which modules of the package each module imports."""
    sys.path.insert(0, str(source.parent))
    try:
        graph = grimp.build_graph(source.name, exclude_type_checking_imports=True, cache_dir=None)
    finally:
        sys.path.remove(str(source.parent))
    return {module: set(graph.find_modules_directly_imported_by(module)) for module in graph.modules}


def table(texts: Mapping[Path, str]) -> str:
    """Return lines and modules of every package, of all, and of all but the lab."""
    lines, modules = Counter[str](), Counter[str]()
    for path, text in texts.items():
        rest = [] if path.parts[0] == APART else [f"without {APART}"]
        for row in (path.parts[0] if len(path.parts) > 1 else "(top level)", *rest, "all"):
            lines[row] += text.count("\n")
            modules[row] += 1
    ordered = sorted(lines, key=lambda row: lines[row])
    return "\n".join(f"{row:24}{modules[row]:5} modules{lines[row]:7} lines" for row in ordered)


def longest_chain(imports: Mapping[str, set[str]]) -> tuple[str, ...]:
    """Return the longest way from a module along imports; there must be no cycle."""

    @cache
    def below(module: str) -> tuple[str, ...]:
        return (
            module,
            *max((below(one) for one in sorted(imports[module]) if one in imports), key=len, default=()),
        )

    return max((below(module) for module in sorted(imports)), key=len)


def homonyms(texts: Mapping[Path, str]) -> dict[str, list[str]]:
    """Return the class names that are defined in more than one module."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in texts.items():
        for name in {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)}:
            found[name].append(str(path))
    return {name: where for name, where in sorted(found.items()) if len(where) > 1}


def small_modules(
    texts: Mapping[Path, str], imports: Mapping[str, set[str]], package: str
) -> dict[Path, str]:
    """Return the short modules that are no seam and that one module imports, with that module."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    for module, others in imports.items():
        for other in others:
            users[other].append(module)
    public = texts.get(Path("__init__.py"), "")  # a public name is imported by everybody
    found = {}
    for path, text in texts.items():
        name = ".".join(path.with_suffix("").parts)
        seam = path.stem == "__init__" or path.parent.name in FOLDERS or PART.search(text)
        seam = seam or f'"{name}"' in public
        using = users[f"{package}.{name}"]
        if text.count("\n") < SHORT and len(using) == 1 and not seam:
            found[path] = using[0]
    return found


if __name__ == "__main__":
    sys.exit(main())
