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
PARTS = {
    "scheme": """
from airfeel.schemes.common_k import CommonK

@dataclass(frozen=True)
class Mine(CommonK):
    strength: float = af.option(1.0, "a number")
""",
    "channel": """
@dataclass(frozen=True)
class Mine:
    strength: float = af.option(1.0, "variance of the noise")

    def link(self, num_devices, symbols, seed, round):
        return af.Link(np.ones(num_devices, bool), np.ones(num_devices), np.ones(num_devices), self.strength)
""",
    "power policy": """
from airfeel.radio.power import EqualPower

@dataclass(frozen=True)
class Mine(EqualPower):
    strength: float = af.option(0.5, "share of P that is spent")

    def alpha(self, demand, ledger):
        alpha = EqualPower.alpha(self, demand, ledger)
        return None if alpha is None else self.strength * alpha
""",
    "model": """
from airfeel.learning.models.softmax import SoftmaxRegression

@dataclass(frozen=True)
class Mine:
    strength: float = af.option(0.1, "weight of ||theta||^2 / 2")

    def __call__(self, data):
        return SoftmaxRegression(int(np.prod(data.shape)), data.classes, l2=self.strength)
""",
    "data set": """
import small

def Mine():
    return small.arrays()
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
    assert RECIPES.keys() == PARTS.keys()
    assert {row[4] for row in RECIPES.values()} == REGISTRIES.keys()
    for row in RECIPES.values():
        assert f"airfeel.{row[2].replace('/', '.')}" == REGISTRIES[row[4]].home
        for place in re.findall("`(.+?)`", row[3]):
            assert (ROOT / "tests" / place).exists()


@pytest.mark.parametrize("kind", PARTS)
def test_a_part_of_the_recipe_runs_by_its_command(kind, tmp_path, monkeypatch):
    module, key = f"recipe_{kind.replace(' ', '_')}", RECIPES[kind][4]
    (tmp_path / f"{module}.py").write_text(HEAD + PARTS[kind])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    small.write_folder(tmp_path / "data")
    settings = {"scheme": "common_k", "rounds": 2, key.replace(".", "__"): f"{module}:Mine"}
    done = small.succeed(small.command(tmp_path / "data", tmp_path / "out", **settings))
    written = tomllib.loads((Path(done.stdout.strip()) / "config.toml").read_text())
    keys = written["identity"]["keys"]
    assert key in keys and (kind == "data set" or any(name.endswith(".strength") for name in keys))
