"""A run that is stopped, damaged and continued ends with the same bytes as one nobody touched."""

import pytest

import small
from airfeel.config import load_config
from airfeel.experiments.runs.runner import execute

DAMAGE = {
    "half a line": lambda run: append(run / "rounds.jsonl", b'{"round":99,"accu'),
    "a line too much": lambda run: append(run / "rounds.jsonl", b'{"round":99}\n'),
    "records cut": lambda run: cut(run / "rounds.jsonl", 300),
    "records gone": lambda run: (run / "rounds.jsonl").unlink(),
    "checkpoint cut": lambda run: cut(run / "checkpoint.npz", 1000),
    "checkpoint empty": lambda run: cut(run / "checkpoint.npz", 0),
    "checkpoint gone": lambda run: (run / "checkpoint.npz").unlink(),
    "both checkpoints bad": lambda run: [cut(path, 99) for path in run.glob("checkpoint*")],
    "timings gone": lambda run: (run / "timings.jsonl").unlink(),
    "false summary": lambda run: (run / "summary.json").write_text('{"rounds_sha256": "x"}'),
    "broken summary": lambda run: (run / "summary.json").write_text('{"roun'),
    "leftovers": lambda run: (run / "checkpoint.npz.tmp").write_bytes(b"x"),
}


def append(path, content):
    with path.open("ab") as file:
        file.write(content)


def cut(path, length):
    path.write_bytes(path.read_bytes()[:length])


def stop_after(rounds):
    """Return a question that is answered with yes after so many rounds."""
    answers = iter([False] * (rounds - 1) + [True])
    return lambda: next(answers)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    data = small.write_folder(tmp_path_factory.mktemp("data") / "small")
    flat = {"dataset": str(data), "rounds": 12, "run.checkpoint_every": 2, "receiver.learn_from": 4}
    return load_config(None, small.SETTINGS | flat)


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    return execute(config, tmp_path_factory.mktemp("whole"))


@pytest.mark.parametrize("kind", DAMAGE)
def test_every_damage_is_noticed_and_mended(config, whole, tmp_path, kind):
    stopped = execute(config, tmp_path, stop=stop_after(7))
    assert (stopped.round, stopped.summary) == (7, None)
    DAMAGE[kind](stopped.folder)
    ended = execute(config, tmp_path)
    assert ended.summary == whole.summary
    for name in ("rounds.jsonl", "summary.json", "config.toml"):
        assert (ended.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert not list(ended.folder.glob("*.tmp"))


def test_a_run_stopped_again_and_again_comes_to_the_same_end(config, whole, tmp_path):
    for rounds in (1, 1, 3, 2):
        assert execute(config, tmp_path, stop=stop_after(rounds)).summary is None
    ended = execute(config, tmp_path)
    assert (ended.folder / "rounds.jsonl").read_bytes() == (whole.folder / "rounds.jsonl").read_bytes()
    assert not execute(config, tmp_path).computed


def test_a_finished_run_with_altered_records_is_computed_again(config, whole, tmp_path):
    ended = execute(config, tmp_path)
    append(ended.folder / "rounds.jsonl", b"\n")
    again = execute(config, tmp_path)
    assert again.computed
    assert (ended.folder / "rounds.jsonl").read_bytes() == (whole.folder / "rounds.jsonl").read_bytes()
