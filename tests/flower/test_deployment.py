"""A real deployment on this machine: a SuperLink and three SuperNodes; one is killed, one restarted.

Slow: minutes, most of them spent waiting for the replies of a node that is gone.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import flower_apps as apps
import small
from airfeel.flower.local import LocalGrid
from airfeel.flower.mod import ClientMemory
from airfeel.storage import load_state

NODES = 3
PATIENCE = 1800  # seconds until a test is given up that would otherwise hang
TIMEOUT = 180  # of a round: on a busy machine, three clients that import PyTorch took more than a minute
HOME = 'default = "here"\n[superlink.here]\naddress = "127.0.0.1:{port}"\ninsecure = true\n'

pytestmark = [pytest.mark.slow, pytest.mark.torch]


class Deployment:
    """Processes of Flower in a folder of their own, each with a log and a process group."""

    def __init__(self, folder):
        self.folder, self.processes = folder, {}
        self.port = free_port()
        (folder / "home").mkdir()
        (folder / "home/config.toml").write_text("[superlink]\n" + HOME.format(port=self.port))
        shutil.copytree(apps.EXAMPLE, folder / "app")
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = os.environ | quiet | {"FLWR_HOME": str(folder / "home"), "PATH": path}

    def begin(self, name, *words):
        with (self.folder / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(
                words, stdout=log, stderr=log, env=self.environment, cwd=self.folder, start_new_session=True
            )

    def begin_all(self):
        words = ("--insecure", "--disable-runtime-dependency-installation", "--host", "127.0.0.1")
        self.begin("link", "flower-superlink", *words, "--port", str(self.port))
        self.wait_for("link", r"startup complete")
        for number in range(NODES):
            self.begin_node(number)
        for number in range(NODES):
            self.wait_for(f"node-{number}", r"SuperNode ID")

    def begin_run(self, **settings):
        words = (
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
            for name, value in settings.items()
        )
        self.begin("run", "flwr", "run", "app", "here", "--stream", "--run-config", " ".join(words))

    def begin_node(self, number):
        where = ("--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        config = f'partition-id={number} num-partitions={NODES} airfeel-memory="{self.memory(number)}"'
        self.begin(f"node-{number}", "flower-supernode", "--insecure", *where, "--node-config", config)

    def memory(self, number):
        return self.folder / f"memory-{number}.npz"

    def kill(self, name):
        """End a process and its children at once, as a power cut would."""
        process = self.processes.pop(name)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=600)

    def end(self):
        """End everything: Flower starts some processes in sessions of their own, which outlive it."""
        for name in list(self.processes):
            self.kill(name)
        last = time.monotonic() + PATIENCE
        while left := left_with(f"FLWR_HOME={self.environment['FLWR_HOME']}"):
            assert time.monotonic() < last, f"these processes cannot be ended: {left}"
            for number in left:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            time.sleep(0.1)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, name, pattern):
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.log(name)):
            assert time.monotonic() < end, f"{pattern} did not come:\n{self.log(name)[-3000:]}"
            ended = self.processes[name].poll()
            assert ended is None or re.search(pattern, self.log(name)), self.log(name)[-3000:]
            time.sleep(0.2)


@pytest.fixture
def deployment(tmp_path):
    made = Deployment(tmp_path)
    yield made
    made.end()


def left_with(setting):
    """Return the ids of the processes that live and have a setting in their environment: their parent's."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is not ours
            if setting.encode() in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_training_goes_on_when_one_is_killed_and_another_restarted(deployment, tmp_path):
    data = small.write_folder(tmp_path / "data")
    deployment.begin_all()
    given = {"scheme": "common_k", "ratio": 0.2}
    deployment.begin_run(dataset=str(data), samples=40, rounds=5, timeout=float(TIMEOUT), **given)

    deployment.wait_for("run", r"airfeel round 1: 3 of 3 heard")
    before = load_state(deployment.memory(2))
    deployment.kill("node-1")  # for good
    deployment.kill("node-2")
    deployment.begin_node(2)  # with the file of its error memory, and a new id
    deployment.wait_for("run", r"Strategy execution finished")

    log = deployment.log("run")
    rounds = [int(found) for found in re.findall(r"airfeel round (\d): \d of \d heard", log)]
    assert rounds == [1, 2, 3, 4, 5]
    assert re.search(r"airfeel round \d: node \d+ (did not answer|failed)", log)
    assert "came back as other nodes" in log
    assert int(re.findall(r"airfeel round 5: (\d) of", log)[0]) == 2
    after = load_state(deployment.memory(2))
    assert isinstance(after, ClientMemory)
    assert (after.client, after.training) == (before.client, before.training)
    assert load_state(deployment.memory(0)).round == 5
    assert load_state(deployment.memory(1)).round < 5


def test_a_deployment_equals_the_same_training_in_one_process(deployment, tmp_path):
    """To the last bit, both directions in few bits: states are those that the servers keep."""
    import torch

    given = {"dataset": str(small.write_folder(tmp_path / "data")), "samples": 40, "rounds": 3}
    given |= {"scheme": "scheduled", "ratio": 0.2, "downlink": 4, "timeout": float(TIMEOUT)}
    deployment.begin_all()
    deployment.begin_run(**given, checkpoint=str(tmp_path / "deployed.npz"))
    deployment.wait_for("run", r"Strategy execution finished")
    assert "airfeel round 3: 3 of 3 heard" in deployment.log("run")

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as the processes have
    config = apps.example_settings(**given, checkpoint=str(tmp_path / "here.npz"))
    with apps.example() as (client_app, server_app, _):
        server_app.train(LocalGrid(client_app.app, NODES, run_config=config), config)
    torch.set_num_threads(threads)
    deployed, here = (load_state(tmp_path / f"{name}.npz") for name in ("deployed", "here"))
    assert np.array_equal(deployed.theta, here.theta) and deployed.round == here.round == 3
