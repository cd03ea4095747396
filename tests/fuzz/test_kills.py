"""SIGKILL at random moments, again and again: what is finished in the end is what nobody disturbed."""

import os
import random
import shutil
import signal
import time
from contextlib import suppress

import pytest

import small
from fuzzing import SEED, count_cases
from lab.sweeps import finished, write_sweep
from processes import airfeel, begin, require_quiet, until_gone, workers_of

pytestmark = pytest.mark.long

ROUNDS = 60
OFTEN = {"run__checkpoint_every": 3, "devices__local_steps": 10}
SETTINGS = OFTEN | {"devices__dropout": 0.2, "receiver__learn_from": 5, "run__record_aggregates": "true"}
KEPT = (
    "runs/*/config.toml",
    "runs/*/rounds.jsonl",
    "runs/*/summary.json",
    "runs/*/aggregates/*",
    "results.csv",
)


def lines(out):
    """Return how many rounds all runs have on record."""
    return sum(path.read_bytes().count(b"\n") for path in out.glob("runs/*/rounds.jsonl"))


def kept(out):
    """Return the bytes of all files that are results."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for pattern in (*KEPT, "experiments/*")
        for path in out.glob(pattern)
    }


def wait_for_a_moment(process, out, total, moment):
    """Return soon, or after a random one of the rounds to come, such as the last: then a run is closed."""
    if moment.random() < 0.15:
        time.sleep(moment.uniform(0, 1))
        return
    target = moment.randint(min(lines(out) + 1, total), total)
    while lines(out) < target and process.poll() is None:
        time.sleep(0.002)
    time.sleep(moment.choice((0, moment.uniform(0, 0.05))))


def kill_worker(process, moment):
    """Kill one of the workers, if there are any; return whether it was still there."""
    workers = workers_of(process)
    with suppress(IndexError, ProcessLookupError):
        os.kill(moment.choice(workers), signal.SIGKILL)
        return True
    return False


def kill(process):
    """Kill the process; return whether it was still there. Its workers end by themselves, without a word."""
    workers = workers_of(process)
    process.kill()
    _, errors = process.communicate(timeout=300)  # returns when no worker is left to write to it
    require_quiet(errors)
    until_gone(workers)
    return process.returncode == -signal.SIGKILL


def survive(words, out, whole, total, kills, name):
    """Start and kill, start again and kill again, until so many kills came in time; then to the end.

    What is finished once is not computed again.
    """
    moment, done, ended = random.Random(f"{SEED} {name}"), 0, {}
    while done < kills:
        process = begin(words)
        wait_for_a_moment(process, out, total, moment)
        if moment.random() < 0.3 and kill_worker(process, moment):
            done += 1
            wait_for_a_moment(process, out, total, moment)
        done += kill(process)
        ended = finished(out) | ended
        if process.returncode != -signal.SIGKILL:
            assert (process.returncode, kept(out)) == (0, whole), f"SEED={SEED}, after {done} kills"
            shutil.rmtree(out)
            ended = {}
    process = begin(words)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert kept(out) == whole, f"SEED={SEED}, after {done} kills"
    assert ended.items() <= finished(out).items()
    assert not [path for ending in ("tmp", "new") for path in out.rglob(f"*.{ending}")]
    return done


def undisturbed(words, out):
    small.succeed(words)
    return kept(out)


IN_MEMORY, IN_FILES = 10**9, 0
CASES = [
    ("tsa_ga", 3, IN_MEMORY),
    ("common_k", 3, IN_FILES),
    *(
        pytest.param(name, 40, above, marks=pytest.mark.slow)
        for name, above in (
            ("tsa_ga", IN_MEMORY),
            ("a_dsgd", IN_MEMORY),
            ("common_k", IN_MEMORY),
            ("tsa_ga", IN_FILES),
        )
    ),
]


@pytest.mark.parametrize(("scheme", "kills", "above"), CASES)
def test_kills_of_a_run_leave_no_trace(data, tmp_path, record_property, scheme, kills, above):
    def words(out):
        settings = SETTINGS | {"run__memory_map_above": above}
        return small.command(data, tmp_path / out, rounds=ROUNDS, scheme=scheme, **settings)

    whole = undisturbed(words("whole"), tmp_path / "whole")
    assert len(whole) == ROUNDS + 4
    done = survive(words("killed"), tmp_path / "killed", whole, ROUNDS, kills, scheme)
    assert not list(tmp_path.glob("*/runs/*/memory*"))
    count_cases(record_property, done, "kills of a run")


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_a_plan_that_was_killed_gives_the_same_answer(data, tmp_path, record_property, kills):
    keys = {**small.SETTINGS, "dataset": data, "scheme": "common_k", "rounds": 8, "run.checkpoint_every": 3}
    keys.pop("uplink.ratio")
    asked = ["--vary", "uplink.ratio=0.05:0.8", "--target-accuracy", 0.6, "--seeds", 2, "--workers", 2]
    asked += [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]

    def words(out):
        return airfeel("plan", *asked, "--out", tmp_path / out)

    first = small.succeed(words("whole"))
    whole, total = kept(tmp_path / "whole"), lines(tmp_path / "whole")
    done = survive(words("killed"), tmp_path / "killed", whole, total, kills, "plan")
    assert small.call(words("killed")).stdout == first.stdout
    count_cases(record_property, done, "kills of a plan")


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_kills_of_a_campaign_or_its_workers_leave_no_trace(tmp_path, record_property, kills):
    path = write_sweep(tmp_path, rounds=20)

    def words(out):
        return airfeel("sweep", path, "--out", tmp_path / out, "--workers", 2)

    whole = undisturbed(words("whole"), tmp_path / "whole")
    assert len(whole) == 12 * 3 + 3
    done = survive(words("killed"), tmp_path / "killed", whole, 12 * 20, kills, "campaign")
    count_cases(record_property, done, "kills of a campaign or of its workers")
