"""Rounds as SigMF recordings: there and back, and whatever may be wrong with a file in one sentence."""

import json
import re
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import airfeel as af
import small
from airfeel._files import Unreadable
from airfeel.cli import main
from airfeel.radio import recordings
from airfeel.radio.frame import Frame
from airfeel.radio.recordings import decode, read_recording
from airfeel.radio.waveform import Waveform
from airfeel.streams import stream

pytest.importorskip("sigmf", reason="needs sigmf")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SYMBOLS, DEVICES = 200, np.array([0, 2, 3])


@pytest.fixture
def place(tmp_path):
    """A round of three devices, recorded, and what the scheme was told of it."""
    channel = Waveform(record=str(tmp_path))
    link = channel.link(4, SYMBOLS, seed=1, round=7)
    numbers = stream(1, "numbers").standard_normal((3, SYMBOLS))
    signals = np.where(link.active[DEVICES], 20 * numbers, 0)
    heard, noise_var = channel.transmit(link, signals, DEVICES, seed=1, round=7)
    np.savez(tmp_path / "told.npz", heard=heard, noise_var=noise_var)
    return tmp_path / "round-00007"


def meta(place, name="received"):
    return place / f"{name}.sigmf-meta"


def change(path, **fields):
    """Write other values into the metadata; None removes one."""
    told = json.loads(path.read_text())
    for name, value in fields.items():
        key = name.replace("__", ":")
        told["global"].pop(key, None)
        if value is not None:
            told["global"][key] = value
    path.write_text(json.dumps(told))


def data(place, samples, name="received"):
    """Write other samples, and forget the digest."""
    (place / f"{name}.sigmf-data").write_bytes(np.asarray(samples, "<c8").tobytes())
    change(meta(place, name), core__sha512=None)


def test_a_round_comes_back_from_its_files(place):
    told = np.load(place.parent / "told.npz")
    found = read_recording(meta(place))
    assert (found.round, found.sample_rate, found.frame) == (7, 5e6, Frame(SYMBOLS))
    reading = found.frame.demodulate(found.samples)
    np.testing.assert_allclose(reading.symbols, told["heard"], atol=1e-4)  # single precision
    assert reading.noise_var == pytest.approx(float(told["noise_var"]), rel=1e-4)
    names = {path.name.partition(".")[0] for path in place.iterdir()}
    assert names == {"device-000", "device-002", "device-003", "received"}
    sent = [read_recording(meta(place, f"device-{m:03d}")).samples for m in DEVICES]
    expected = Waveform().samples(found.frame, np.zeros((3, SYMBOLS)), DEVICES, 1, 7)
    assert np.shape(sent) == expected.shape
    peak = json.loads(meta(place).read_text())["global"]["airfeel:peak"]
    assert np.abs(sent).max() == pytest.approx(peak, rel=1e-6)


def test_other_software_reads_them(place):
    import sigmf

    opened = sigmf.fromfile(str(meta(place)))  # checks schema and digest
    opened.validate()
    np.testing.assert_array_equal(opened.read_samples(), read_recording(meta(place)).samples.astype("c8"))


def test_integers_of_a_converter_are_read_too(place):
    before = read_recording(meta(place))
    scale = np.abs(before.samples.view(float)).max() * 1.01 / 2**15
    (place / "received.sigmf-data").write_bytes((before.samples.view(float) / scale).astype("<i2").tobytes())
    change(meta(place), core__sha512=None, core__datatype="ci16_le")
    after = read_recording(meta(place)).samples * scale * 2**15
    np.testing.assert_allclose(after, before.samples, atol=2 * scale)


def test_recording_changes_neither_result_nor_hash(tmp_path):
    config = {"channel.kind": "waveform", "rounds": 2, "devices.count": 3, "devices.samples": 20}
    data = small.write_folder(tmp_path / "data")
    one, two = (
        list(af.train({**config, "channel.record": folder}, dataset=str(data)))
        for folder in ("", str(tmp_path / "samples"))
    )
    assert [record.nmse_db for record in one] == [record.nmse_db for record in two]
    assert sorted(path.name for path in (tmp_path / "samples").iterdir()) == ["round-00001", "round-00002"]
    hashes = {af.load_config({**config, "channel.record": folder}).digest() for folder in ("", "x")}
    assert len(hashes) == 1


def test_the_command_says_what_it_found(place, capsys, tmp_path):
    assert main(["receive", str(meta(place)), "--json", "--out", str(tmp_path / "out.npz")]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["round"] == 7 and facts["symbols"] == SYMBOLS and 10 < facts["snr_db"] < 60
    kept, told = np.load(tmp_path / "out.npz"), np.load(tmp_path / "told.npz")
    np.testing.assert_allclose(kept["observation"], told["heard"], atol=1e-4)
    # As radios would have recorded it: nothing of airfeel's is in it.
    fields = json.loads(meta(place).read_text())["global"]
    change(meta(place), **{key.replace(":", "__"): None for key in fields if key.startswith("airfeel")})
    assert main(["receive", str(meta(place))]) == 2
    assert "does not tell its frame: give --sent" in capsys.readouterr().err
    assert main(["receive", str(meta(place)), "--sent", str(meta(place, "device-002"))]) == 0
    assert "frame of 200 symbols in 3 rows, found at sample" in capsys.readouterr().out


def test_a_training_over_files_goes_the_whole_way(tmp_path, monkeypatch):
    """As the page says, with a process in the place of radios."""
    monkeypatch.syspath_prepend(EXAMPLES)
    from own_radio import OverFiles

    gains, rounds = tmp_path / "gains.npy", tmp_path / "rounds"
    radios = [sys.executable, str(EXAMPLES / "radios.py")]
    subprocess.run([*radios, str(gains)], check=True)
    channel = OverFiles(folder=rounds, measured=np.load(gains), patience=300)
    config = {"rounds": 3, "devices.count": 4, "devices.samples": 20, "uplink.power": 1e5}
    with subprocess.Popen([*radios, str(rounds), "3"]) as process:
        try:
            data = str(small.write_folder(tmp_path / "data"))
            found = list(af.train(config, channel=channel, dataset=data))
        finally:
            process.terminate()
    assert [record.round for record in found] == [1, 2, 3]
    assert max(record.nmse_db for record in found) < -15


def wrong_rate(place):
    change(meta(place), core__sample_rate=4e6)


def no_preamble(place):
    data(place, stream(0, "noise").standard_normal(4000).view(complex))


def truncated(place):
    data(place, read_recording(meta(place)).samples[:700])


def cut(place):
    path = place / "received.sigmf-data"
    path.write_bytes(path.read_bytes()[:-3])


def damaged(place):
    path = place / "received.sigmf-data"
    path.write_bytes(path.read_bytes()[:-8])


def clipped(place):
    parts = read_recording(meta(place)).samples.view(float)
    data(place, parts.clip(-0.3 * parts.max(), 0.3 * parts.max()).view(complex))


def not_finite(place):
    samples = read_recording(meta(place)).samples
    samples[5] = np.nan
    data(place, samples)


def empty(place):
    data(place, [])


def gone(place):
    (place / "received.sigmf-data").unlink()


def too_long(place):
    with (place / "received.sigmf-data").open("r+b") as file:
        file.truncate(8 * recordings.LONGEST + 8)


def elsewhere(place):
    told = json.loads(meta(place).read_text())
    told["captures"] = [{"core:sample_start": 10**6}]
    meta(place).write_text(json.dumps(told))


def larger_than_the_samples(place):
    change(meta(place), airfeel__frame={**asdict(Frame(SYMBOLS)), "symbols": 10**15})


def of_wide_carriers(place):
    change(meta(place), airfeel__frame={**asdict(Frame(SYMBOLS)), "subcarriers": 10**15})


WRONG = [
    (wrong_rate, r"core:sample_rate is 4e\+06: must be 5e\+06, the frame's"),
    (no_preamble, "no preamble in 2000 samples: the best fit is"),
    (truncated, "700 samples are fewer than the 960 of a frame"),
    (cut, "bytes are no whole samples of 8: it is cut off"),
    (damaged, "is not what core:sha512 in received.sigmf-meta says: cut off, or another one"),
    (clipped, r"\d+ % of the values are at the limit: it was clipped; record it with less gain"),
    (not_finite, r"sample 5 is .*nan.*: all must be finite"),
    (empty, "0 bytes are no whole samples of 8"),
    (gone, r"received.sigmf-data: No such file or directory"),
    (too_long, "has more than 16777216 samples: cut out what is around the frame"),
    (elsewhere, "core:sample_start tells of sample 1000000 of "),
    (larger_than_the_samples, "samples are fewer than the"),
    (of_wide_carriers, "subcarriers = 10+: must be a whole number >= 4 and <= 65536"),
]


@pytest.mark.parametrize(("spoil", "rule"), WRONG, ids=[spoil.__name__ for spoil, _ in WRONG])
def test_spoiled_recordings_are_one_sentence(place, capsys, spoil, rule):
    spoil(place)
    assert main(["receive", str(meta(place))]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1 and re.search(rule, said[0]), said


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({"core__datatype": "rf32_le"}, "core:datatype is rf32_le: must be complex"),
        ({"core__datatype": "cf99_le"}, "are no SigMF metadata"),
        ({"core__datatype": None}, "are no SigMF metadata"),
        ({"core__datatype": "cf64_le"}, "no whole samples|a frame|all must be finite|no preamble"),
        ({"core__num_channels": 2}, "core:num_channels is 2: must be 1"),
        ({"core__num_channels": 10**30}, "are no SigMF metadata|core:num_channels is 10"),
        ({"core__dataset": "../../etc/passwd"}, "are no SigMF metadata|describes a file in another format"),
        ({"core__trailing_bytes": 8}, "core:trailing_bytes is 8: must be 0"),
        ({"core__sample_rate": None}, "must have core:sample_rate"),
        ({"core__sample_rate": "fast"}, "are no SigMF metadata"),
        ({"airfeel__round": -3}, "airfeel:round = -3: must be a whole number >= 1"),
        ({"airfeel__round": "seven"}, "airfeel:round = 'seven': must be a whole number"),
        ({"airfeel__round": 10**16}, "airfeel:round = 10000000000000000: must be a whole number >= 1 and <="),
        ({"airfeel__frame": [1, 2]}, "airfeel:frame must have exactly symbols, subcarriers"),
        ({"airfeel__frame": {"symbols": 3}}, "airfeel:frame must have exactly symbols, subcarriers"),
        ({"airfeel__frame": {**asdict(Frame(5)), "symbols": -1}}, "symbols = -1: must be"),
        ({"airfeel__frame": {**asdict(Frame(5)), "used": "all"}}, "used = 'all': must be"),
        ({"airfeel__frame": {**asdict(Frame(5)), "used": 10**18}}, "used = 10"),
    ],
)
def test_a_header_that_lies_is_one_sentence(place, fields, rule):
    change(meta(place), **fields)
    with pytest.raises((Unreadable, ValueError), match=rule) as raised:
        decode(meta(place))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"global": 3}', "[" * 100_000, "\xff", '{"global": {}}']
)
def test_what_is_no_metadata_is_one_sentence(place, text):
    meta(place).write_text(text, encoding="latin-1")
    with pytest.raises(Unreadable, match="is not valid JSON|are no SigMF metadata") as raised:
        read_recording(meta(place))
    assert "\n" not in str(raised.value)


def test_of_another_round(place, capsys):
    assert main(["receive", str(meta(place)), "--round", "8"]) == 2
    assert "is of round 7: must be of round 8" in capsys.readouterr().err
    channel = replace(Waveform(), record=str(place.parent))
    link = channel.link(4, SYMBOLS, seed=1, round=8)
    channel.transmit(link, np.where(link.active, 20.0, 0), np.arange(4), seed=1, round=8)
    other = meta(place.parent / "round-00008", "device-000")
    assert main(["receive", str(meta(place)), "--sent", str(other)]) == 2
    assert "is of round 7: must be of round 8" in capsys.readouterr().err


def test_the_name_of_the_metadata_is_wanted(place):
    with pytest.raises(
        Unreadable, match="must be the metadata of a recording, whose name ends in .sigmf-meta"
    ):
        read_recording(place / "received.sigmf-data")
