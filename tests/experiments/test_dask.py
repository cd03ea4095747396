"""The same sweep on a real Dask cluster over TCP on loopback, one of its two workers killed on the way."""

import contextlib
import json
import subprocess
import sys
import time

import pytest

from experiments.sweeps import finished, interrupt, sweep, write_sweep


def start(*words):
    command = [sys.executable, "-m", "dask", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_for(condition, seconds=60):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.fixture
def cluster(tmp_path):
    """A scheduler with two worker processes: its address and the processes of the workers."""
    notice = tmp_path / "scheduler.json"
    with contextlib.ExitStack() as stack:
        options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(notice))
        processes = [start("scheduler", *options)]
        stack.callback(end, processes)
        wait_for(lambda: notice.exists() and notice.read_text().endswith("}"))
        address = json.loads(notice.read_text())["address"]
        place = ("--local-directory", str(tmp_path / "spill"), "--no-dashboard")
        processes += [
            start("worker", address, "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", *place)
            for _ in range(2)
        ]
        yield address, processes[1:]


def end(processes):
    for process in reversed(processes):
        process.kill()
        process.wait()


def begin(path, out, address):
    words = [sys.executable, "-m", "airfeel", "sweep", str(path), "--out", str(out), "--engine", address]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    address, workers = cluster
    path = write_sweep(tmp_path)
    wait_for(lambda: connected(address) == 2)
    campaign = begin(path, tmp_path / "dask", address)
    wait_for(lambda: len(finished(tmp_path / "dask")) >= 2)
    wait_for(lambda: len(list((tmp_path / "dask/runs").glob("*/rounds.jsonl"))) >= 4)
    workers[0].kill()
    output, errors = campaign.communicate(timeout=120)
    assert campaign.returncode == 0, errors
    assert output == f"{tmp_path / 'dask' / 'results.csv'}\n"
    assert len(finished(tmp_path / "dask")) == 12

    assert sweep(path, tmp_path / "pool", "--workers", "2").returncode == 0
    table = (tmp_path / "pool/results.csv").read_bytes()
    assert table.count(b"\n") == 1 + 12 * 60
    assert (tmp_path / "dask/results.csv").read_bytes() == table


def test_control_c_leaves_the_cluster_usable(cluster, tmp_path):
    address, _ = cluster
    path, out = write_sweep(tmp_path), tmp_path / "out"
    wait_for(lambda: connected(address) == 2)
    campaign = begin(path, out, address)
    wait_for(lambda: len(finished(out)) >= 1)
    interrupt(campaign, out)
    # Runs under way have ended after their rounds, the others never began, and nothing is in use any more.
    assert len(list(out.glob("runs/*"))) <= len(finished(out)) + 2
    assert sweep(path, out, "--engine", address).returncode == 0
    assert len(finished(out)) == 12


def connected(address):
    """Return how many workers the scheduler has."""
    import distributed

    with distributed.Client(address) as client:
        return len(client.ncores())


def test_a_scheduler_without_workers_is_refused(tmp_path, cluster):
    address, workers = cluster
    wait_for(lambda: connected(address) == 2)
    end(workers)
    wait_for(lambda: connected(address) == 0)
    ended = sweep(write_sweep(tmp_path), tmp_path / "out", "--engine", address)
    assert ended.returncode == 2
    assert f"--engine {address}: the scheduler has no worker; start some with: dask worker" in ended.stderr


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("here", "--engine here: must be the address of a Dask scheduler, such as tcp://host:8786"),
        ("tcp://127.0.0.1:1", "--engine tcp://127.0.0.1:1: no Dask scheduler answers there"),
    ],
)
def test_a_wrong_address_is_one_sentence(tmp_path, address, sentence):
    ended = sweep(write_sweep(tmp_path), tmp_path / "out", "--engine", address)
    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
