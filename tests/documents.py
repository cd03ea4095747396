"""The blocks of a page of documentation, and what it takes to try each of them.

Files that blocks name in their first line are written, so that later commands find them. Commands are called
with their own words, and shorter where they would take long: a training makes two rounds, a campaign of many
rounds is planned only (``--dry-run``). Of pages that a reader comes to later, commands are only read.

A block that needs an optional package is tried too: where it ends because that is not installed, at an
import of its own, of a module it names or of a part it asks for, it counts as skipped.
"""

import ast
import contextlib
import importlib
import importlib.util
import re
import shlex
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import small
from airfeel.cli import app
from airfeel.commands import load
from airfeel.lab.plan import read_experiment, select

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
OPTIONAL = {re.match(r"[\w-]+", wanted)[0] for extra in EXTRAS.values() for wanted in extra}
ELSEWHERE = ("dask_jobqueue",)  # only where there is a cluster of that kind
PRETEND = ("results/runs/", "-0123456789ab")  # how pages write the folder of some run
ANY_SWEEP = 'seeds = [0]\nbase.rounds = 300\ngrid.scheme = ["tsa_ga", "common_k"]\n'
FEW = 200  # rounds that a sweep may have and still be carried out


def blocks(path):
    """Return (line, language, text) of every fenced block."""
    text = path.read_text()
    found = re.finditer(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", text, flags=re.S | re.M)
    return [(text.count("\n", 0, one.start()) + 1, one.group(1), one.group(2)) for one in found]


def absent(error):
    """Return the optional package for want of which something failed; None: it failed for another reason."""
    while error is not None:
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ImportError) and package in OPTIONAL and not importlib.util.find_spec(package):
            return package
        error = error.__cause__
    return None


class Page:
    """Tries the blocks of one page in their order, in the working folder."""

    def __init__(self, name):
        self.name = name
        self.skipped, self.tried = [], []

    def run(self, line, language, text):
        """Try one block; a line that fails is told with its place."""
        if language in ("text", "bibtex", "") or language.startswith("{"):
            return
        try_it = getattr(self, f"try_{language}", None)
        assert try_it, f"{self.name}:{line}: nobody knows how to try a block of {language!r}"
        try:
            try_it(line, text)
        except BaseException as error:
            error.add_note(f"in the block at {self.name}:{line}")
            raise

    @contextlib.contextmanager
    def unless_absent(self):
        """Note what is not installed, and go on."""
        try:
            yield
        except Exception as error:
            package = absent(error)
            if package is None:
                raise
            self.skipped.append(package)

    def try_python(self, line, text):
        if any(word in text for word in ELSEWHERE):
            ast.parse(text)
            return
        path = Path(named_in(text, ".py") or f"block_{line}.py")
        path.write_text(text)
        with self.unless_absent():
            call_module(path)

    def try_toml(self, line, text):
        tree, path = tomllib.loads(text), Path(named_in(text, ".toml") or f"block_{line}.toml")
        path.write_text(text)
        if "base" in tree or "grid" in tree:
            assert read_experiment(path).runs()
        elif "project" not in tree:
            airfeel("config", str(path))

    def try_console(self, line, text):
        for command in re.findall(r"^\$ (.*?)(?:\s+#.*)?$", text.replace("\\\n", " "), flags=re.M):
            program, *words = shlex.split(command)
            with self.unless_absent():
                for module in re.findall(r"=(\w+):\w+", command):
                    importlib.import_module(
                        module
                    )  # the command would tell in its own sentence what is absent
                getattr(self, f"call_{program.replace('-', '_')}")(words)

    def call_airfeel(self, words):
        target = None
        if ">" in words:
            words, target = words[: words.index(">")], words[-1]
        if words[0] == "sweep" and not Path(words[1]).exists():  # a name that stands for the reader's own
            Path(words[1]).write_text(ANY_SWEEP)
        if words[0] == "report" and not Path(words[1], "runs").exists():  # planned only
            airfeel("run", "--set", "rounds=2", "--out", words[1])
        words = shortened([some_run(word) for word in words])
        if words[0] == "reproduce" and words in self.tried:
            return
        self.tried.append(words)
        done = airfeel(*words)
        if words[0] == "plan" and "--dry-run" not in words:
            assert re.search(r" \(\d+ trial runs\)$", done.stdout.splitlines()[0]), done.stdout
        if target:
            Path(target).write_text(done.stdout)

    def call_make(self, words):
        makefile = (ROOT / "Makefile").read_text()
        for target in words:
            assert re.search(rf"^{target}:", makefile, flags=re.M), target

    def call_pip(self, words):
        for one in re.findall(r"\[(.*?)\]", " ".join(words)):
            assert set(one.split(",")) <= set(EXTRAS)

    def call_dask(self, words):
        if importlib.util.find_spec("distributed"):
            assert words[0] in {entry.name for entry in entry_points(group="dask_cli")}

    def call_python(self, words):
        found = [folder / words[0] for folder in (ROOT, ROOT / "examples") if (folder / words[0]).exists()]
        programme = found[0].read_text()
        for option in (word for word in words if word.startswith("--")):
            assert f'"{option}"' in programme, f"{words[0]} has no option {option}"

    def call_jupyter(self, words):
        self.call_python(words[1:])


class LaterPage(Page):
    """Reads the commands of a page without carrying them out: words, options, settings and figures exist."""

    def try_python(self, line, text):
        if re.search(r"\bapp\b", text):  # a part of the reader's own programme: what it imports is there
            ast.parse(text)
            text = "\n".join(one for one in text.splitlines() if one.startswith(("import ", "from ")))
        super().try_python(line, text)

    def call_airfeel(self, words):
        _, bound, *_ = app.parse_args(words, exit_on_error=False, print_error=False)
        if words[0] == "reproduce":
            assert select(words[1 : first_option(words)])
        if bound.arguments.get("settings"):
            load("", bound.arguments["settings"])

    def call_flower_superlink(self, words):
        """Whether these run is a test of its own, in tests/flower."""

    call_flower_supernode = call_flwr = call_flower_superlink


def named_in(text, ending):
    """Return the file name that the first line of a block gives as a comment."""
    found = re.match(rf"# ([\w-]+{re.escape(ending)})$", text.splitlines()[0])
    return found and found.group(1)


def call_module(path):
    """Run a file as a programme whose classes another process could import."""
    text = path.read_text().replace('if __name__ == "__main__":', "if True:")
    path.with_suffix(".py").write_text(text)
    sys.modules.pop(path.stem, None)
    importlib.invalidate_caches()
    with contextlib.redirect_stdout(None):
        importlib.import_module(path.stem)


def airfeel(*words):
    """Call the command and insist that it ends well; with AIRFEEL_DEBUG a mistake is raised as it is."""
    done = small.call(["airfeel", *words])
    assert done.returncode == 0, f"airfeel {shlex.join(words)}: {done.stderr[-2000:]}"
    return done


def shortened(words):
    """Return a command line that ends soon and says as much about the words in it."""
    command = next(word for word in words if not word.startswith("-"))
    if command == "run":
        far = any("cifar" in word for word in words)  # 170 MB
        return ["config", *words[1:]] if far else [*words, "--set", "rounds=2"]
    if command == "reproduce":  # all figures are planned, one is timed
        first = first_option(words)
        assert all(experiment.runs() for experiment in select(words[1:first]))
        return ["reproduce", "fig5a", *dict.fromkeys([*words[first:], "--quick", "--dry-run"])]
    if command == "sweep":
        rounds = sum(one.config.rounds for one in read_experiment(Path(words[1])).runs())
        soon = "--dry-run" in words or ("--engine" not in words and rounds <= FEW)
        return words if soon else [*words, "--dry-run"]
    if command == "plan":  # two rounds on little data, which reach no target
        words = [re.sub(r"^\d+$", "2", word) for word in words]
        few = "rounds=2", "devices.count=3", "devices.samples=50"
        return [*words, "--seeds", "2", "--workers", "1", *(word for one in few for word in ("--set", one))]
    if command == "predict":  # two rounds reach no good error; only state evolution draws samples
        other = any(word.startswith(("scheme=", PRETEND[0])) for word in words)
        few = [] if other else ["--samples", "2000"]
        return [re.sub(r"^-\d+(\.\d+)?$", "-0.5", word) for word in words] + few
    if command == "demo":
        return ["demo", "--help"]
    return ["data"] if command == "data" and words[1:] != ["mnist"] else words


def first_option(words):
    """Return where the names end and the options begin."""
    return next((place for place, word in enumerate(words) if word.startswith("-")), len(words))


def some_run(word):
    """Return a word with the folder of a run that an earlier block made in the place of a made-up one."""
    if not word.startswith(PRETEND[0]) or PRETEND[1] not in word:
        return word
    recorded = sorted(Path(PRETEND[0]).glob("*/aggregates*"))
    return str(recorded[0].parent if recorded else next(Path(PRETEND[0]).iterdir()))
