"""A real deployment on this machine: a SuperLink, three SuperNodes, one killed and one restarted.

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

import pytest

pytest.importorskip("flwr", reason="needs Flower (make flower)")

import small
from airfeel.flower.mod import ClientMemory
from airfeel.storage import load_state

APP = Path(__file__).resolve().parents[2] / "examples" / "flower-mnist"
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
        shutil.copytree(APP, folder / "app")
        quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "OMP_NUM_THREADS": "1"}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = os.environ | quiet | {"FLWR_HOME": str(folder / "home"), "PATH": path}

    def begin(self, name, *words):
        with (self.folder / f"{name}.log").open("a") as log:
            self.processes[name] = subprocess.Popen(
                words, stdout=log, stderr=log, env=self.environment, cwd=self.folder, start_new_session=True
            )

    def begin_node(self, number):
        where = ("--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port()))
        config = f'partition-id={number} num-partitions=3 airfeel-memory="{self.memory(number)}"'
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
        last = time.monotonic() + 60
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
    words = ("--insecure", "--disable-runtime-dependency-installation", "--host", "127.0.0.1")
    deployment.begin("link", "flower-superlink", *words, "--port", str(deployment.port))
    deployment.wait_for("link", r"startup complete")
    for number in range(3):
        deployment.begin_node(number)
    for number in range(3):
        deployment.wait_for(f"node-{number}", r"SuperNode ID")
    settings = f'dataset="{data}" samples=40 rounds=5 timeout={TIMEOUT}.0 scheme="common_k" ratio=0.2'
    deployment.begin("run", "flwr", "run", "app", "here", "--stream", "--run-config", settings)

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
