"""The package as a newcomer meets it: light to import, whole when installed from a wheel, documented."""

import importlib.util
import inspect
import os
import re
import shutil
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import airfeel
import small

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "distributed", "dask", "altair", "vl_convert", "flwr")
SLOW = ("scipy", "pydantic", "cyclopts", *HEAVY)  # together about a second
ONLY_ASKED = ("numpy", "scipy", "pydantic", *HEAVY)  # help and list do not wait for what computes


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import airfeel", SLOW),
        ("from airfeel import *", HEAVY),
        ("import airfeel.cli; airfeel.cli.main(['--quiet', 'run', '--help'])", ONLY_ASKED),
        ("import airfeel.cli; airfeel.cli.main(['list'])", ONLY_ASKED),
    ],
)
def test_nothing_is_imported_before_it_is_needed(statement, absent):
    code = f"import sys; {statement}; print([m for m in {absent!r} if m in sys.modules])"
    assert output([sys.executable, "-c", code]).splitlines()[-1] == "[]"


def test_package_offers_its_names_and_modules_and_nothing_else():
    code = "import airfeel; print(airfeel.bounds.__name__, [name in globals() for name in airfeel.__all__])"
    code = f"from airfeel import *; {code}"
    shown = output([sys.executable, "-c", code]).strip()
    assert shown == f"airfeel.bounds {[True] * len(airfeel.__all__)}"
    assert set(airfeel.__all__) <= set(dir(airfeel))
    with pytest.raises(AttributeError, match="TSAGAA"):
        airfeel.TSAGAA  # noqa: B018


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == airfeel.__version__
    assert f"version: {airfeel.__version__}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {airfeel.__version__.removesuffix('.dev0')} " in (ROOT / "CHANGELOG.md").read_text()


def test_lowest_versions_are_the_declared_ones():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = project["dependencies"] + extras["report"] + extras["dask"]
    lowest = dict(re.match(r"([\w-]+)>=([\d.]+)", text).groups() for text in declared)
    pinned = dict(re.findall(r"^(.+)==(.+)$", (ROOT / "constraints-lowest.txt").read_text(), flags=re.M))
    for name, version in lowest.items():
        assert pinned[name] == version + ".0" * (pinned[name].count(".") - version.count(".")), name


def test_everything_pinned_but_pytorch_has_a_hash():
    pinned = re.findall(r"^[\w.-]+==.*", (ROOT / "constraints.txt").read_text(), flags=re.M)
    hashes = (ROOT / ".ci/hashes.txt").read_text()
    known = re.findall(r"^(\S+) --hash=sha256:[0-9a-f]{64}$", hashes, flags=re.M)
    assert [line for line in pinned if not line.startswith("torch==")] == known


def test_public_names_are_few_and_documented():
    assert len(airfeel.__all__) <= 32  # receivers, the seams of own parts, and training
    for name in airfeel.__all__:
        documentation = inspect.getdoc(getattr(airfeel, name))
        assert documentation, name
        assert not documentation.startswith(f"{name}("), f"{name} has only the docstring that dataclass wrote"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """What is published beside the wheel, made without one."""
    pytest.importorskip("hatchling", reason="needs hatchling, as installed by make")
    folder = tmp_path_factory.mktemp("archive with a space")
    output([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], cwd=ROOT)
    return next(folder.glob("*.tar.gz"))


def output(words, **options):
    """Return what a programme prints that ends well."""
    done = small.run(words, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def made_wheel(source, folder):
    """Return the wheel that pip makes of a folder or an archive."""
    options = ["--no-deps", "--quiet", "--disable-pip-version-check", "--wheel-dir", folder]
    if importlib.util.find_spec("hatchling"):  # as installed by make; without it, pip fetches it
        options.append("--no-build-isolation")
    output([sys.executable, "-m", "pip", "wheel", *options, source], cwd=folder)
    return next(folder.glob("*.whl"))


@pytest.mark.long
def test_the_archive_has_what_building_and_testing_take(archive):
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "constraints.txt", "PKG-INFO"} <= names
    assert {"src/airfeel/py.typed", "tests/conftest.py", "docs/conf.py", ".ci/run"} <= names
    assert not [name for name in names if re.search(r"(^|/)(\.venv|dist|_build|\.mypy_cache)/", name)]


@pytest.mark.long
def test_the_archive_gives_the_same_package_as_the_clone(archive, wheel, tmp_path):
    made, given = (
        {item.filename: item.CRC for item in zipfile.ZipFile(path).infolist()}
        for path in (made_wheel(archive, tmp_path), wheel)
    )
    assert made == given


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return made_wheel(ROOT, tmp_path_factory.mktemp("wheel with a space"))


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "airfeel/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"airfeel", f"airfeel-{airfeel.__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".npz", "-ubyte", ".gz", ".pyc"))]


def test_the_readme_of_the_wheel_links_to_places_that_any_page_reaches(wheel):
    (name,) = (name for name in zipfile.ZipFile(wheel).namelist() if name.endswith("METADATA"))
    text = zipfile.ZipFile(wheel).read(name).decode()
    targets, ours = (re.findall(r"\]\(([^)]+)\)", of) for of in (text, (ROOT / "README.md").read_text()))
    assert len(targets) == len(ours) and all(target.startswith("https://") for target in targets)
    for target in ours:
        assert any(found.endswith(target.removeprefix("docs/")) for found in targets), target


@pytest.mark.long
def test_wheel_works_in_an_empty_folder_with_its_own_venv(wheel, tmp_path):
    """Installed by pip alone into its own venv; the dependencies are those of the tests."""
    home = tmp_path / "elsewhere with a space"
    output([sys.executable, "-m", "venv", home])
    install = ["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check", wheel]
    output([home / "bin" / "python", *install])
    site = next(home.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text("\n".join(p for p in sys.path if p.endswith("site-packages")))
    empty = tmp_path / "empty"
    empty.mkdir()
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

    def call(program, *arguments):
        return output([home / "bin" / program, *arguments], cwd=empty, env=clean)

    assert call("python", "-c", "import airfeel; print(airfeel.__file__)").strip().startswith(str(site))
    assert call("airfeel", "--version").strip() == airfeel.__version__
    assert "mnist" in call("airfeel", "list")
    assert list(empty.iterdir()) == []


def test_public_names_are_in_the_reference():
    reference = (ROOT / "docs" / "api.md").read_text()
    shown = set(re.findall(r"^\.\. auto\w+:: ([\w.]+)$", reference, flags=re.M))
    assert {f"airfeel.{name}" for name in airfeel.__all__} <= shown
    bare = not all(map(importlib.util.find_spec, ("flwr", "torch")))
    for name in shown:
        target = airfeel
        try:
            for part in name.split(".")[1:]:
                target = getattr(target, part, None) or importlib.import_module(f"{target.__name__}.{part}")
        except ImportError:
            assert bare, name  # of an extra: make test-all has them all
            continue
        assert inspect.getdoc(target), name


@pytest.mark.parametrize(
    ("failing", "sentence"),
    [
        ("version_info", "airfeel needs Python 3.11 or newer"),
        (
            "import venv",
            "This Python has no venv module: install it (on Debian and Ubuntu: apt install python3-venv).",
        ),
    ],
)
def test_make_says_what_is_missing(tmp_path, failing, sentence):
    """A Python that fails at one question, as an old one or Debian's without python3-venv does."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *"{failing}"*) exit 1;; esac\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    shutil.copy(ROOT / "Makefile", tmp_path)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    done = small.run(["make", f"PYTHON={python}", "test"], cwd=tmp_path, env=clean)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert not (tmp_path / ".venv").exists()
