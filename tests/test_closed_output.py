"""Standard output that is closed, full, or read by somebody who leaves: work goes on, nobody complains."""

import os
import shlex

import pytest

import small
from processes import airfeel, begin, require_quiet


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """A data folder, and a finished run that kept its aggregates."""
    place = tmp_path_factory.mktemp("results")
    small.write_folder(place / "data")
    settings = {"rounds": 12, "devices__samples": 20, "run__record_aggregates": "true"}
    small.succeed(small.command(place / "data", place / "out", **settings))
    return place


def left():
    """Return a pipe that nobody reads any more."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def end(words, stdout, **options):
    """Run a command with the given standard output and return its exit code and what it said."""
    process = begin(words, stdout=stdout, **options)
    os.close(stdout)
    _, errors = process.communicate(timeout=300)
    return process.returncode, errors or ""


def closed(words, streams):
    """Return a command line with standard streams closed by a shell."""
    return ["sh", "-c", f'exec "$@" {streams}', "sh", *words]


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [["list"], ["--help"], ["config"], ["data"], ["predict", "--samples", "1000"]]
)
def test_a_reader_that_leaves_early(words):
    code, errors = end(airfeel(*words, "--quiet"), left())
    assert (code, errors) == (0, "")


def test_head_sees_its_line():
    command = shlex.join(airfeel("list"))
    ended = small.run(["bash", "-c", f"set -o pipefail; {command} | head -1"])
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "schemes (scheme = ...)\n"


@pytest.mark.long
@pytest.mark.parametrize("command", ["inspect", pytest.param("predict", marks=pytest.mark.slow)])
def test_figures_are_drawn_though_nobody_reads_the_table(results, tmp_path, command):
    (run,) = (results / "out/runs").iterdir()
    options = {"inspect": ["--json", "--out", tmp_path], "predict": ["--json", "--figure", tmp_path / "map"]}
    few = ["--samples", 1000, "--rounds", 2] if command == "predict" else []
    code, errors = end(airfeel(command, run, *options[command], *few), left())
    require_quiet(errors)
    assert code == 0
    assert list(tmp_path.glob("*.png")) and list(tmp_path.glob("*.svg"))


@pytest.mark.long
@pytest.mark.parametrize("streams", [">&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_place_for_files(results, tmp_path, streams):
    """The first file opened would become standard output, and everything printed would go there."""
    words = small.command(results / "data", tmp_path, rounds=2)
    process = begin(closed(words, streams))
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (0, ""), errors
    require_quiet(errors)
    small.call(small.command(results / "data", tmp_path / "open", rounds=2))
    (run,), (other,) = ((place / "runs").iterdir() for place in (tmp_path, tmp_path / "open"))
    for name in ("config.toml", "rounds.jsonl", "summary.json", ".lock"):
        assert (run / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("streams", ["> /dev/full", ">&- 2> /dev/full", "> /dev/full 2>&-"])
def test_a_mistake_has_its_exit_code_whoever_listens(streams):
    process = begin(closed(airfeel("data", "minst"), streams))
    output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (2, "")
    require_quiet(errors)


def test_output_that_cannot_be_written_is_one_sentence():
    process = begin(closed(airfeel("list"), "> /dev/full"))
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 2
    assert errors == "airfeel: [Errno 28] No space left on device\n"
