"""The recipes of CONTRIBUTING.md, followed from outside the tree: one file, and the command of its row."""

import re
import tomllib
from pathlib import Path

import pytest

import small
from airfeel.registry import DATASETS, SEAMS

ROOT = Path(__file__).parent.parent
ROW = re.compile(r"\| ([\w ]+) \| `(.+?)/mine\.py` \| .* \| (.+?) \| `airfeel run --set ([\w.]+)=mine` \|")
RECIPES = {
    row[1]: row for row in map(ROW.fullmatch, (ROOT / "CONTRIBUTING.md").read_text().splitlines()) if row
}
REGISTRIES = {registry.key: registry for registry in (DATASETS, *SEAMS.values())}

HEAD = "from dataclasses import dataclass\n\nimport numpy as np\n\nimport airfeel as af\n"
EXAMPLES = {
    "scheme": "own_scheme:Largest",
    "channel": "own_channel:PathLoss",
    "model": "own_task:HiddenLayer",
    "data set": "own_data:stripes",
}
PARTS = {
    "power policy": """
from airfeel.radio.power import EqualPower

@dataclass(frozen=True)
class Mine(EqualPower):
    strength: float = af.option(0.5, "share of P that is spent")

    def alpha(self, demand, ledger):
        alpha = EqualPower.alpha(self, demand, ledger)
        return None if alpha is None else self.strength * alpha
""",
    "partition": """
@dataclass(frozen=True)
class Mine:
    strength: int = af.option(1, "distance of the samples of a device")

    def draw(self, labels, sizes, seed, pool=None):
        return tuple(np.arange(size) * self.strength for size in sizes)
""",
    "server optimizer": """
from airfeel.learning.optimizers import ServerState

@dataclass(frozen=True)
class Mine:
    strength: float = af.option(0.1, "length of a step")

    def init(self, size):
        return ServerState(0, np.zeros(0), np.zeros(0))

    def update(self, state, theta, aggregate, rate):
        return theta - self.strength * rate * np.sign(aggregate), state
""",
    "local training": """
@dataclass(frozen=True)
class Mine:
    strength: float = af.option(0.5, "of the gradient")

    def accumulated_gradient(self, task, theta, samples, rate, seed, round, device):
        return self.strength * task.gradient(theta, samples)
""",
}


def test_there_is_a_recipe_for_every_kind_of_part():
    assert RECIPES.keys() == PARTS.keys() | EXAMPLES.keys()
    assert {row[4] for row in RECIPES.values()} == REGISTRIES.keys()
    for row in RECIPES.values():
        assert f"airfeel.{row[2].replace('/', '.')}" == REGISTRIES[row[4]].home
        for place in re.findall("`(.+?)`", row[3]):
            assert (ROOT / "tests" / place).exists()


@pytest.mark.parametrize("kind", RECIPES)
def test_a_part_of_the_recipe_runs_by_its_command(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, ROOT / "examples"):
        monkeypatch.syspath_prepend(str(folder))
    key, name = RECIPES[kind][4], EXAMPLES.get(kind) or f"recipe_{kind.replace(' ', '_')}:Mine"
    if kind in PARTS:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(HEAD + PARTS[kind])
    settings = {"scheme": "common_k", "rounds": 2, key.replace(".", "__"): name}
    settings |= {"model__features": 64, "model__classes": 4} if kind == "model" else {}
    done = small.succeed(small.command(small.write_folder(tmp_path / "data"), tmp_path / "out", **settings))
    written = tomllib.loads((Path(done.stdout.strip()) / "config.toml").read_text())
    keys = {one.rpartition(".")[2] for one in written["identity"]["keys"]}
    assert key in written["identity"]["keys"]
    assert kind == "data set" or keys & {"strength", "chance", "exponent", "hidden"}
