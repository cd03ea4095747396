"""The example app: in one process with a small data set, and as a deployment of real processes."""

import tomllib

import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import flower_apps as apps
import small
from airfeel.flower.local import LocalGrid

SWITCHES = [{"scheme": name} for name in ("fedavg", "error_free", "common_k", "tsa_ga", "scheduled")]
SWITCHES += [{"compression": 25.0}, {}]


@pytest.fixture
def app():
    """The app's own modules."""
    with apps.example() as modules:
        yield modules


def settings(folder, **given):
    size = {"dataset": str(folder), "samples": 40, "batch-size": 10, "rounds": 3, "learning-rate": 0.05}
    return apps.example_settings(**size, **given)


@pytest.mark.torch
@pytest.mark.parametrize("switch", SWITCHES, ids=lambda switch: str(next(iter(switch.values()), "as it is")))
def test_the_example_trains_with_every_switch(app, tmp_path, switch):
    client_app, server_app, _ = app
    config = settings(small.write_folder(tmp_path / "data"), ratio=0.2, **switch)
    result, strategy = server_app.train(LocalGrid(client_app.app, 3, run_config=config), config)
    found = result.evaluate_metrics_serverapp
    assert found[3]["loss"] < found[0]["loss"]
    assert sorted(result.train_metrics_clientapp) == [1, 2, 3]
    if switch != {"scheme": "fedavg"}:
        assert all(len(report.heard) == 3 for report in strategy.rounds)


def test_the_app_does_not_ask_an_index_for_airfeel():
    """airfeel is installed beside, by hand: an app that named it could not be run before it is published."""
    project = tomllib.loads((apps.EXAMPLE / "pyproject.toml").read_text())["project"]
    assert not any("airfeel" in wanted for wanted in project["dependencies"])
    assert "pip install '.[flower,torch]'" in (apps.EXAMPLE / "README.md").read_text()
