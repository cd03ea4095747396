"""A results folder that others may write to: a link or a pipe in any place harms nobody and hangs nothing."""

import shutil

import pytest

import fakes
import guards
import small
from airfeel.lab.plan import Experiment, remember_experiment

pytest.importorskip("altair")

SETTINGS = {"scheme": "common_k", "rounds": 14, "run__checkpoint_every": 5, "run__record_aggregates": "true"}
SWEEP = """
seeds = [0]
rounds = 2
base.dataset = "{data}"
base.devices.count = 5
base.devices.samples = 100
"""
LOCKS = ("runs/RUN/.lock", ".results.lock")
READ = [
    "runs/RUN/summary.json", "runs/RUN/rounds.jsonl", "runs/RUN/timings.jsonl", "runs/RUN/checkpoint.npz",
    "runs/RUN/config.toml", "runs/RUN/manifest.json", "runs/RUN/aggregates/round-000001.npz",
    "experiments/tiny.toml",
    "experiments/tiny.json", "campaign.json", "results.csv", ".results.json",
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Everything that all commands leave in a results folder, and the data set it was made from."""
    place = tmp_path_factory.mktemp("results")
    data, out = small.write_folder(place / "data"), place / "out"
    base = {"dataset": str(data), "devices": {"count": 5, "samples": 100}}
    experiment = Experiment(name="tiny", title="tiny", rounds=2, seeds=[0], base=base)
    runs = experiment.runs()
    remember_experiment(experiment, out, runs)
    for run in runs:
        run.do(out)
    (out / "campaign.json").write_text('{"seconds": 1.0, "runs": 1, "workers": 1}')
    for ended in (train(place, out), report(out), inspect(out)):
        assert ended.returncode == 0, ended.stderr
    return place


@pytest.fixture
def out(results, tmp_path):
    """A copy of it for one test."""
    return shutil.copytree(results / "out", tmp_path / "out")


def train(place, out, *more):
    return small.call([*small.command(place / "data", out, **SETTINGS), *more])


def report(out):
    return small.call(["airfeel", "report", str(out)])


def inspect(out):
    return small.call(["airfeel", "inspect", str(run_of(out))])


def run_of(out):
    """The folder of the single run."""
    (found,) = out.glob("runs/common_k-*")
    return found


def place_of(out, name):
    return out / name.replace("RUN", run_of(out).name)


def plant(path, victim):
    """Put a link to a file of somebody else's in a place."""
    victim.write_bytes(b"precious\n")
    path.unlink(missing_ok=True)
    path.symlink_to(victim)
    return victim


@pytest.mark.long
def test_links_in_the_places_of_all_files_are_replaced_and_not_followed(results, out, tmp_path):
    locks = [place_of(out, name) for name in LOCKS]
    files = [path for path in out.rglob("*") if path.is_file() and path not in locks]
    own = [path for path in files if "runs" not in path.parts or run_of(out) in path.parents]
    assert len(own) > 40  # aggregates and figures included
    guessed = [path.with_name(path.name + ending) for path in own for ending in (".tmp", ".new")]
    read = set(out.glob("experiments/tiny.*"))  # read, and written by a sweep only
    victims = [
        plant(path, tmp_path / f"victim{count}")
        for count, path in enumerate([*own, *guessed])
        if path not in read
    ]
    for ended in (train(results, out, "--force"), report(out), inspect(out)):
        assert ended.returncode == 0, ended.stderr
    assert {victim.read_bytes() for victim in victims} == {b"precious\n"}
    assert [path for path in own if path.is_symlink()] == [out / "campaign.json"]  # written by a sweep only


@pytest.mark.long
@pytest.mark.parametrize("checkpoint", ["kept", "lost"])
def test_a_run_does_not_go_on_in_a_file_of_somebody_else_s(results, out, tmp_path, checkpoint):
    """The records of a run in progress are cut and appended to: through a link, that would be the victim."""
    run = run_of(out)
    (run / "summary.json").unlink()
    if checkpoint == "lost":
        (run / "checkpoint.npz").unlink()
    victim = plant(run / "rounds.jsonl", tmp_path / "victim")
    ended = train(results, out)
    assert ended.returncode == 2
    assert f"cannot write to {run / 'rounds.jsonl'}: is a symbolic link" in ended.stderr.splitlines()[-1]
    assert victim.read_bytes() == b"precious\n"


@pytest.mark.parametrize("name", [".results.lock", ".results.json", "results.csv", "runs/RUN/.lock"])
@pytest.mark.parametrize("kind", ["link", "rubbish"])
def test_what_stands_in_the_place_of_a_table_or_a_lock_blocks_nobody(results, out, tmp_path, name, kind):
    table = (out / "results.csv").read_bytes()
    path = place_of(out, name)
    path.unlink(missing_ok=True)
    if kind == "link":
        plant(path, tmp_path / "victim")
    else:
        path.write_bytes(b"\xff{[")
    ended = train(results, out, "--force")
    assert ended.returncode == 0, ended.stderr
    assert (out / "results.csv").read_bytes() == table
    assert kind != "link" or (tmp_path / "victim").read_bytes() == b"precious\n"


OURS = [
    "round-000001.npz", "round-000099.npz", "notes.tmp", "results.csv.0123456789abcdef.tmp", "results.csv",
    "index.html", "tiny.toml", "tiny.json", "accuracy.svg", "inspection.json", "rounds.jsonl",
    "memory-000001.bin", "checkpoint.npz.new", "checkpoint.npz.previous",
]  # fmt: skip
FOLDERS = {
    "aggregates": "runs/RUN/aggregates",
    "inspection": "runs/RUN/inspection",
    "own": "runs/RUN",
    "runs": "runs",
    "figures": "figures",
    "experiments": "experiments",
}
REFUSED = {
    "run": ("aggregates", "own", "runs"),
    "report": ("figures",),
    "inspect": ("inspection", "own", "runs"),
    "sweep": ("experiments", "runs"),
}
CASES = [(command, name) for command in REFUSED for name in FOLDERS]
CASES = [case for case in CASES if case[0] != "sweep" or case[1] in (*REFUSED["sweep"], "figures")]


def content_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("command", "name"), CASES)
def test_nothing_is_written_through_a_linked_folder(results, out, tmp_path, monkeypatch, command, name):
    fakes.draw_nothing(monkeypatch)
    path, run = place_of(out, FOLDERS[name]), run_of(out)
    foreign = path.rename(tmp_path / "foreign")
    for ours in OURS:
        (foreign / ours).write_bytes(b"precious\n")
    path.symlink_to(foreign)
    before = content_of(foreign)
    sweep = results / "tiny.toml"
    sweep.write_text(SWEEP.format(data=results / "data"))
    words = {
        "run": [*small.command(results / "data", out, **SETTINGS)[3:], "--force"],
        "report": ["report", out],
        "inspect": ["inspect", run],
        "sweep": ["sweep", sweep, "--out", out, "--force", "--workers", "1"],
    }
    ended = small.call(["airfeel", *map(str, words[command])])
    assert content_of(foreign) == before
    assert ended.returncode in (0, 2) and "Traceback" not in ended.stderr
    sentence = f"{path}: is a symbolic link, and nothing is written through links"
    assert (sentence in ended.stderr.splitlines()[-1]) == (name in REFUSED[command])
    assert ended.returncode == 2 or name not in REFUSED[command]


def test_a_results_folder_may_be_a_link(results, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path / "out", tmp_path / "out" / "below"):
        ended = train(results, place)
        assert ended.returncode == 0, ended.stderr
        assert (place / "results.csv").exists()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["/dev/zero", "pipe", "hole"])
@pytest.mark.parametrize("name", READ)
def test_an_endless_file_ends_in_a_sentence(results, out, monkeypatch, name, kind):
    fakes.draw_nothing(monkeypatch)
    path = place_of(out, name)
    path.unlink()
    guards.plant(path, kind)
    with guards.limited(2**31):
        # What may replace the file comes last.
        for command in (report, inspect, lambda out: train(results, out)):
            ended = command(out)
            assert ended.returncode in (0, 2), ended.stderr
            sentences = [line for line in ended.stderr.splitlines() if line.startswith("airfeel: ")]
            assert len(sentences) == (ended.returncode == 2)
