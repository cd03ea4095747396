"""A small sweep for tests of campaigns: twelve runs on the small data set."""

import signal

import small


def write_sweep(folder, **changes):
    """Write a sweep over schemes, ratios and seeds; ``changes`` are further keys of the base."""
    data = small.write_folder(folder / "data")
    base = {"dataset": str(data), "rounds": 60, **small.SETTINGS, "run.checkpoint_every": 5} | changes
    base.pop("uplink.ratio")
    lines = ["seeds = [0, 1]", "[base]", *(f"{key} = {value!r}" for key, value in base.items())]
    lines += ["[grid]", 'scheme = ["tsa_ga", "a_dsgd", "common_k"]', "uplink.ratio = [0.3, 0.5]"]
    path = folder / "sweep.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def sweep(path, out, *options):
    """Carry out the sweep in this process (its workers are others)."""
    return small.call(["airfeel", "sweep", str(path), "--out", str(out), *options])


def interrupt(campaign, out):
    """Press Ctrl-C: the campaign says how to go on, and leaves some runs for later."""
    campaign.send_signal(signal.SIGINT)
    _, errors = campaign.communicate(timeout=600)
    assert campaign.returncode == 130
    assert "the same command goes on from there" in errors
    assert "Traceback" not in errors
    assert 1 <= len(finished(out)) < 12


def finished(out):
    """Return the summaries there are, by run, with the time they were written."""
    return {path.parent.name: path.stat().st_mtime_ns for path in out.glob("runs/*/summary.json")}
