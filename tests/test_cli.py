"""The command: help with examples, data on stdout, one sentence and exit code 2 for a mistake."""

import subprocess
import sys

import pytest

import airfeel
from airfeel.cli import app, main
from airfeel.lab.figures import SHIPPED
from airfeel.registry import DATASETS, SEAMS

RADIO = ["--bandwidth-hz", "5e6", "--tx-power-dbm", "10", "--path-loss-db", "120"]
COMMANDS = sorted(name for name in app if not name.startswith("-"))


def airfeel_process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "airfeel", *arguments], capture_output=True, text=True, timeout=600, **options
    )


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == airfeel.__version__


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_names_every_command(arguments, capsys):
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert all(name in out for name in COMMANDS)
    assert "--quiet" in out
    assert err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"airfeel {name}" in out
    assert "Example" in out
    assert "--quiet" in out


SETTINGS = {
    "unknown key, the nearest valid key is 'uplink.ratio'": ["--set", "uplink.rato=0.1"],
    "--set: uplink.ratio = 1.5: must be a finite number > 0 and <= 1": ["--set", "uplink.ratio=1.5"],
    "must have the form key=value": ["--set", "rounds"],
    "absent.toml: cannot be read as a configuration file": ["absent.toml"],
}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lisst"], ["lisst", "list"]),
        (["data", "minst"], ["dataset = 'minst'", "'mnist'", "'fashion-mnist'"]),
        (["sweep", "no.toml"], ["no.toml: cannot be read as an experiment file (No such file or directory)"]),
        (["data", "--wrong"], ["--wrong"]),
        (["list", "surplus"], ["surplus"]),
        (["report", "no/such/folder"], ["no/such/folder", "no finished run"]),
        (["run", "--rounds", "10"], ["--rounds: no such option; use --set rounds=10"]),
        (["run", "--ratio=0.2"], ["use --set uplink.ratio=0.2"]),
        (["run", "--uplink.ratio", "0.2"], ["use --set uplink.ratio=0.2"]),
        (["run", "--rouns", "10", "--force"], ["use --set rounds=10"]),
        (["config", "--scheme", "a_dsgd"], ["use --set scheme=a_dsgd"]),
        (["predict", "--noise-var", "3"], ["use --set channel.noise_var=3"]),
        (
            ["run", "--learning-rate", "0.1"],
            ["use --set devices.learning_rate=0.1 or --set server.learning_rate=0.1"],
        ),
        (["run", "--local-steps"], ["use --set devices.local_steps=VALUE"]),
        (["run", "--ou", "x"], ["--ou", "Did you mean", "--out"]),
        (["predict", "--round", "3"], ["--round", "Did you mean", "--rounds"]),
        (["run", "--nothing-like-it"], ["--nothing-like-it"]),
        (["reproduce", "fig5a", "--ratio", "0.2"], ["--ratio"]),
        (["run", "rounds=10"], ["rounds=10: no such file; to set a key, use --set rounds=10"]),
        (["predict", "--ratio", "1.5"], ["ratio = 1.5"]),
        (["receive", "absent.sigmf-meta"], ["airfeel: absent.sigmf-meta: No such file or directory"]),
        (["predict", "--activity", "0"], ["activity = 0"]),
        (["predict", "--p01", "2"], ["p01 = 2"]),
        (["predict", "--power", "-3"], ["power = -3"]),
        (["predict", "--devices", "0"], ["devices.count = 0"]),
        (["predict", "--size", "0"], ["size = 0"]),
        (["predict", "--rounds", "0"], ["rounds = 0"]),
        (["predict", "--rounds", "2.5"], ["--rounds: 2.5: must be a whole number"]),
        (["plan", "--within-rounds", "2.5"], ["--within-rounds: 2.5: must be a whole number"]),
        (["predict", "--samples", "3"], ["samples = 3"]),
        (["predict", "--power", "1", "--snr-db", "3"], ["--power", "--snr-db"]),
        (["predict", "--target-nmse", "4"], ["target_nmse = 4"]),
        (["predict", "--samples", "4000", "--target-nmse", "-90"], ["target_nmse = -90", "out of reach"]),
        (["predict", "--set", "scheme=d_dsgd"], ["scheme = 'd_dsgd': theory knows no error of it"]),
        (["predict", "--set", "scheme=tsaga"], ["scheme", "tsa_ga"]),
        (["predict", *RADIO, "--power", "5"], ["uplink.power = 5.0: must not be given with a table [radio]"]),
        (["predict", *RADIO, "--snr-db", "5"], ["--snr-db: must not be given with a bandwidth"]),
        (["predict", *RADIO, "--set", "radio.downlink_bps_hz=1"], ["radio.downlink_bps_hz = 1.0: must not"]),
        (["predict", "--ratio", "0.2", "--set", "uplink.ratio=0.3"], ["--ratio and --set uplink.ratio"]),
        (["predict", "--solve", "power"], ["--solve power: needs --target-nmse"]),
        (["predict", "--target-nmse", "-9", "--ratio", "0.2"], ["uplink.ratio: must not be given with"]),
        (["predict", "--size", "100", "--set", "model.kind=mlp"], ["model.kind = 'mlp': must not be given"]),
        (["predict", "--set", "scheme=a_dsgd", "--samples", "8000"], ["--samples 8000: must not be given"]),
        (["predict", "--set", "scheme=a_dsgd", "--p01", "0.1"], ["receiver.p01 = 0.1: must not be given"]),
        (["predict", "--set", "scheme=common_k", "--seed", "3"], ["--seed 3: must not be given"]),
        (["predict", "--bandwidth-hz", "1e6"], ["radio.tx_power_dbm is missing"]),
        (["predict", "no/such.toml"], ["no/such.toml"]),
        (["predict", "."], ["airfeel: .: must be"]),
        (["run", "--set", "dataset=absent"], ["dataset = 'absent': must be one of 'mnist'"]),
        (["config", "--set", "dataset=absent"], ["dataset = 'absent': must be one of 'mnist'"]),
        *(([command, *words], [rule]) for command in ("run", "config") for rule, words in SETTINGS.items()),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2_and_leaves_nothing(
    arguments, words, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["--quiet", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("airfeel: ") and len(err.splitlines()) == 1
    assert all(word in err for word in words)
    assert not list(tmp_path.iterdir())


def test_debugging_shows_where_a_mistake_was_noticed(monkeypatch):
    monkeypatch.setenv("AIRFEEL_DEBUG", "1")
    with pytest.raises(ValueError, match="minst"):
        main(["data", "minst"])


def test_list_names_every_word_that_a_configuration_may_use(capsys):
    assert main(["list"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")}
    assert {name for registry in SEAMS.values() for name in registry.names()} | {*SHIPPED} < listed
    for registry in (DATASETS, *SEAMS.values()):  # the list reads what it would be slow to import
        assert registry.summaries() == {part.name: part.summary for part in registry.parts()}
        assert list(registry.summaries()) == registry.names()


def test_data_shows_what_is_present_and_where(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path))
    assert main(["data"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [[name, "absent", str(tmp_path / name)] for name in DATASETS.names()]


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_quiet_silences_the_log_and_not_the_error(tmp_path, monkeypatch, capfd, quiet):
    monkeypatch.setenv("AIRFEEL_DATA", str(tmp_path))
    monkeypatch.setenv("AIRFEEL_MIRROR", (tmp_path / "nothing").as_uri())
    done = airfeel_process("data", "mnist", *quiet)
    assert (done.returncode, done.stdout) == (2, "") and "Traceback" not in done.stderr
    assert "airfeel: mnist: could not fetch" in done.stderr
    assert done.stderr.count("mnist: fetching, ") == (not quiet)
