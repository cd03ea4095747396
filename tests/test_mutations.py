"""Every file of a run folder, damaged in every way one can think of: a sentence, never a traceback or a lie.

The seed is fixed and printed with the counts; ``SEED=7 make test-slow`` chooses another.
"""

import contextlib
import itertools
import json
import random
import re
import shutil
from collections import Counter

import pytest

import fakes
import small
from fuzzing import SEED, count_cases

pytest.importorskip("altair")
from airfeel.lab.curves import CurveDrawing

pytestmark = pytest.mark.long

SCHEMES = ("tsa_ga", "common_k")
FILES = (
    "config.toml", "rounds.jsonl", "timings.jsonl", "summary.json", "manifest.json", "checkpoint.npz",
    "aggregates/round-000003.npz",
)  # fmt: skip
STATES = ("finished", "forged", "begun")
ABSENT = {("manifest.json", "begun"), ("summary.json", "begun")}
CASES = [(name, state) for name in FILES for state in STATES if (name, state) not in ABSENT]
MANY, SOME = 150, 20  # mutations of every file, and those of them in each state that is not "finished"
ROUNDS = 13
DEEP = 3000


def command(place, out, scheme):
    kept = {"rounds": ROUNDS, "run__checkpoint_every": 5, "run__record_aggregates": "true"}
    return small.command(place / "data", out, scheme=scheme, **kept)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two finished runs that keep everything a run can keep."""
    place = tmp_path_factory.mktemp("mutations")
    small.write_folder(place / "data")
    for scheme in SCHEMES:
        small.succeed(command(place, place / "out", scheme))
    return place


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch):
    """Pictures take most of the time, and read nothing: none are drawn, and few are described."""
    for module in ("charts", "curves"):
        monkeypatch.setattr(f"airfeel.lab.{module}.save_images", lambda spec, column, stem: [])
    monkeypatch.setattr("airfeel.lab.report.javascript", lambda: "")
    for name in ("_page_spec", "_paper_spec"):
        monkeypatch.setattr(CurveDrawing, name, seldom(getattr(CurveDrawing, name)))


def seldom(function):
    """Call a function every twentieth time only."""
    calls = itertools.count()
    return lambda *given, **options: {} if next(calls) % 20 else function(*given, **options)


# --- damage ------------------------------------------------------------------------------------------------


def spans(content, rng):
    start = rng.randrange(len(content) + 1)
    return content[:start], content[start : start + rng.choice((1, 1, 2, 8, 64, 500))], start


def flip(content, rng):
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ rng.randrange(1, 256)]) + content[place + 1 :]


def delete(content, rng):
    before, span, start = spans(content, rng)
    return before + content[start + len(span) :]


def duplicate(content, rng):
    before, span, start = spans(content, rng)
    return before + span + content[start:]


def truncate(content, rng):
    return content[: rng.randrange(len(content))]


def edit_number(content, rng):
    found = list(re.finditer(rb"\d", content))
    if not found:
        return flip(content, rng)
    place = rng.choice(found).start()
    other = rng.choice([digit for digit in b"0123456789" if digit != content[place]])
    return content[:place] + bytes([other]) + content[place + 1 :]


def keys_of(content):
    return sorted(set(re.findall(rb'(?m)"?(\w+)"?(?: =|:)', content))) or [b"no key"]


def rename_key(content, rng):
    return content.replace(rng.choice(keys_of(content)), b"other", rng.choice((1, -1)))


def drop_key(content, rng):
    key = re.escape(rng.choice(keys_of(content)))
    return re.sub(
        rb'(?m)("%s": ?[^,}\n]*,?)|(^%s = .*\n)' % (key, key), b"", content, count=rng.choice((0, 1))
    )


def wrong_type(content, rng):
    value = rng.choice(
        (b'"text"', b"[]", b"{}", b"true", b"null", b"1e999", b"-7", b"1" + 400 * b"0", b"NaN")
    )
    found = list(re.finditer(rb"(?<=[:=]) ?[-\d.\"a-z_]+", content))
    if not found:
        return flip(content, rng)
    place = rng.choice(found)
    return content[: place.start()] + b" " + value + content[place.end() :]


def nest(content, rng):
    start = rng.choice(
        (b"[" * DEEP, b'{"a":' * DEEP, b"a = " + b"[" * DEEP, b".".join([b"a"] * DEEP) + b" = 1\n")
    )
    return start + rng.choice((b"", b"\n" + content))


def empty(content, rng):
    return rng.choice((b"", b"\n", b"\0" * 9, b"{}\n", b"[]\n", b"null\n", b"3\n", b'"text"\n'))


DAMAGE = (
    flip, flip, delete, duplicate, truncate, edit_number, edit_number, rename_key, drop_key, wrong_type, nest,
    empty, "swap", "lose",
)  # fmt: skip


def damage(run, other, name, kind, rng):
    """Damage one file of a run, in another way where this one happens to change nothing."""
    path = run / name
    before = after = path.read_bytes()
    if kind == "lose":
        path.unlink()
        return
    while after == before:
        after = (other / name).read_bytes() if kind == "swap" else kind(before, rng)
        kind = rng.choice((kind, flip))
    path.write_bytes(after)


def prepare(run, state):
    """Bring a finished run into another state."""
    if state == "begun":
        (run / "summary.json").unlink()
        (run / "manifest.json").unlink()


def forge(run):
    """Make the hashes fit whatever is there now: as somebody might do."""
    with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):
        fakes.seal(run)


# --- what must hold ----------------------------------------------------------------------------------------


def call(words, notes):
    """Run a command; a traceback fails the test here, and everything else ends with 0 or one sentence."""
    ended = small.call(["airfeel", *words])
    said = [line for line in ended.stderr.splitlines() if line.startswith("airfeel: ")]
    assert ended.returncode in (0, 2), (notes, ended.stderr)
    assert len(said) == (ended.returncode == 2), (notes, ended.stderr)
    assert "Traceback" not in ended.stderr
    return ended


def lines_of(out):
    table = out / "results.csv"
    return Counter(table.read_text().splitlines()) if table.exists() else Counter()


def shown(text):
    """The rows of the summary table of a report on the terminal."""
    return {tuple(line.split()) for line in text.splitlines() if line.startswith(SCHEMES)}


def check(place, truth, out, rng, name, kind, state):
    """Copy, damage, and see what every command makes of it."""
    shutil.copytree(place / "out", out)
    run, other = (next(out.glob(f"runs/{scheme}-*")) for scheme in rng.sample(SCHEMES, 2))
    scheme = run.name.rpartition("-")[0]
    prepare(run, state)
    damage(run, other, name, kind, rng)
    if state == "forged":
        forge(run)
    notes = (name, getattr(kind, "__name__", kind), state)
    label = run.name
    report = call(["report", str(out)], notes)
    table = lines_of(out)
    call(["predict", str(run), "--samples", "800", "--rounds", "2"], notes)
    inspected = call(["inspect", str(run)], notes) if rng.random() < 0.2 or name.startswith("aggr") else None
    if state == "finished" and name != "checkpoint.npz":
        # Either the run is left out and named with the file, or nobody could miss that it is not verified.
        noted = [line for line in report.stderr.splitlines() if label in line]
        assert noted, (notes, report.stderr)
        assert any(word in noted[0] for word in (name, "manifest.json", "not finished")), notes
        assert table <= truth["table"] and shown(report.stdout) <= truth["shown"], notes
        assert inspected is None or inspected.returncode == 2 or "not verified" in inspected.stderr, notes
    again = call(command(place, out, scheme)[3:], notes)
    if state in ("finished", "begun") and again.returncode == 0:
        kept = truth["runs"][label]
        assert (run / "rounds.jsonl").read_bytes() == kept["rounds.jsonl"], notes
        assert json.loads((run / "summary.json").read_text()) == json.loads(kept["summary.json"]), notes
        assert lines_of(out) == truth["table"], notes


@pytest.fixture(scope="module")
def truth(place, tmp_path_factory):
    """What the undamaged folder says."""
    out = shutil.copytree(place / "out", tmp_path_factory.mktemp("truth") / "out")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("charts", "curves"):
            patch.setattr(f"airfeel.lab.{module}.save_images", lambda spec, column, stem: [])
        report = call(["report", str(out)], ())
    runs = {
        run.name: {file.name: file.read_bytes() for file in run.glob("*.json*")} for run in out.glob("runs/*")
    }
    return {"table": lines_of(out), "shown": shown(report.stdout), "runs": runs}


def mutate(place, truth, tmp_path, name, state, count):
    for number in range(count):
        rng = random.Random(f"{SEED} {name} {state} {number}")
        out = tmp_path / "out"
        kind = DAMAGE[number] if number < len(DAMAGE) == count else rng.choice(DAMAGE)
        try:
            check(place, truth, out, rng, name, kind, state)
        except Exception as error:
            pytest.fail(f"SEED={SEED}, mutation {number}: {type(error).__name__}: {error}")
        shutil.rmtree(out)


@pytest.mark.parametrize("much", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "state"), CASES)
def test_damage_is_a_sentence(place, truth, tmp_path, record_property, name, state, much):
    others = sum(case[0] == name for case in CASES) - 1
    few, many = (len(DAMAGE), MANY - others * SOME) if state == "finished" else (4, SOME)
    mutate(place, truth, tmp_path, name, state, many if much else few)
    count_cases(record_property, many if much else few, f"mutations of {name}")
