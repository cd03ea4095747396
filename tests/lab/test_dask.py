"""The same sweep on a real Dask cluster over TCP on loopback, one of its two workers killed on the way."""

import http.server
import json
import re
import socketserver
import subprocess
import sys
import threading

import pytest

import processes
from airfeel.lab import engines
from airfeel.lab.engines import check_engine
from lab.sweeps import finished, interrupt, sweep, write_sweep


def start(*words):
    command = [sys.executable, "-m", "dask", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler without workers: its address and its process."""
    notice = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(notice))
    process = start("scheduler", *options)
    try:
        processes.until(lambda: notice.exists() and notice.read_text().endswith("}"))
        yield json.loads(notice.read_text())["address"], process
    finally:
        end([process])


@pytest.fixture
def cluster(scheduler, tmp_path):
    """A scheduler with two worker processes: its address and the processes of the workers."""
    address, _ = scheduler
    place = ("--local-directory", str(tmp_path / "spill"), "--no-dashboard")
    options = ("--nthreads", "1", "--no-nanny", "--host", "127.0.0.1", *place)
    workers = [start("worker", address, *options) for _ in range(2)]
    yield address, workers
    end(workers)


def end(started):
    for process in reversed(started):
        process.kill()
        process.wait()


def begin(path, out, address):
    return processes.begin(processes.airfeel("sweep", path, "--out", out, "--engine", address))


@pytest.mark.long
def test_a_killed_worker_loses_nothing(cluster, tmp_path):
    address, workers = cluster
    path = write_sweep(tmp_path)
    processes.until(lambda: connected(address) == 2)
    campaign = begin(path, tmp_path / "dask", address)
    processes.until(lambda: len(finished(tmp_path / "dask")) >= 2)
    processes.until(lambda: len(list((tmp_path / "dask/runs").glob("*/rounds.jsonl"))) >= 4)
    workers[0].kill()
    output, errors = campaign.communicate(timeout=600)
    assert campaign.returncode == 0, errors
    assert output == f"{tmp_path / 'dask' / 'results.csv'}\n"
    assert len(finished(tmp_path / "dask")) == 12

    assert sweep(path, tmp_path / "pool", "--workers", "2").returncode == 0
    table = (tmp_path / "pool/results.csv").read_bytes()
    assert table.count(b"\n") == 1 + 12 * 60
    assert (tmp_path / "dask/results.csv").read_bytes() == table


@pytest.mark.long
def test_control_c_leaves_the_cluster_usable(cluster, tmp_path):
    address, _ = cluster
    path, out = write_sweep(tmp_path), tmp_path / "out"
    processes.until(lambda: connected(address) == 2)
    campaign = begin(path, out, address)
    processes.until(lambda: len(finished(out)) >= 1)
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


@pytest.mark.long
def test_a_scheduler_without_workers_is_refused(tmp_path, cluster):
    address, workers = cluster
    processes.until(lambda: connected(address) == 2)
    end(workers)
    processes.until(lambda: connected(address) == 0)
    ended = sweep(write_sweep(tmp_path), tmp_path / "out", "--engine", address)
    assert ended.returncode == 2
    assert f"--engine {address}: the scheduler has no worker; start some with: dask worker" in ended.stderr


FORM = "must be the address of a Dask scheduler, such as tcp://host:8786"


@pytest.mark.parametrize(
    "address",
    [
        "here", "http://127.0.0.1:8786", "tcp:", "tcp://", "tcp://host", "tcp://host:", "tcp://:8786",
        "tcp://host:notaport", "tcp://host:0", "tcp://host:-1", "tcp://host:99999", "tcp://[::1", "tcp://::1",
        "tcp://[::1]", "tcp://my host:8786", " tcp://host:8786", "tcp://host:8786 ", "tcp://host\n:8786",
        "tcp://host:8786/path", "tcp://host:8786?a=b", "tcp://me@host:8786", "tcp://h\u00f6st:8786", "",
    ],
)  # fmt: skip
def test_what_is_no_address_is_one_sentence(tmp_path, address):
    ended = sweep(write_sweep(tmp_path), tmp_path / "out", f"--engine={address}")
    assert ended.returncode == 2
    assert ended.stderr == f"airfeel: --engine {address}: {FORM}\n"


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tls://[::1]:8786", "tcp://a-b.example.org:1"])
def test_addresses_of_every_form_are_tried(address):
    check_engine(address)


class Silent(socketserver.BaseRequestHandler):
    """Accepts, and never answers."""

    def handle(self):
        while self.request.recv(1024):
            pass


class Greeting(Silent):
    """Speaks first, of something else."""

    def handle(self):
        self.request.sendall(b"SSH-2.0-OpenSSH_9.2 and more that is not of Dask\r\n")
        super().handle()


@pytest.fixture
def served(request):
    """The address of a server that is not Dask's."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), request.param) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"tcp://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("served", [Silent, Greeting, http.server.SimpleHTTPRequestHandler], indirect=True)
def test_a_server_that_is_not_dask_s_is_one_sentence(served, monkeypatch):
    unanswered(served, monkeypatch)


def unanswered(address, monkeypatch):
    """An engine is refused in this process; who never answers need not be waited for as long as usual."""
    monkeypatch.setattr(engines, "_LONGEST_WAIT", 0.5)
    sentence = f"^--engine {re.escape(address)}: no Dask scheduler answers there"
    with pytest.raises(ValueError, match=sentence), engines.open_engine(address):
        pass


@pytest.mark.long
def test_runs_say_that_their_scheduler_was_lost(tmp_path, scheduler, cluster):
    address, process = scheduler
    path, out = write_sweep(tmp_path, rounds=100_000), tmp_path / "out"
    processes.until(lambda: connected(address) == 2)
    campaign = begin(path, out, address)
    processes.until(lambda: len(list(out.glob("runs/*/rounds.jsonl"))) == 2)
    process.kill()
    _, errors = campaign.communicate(timeout=600)
    assert campaign.returncode == 1
    summary = errors[errors.index("airfeel: ") :].strip().splitlines()
    assert summary[0] == "airfeel: 12 of 12 runs failed"
    sentence = f"the Dask scheduler at {address} was lost; the same command continues this run"
    assert [line.partition(": ")[2] for line in summary[1:]] == [sentence] * 12
    assert "Traceback" not in errors
    assert "Cancelled" not in errors
