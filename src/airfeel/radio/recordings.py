"""Samples in files: what devices send and the server hears in a round, as SigMF recordings.

A recording is a pair of files, ``.sigmf-data`` and ``.sigmf-meta``, which radio software reads. Its metadata
names what airfeel needs to know in fields of its own, ``airfeel:round`` and ``airfeel:frame`` among them.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _files
from airfeel._extras import LazyModule
from airfeel.radio.frame import Complex, Frame, FrameMissing, FrameReading
from airfeel.ranges import MOST

sigmf: Any = LazyModule("sigmf", "sigmf", "recordings need")
sigmffile: Any = LazyModule("sigmf.sigmffile", "sigmf", "recordings need")

META, DATA = ".sigmf-meta", ".sigmf-data"
LONGEST = 2**24  # samples of a recording at most: three seconds at 5 MHz
FLAT = 0.01  # share of samples at the limit of a recording that was clipped: of OFDM it is one in thousands


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Samples of a round, with the frame that is in them; None where the file does not say which."""

    samples: Complex
    sample_rate: float
    frame: Frame | None
    round: int | None


def write_round(
    folder: Path,
    frame: Frame,
    sent: Complex,
    devices: NDArray[np.intp],
    seed: int,
    round: int,
    received: Complex | None = None,
) -> Path:
    """Write what each of these devices sends in a round, and what the server heard; return their folder.

    ``airfeel:peak`` is the largest amplitude of all: dividing by it keeps every device inside a converter's
    range, and their levels in proportion.
    """
    place = folder / f"round-{round:05d}"
    place.mkdir(parents=True, exist_ok=True)
    about = {"seed": seed, "round": round, "devices": [int(m) for m in devices], "frame": asdict(frame)}
    about["peak"] = float(np.abs(sent).max(initial=0.0))
    for device, samples in zip(devices, sent, strict=True):
        _write(place / f"device-{device:03d}", samples, frame, {**about, "device": int(device)})
    if received is not None:
        _write(place / "received", received, frame, about)
    return place


def _write(path: Path, samples: Complex, frame: Frame, about: Mapping[str, Any]) -> None:
    """Write one recording, the same bytes for the same samples."""
    data = samples.astype("<c8").tobytes()
    fields = {
        "core:datatype": "cf32_le",
        "core:sample_rate": frame.sample_rate,
        "core:sha512": hashlib.sha512(data).hexdigest(),
        "core:recorder": "airfeel",
        "core:extensions": [{"name": "airfeel", "version": "1.0.0", "optional": True}],
        **{f"airfeel:{name}": value for name, value in about.items()},
    }
    made = sigmf.SigMFFile(global_info=fields)
    made.add_capture(0)
    made.validate()
    _files.write_atomically(path.with_name(path.name + DATA), data)
    _files.write_atomically(path.with_name(path.name + META), made.dumps(pretty=True).encode())


def read_recording(path: Path) -> Recording:
    """Return a recording, given the path of its metadata; whatever is wrong with it is one sentence."""
    if not path.name.endswith(META):
        raise _files.refuse(path, f"must be the metadata of a recording, whose name ends in {META}")
    metadata = _metadata(path)
    fields: dict[str, Any] = metadata["global"]
    data_path = path.with_name(path.name.removesuffix(META) + DATA)
    size = sigmffile.dtype_info(fields["core:datatype"])["sample_size"]
    if data_path.stat().st_size > LONGEST * size:
        raise _files.refuse(data_path, f"has more than {LONGEST} samples: cut out what is around the frame")
    data = _files.read_bytes(data_path, LONGEST * size)
    if len(data) % size or not data:
        raise _files.refuse(data_path, f"{len(data)} bytes are no whole samples of {size}: it is cut off")
    if "core:sha512" in fields and hashlib.sha512(data).hexdigest() != fields["core:sha512"]:
        raise _files.refuse(
            data_path, f"is not what core:sha512 in {path.name} says: cut off, or another one"
        )
    for part in metadata["captures"]:
        place = part["core:sample_start"] - fields.get("core:offset", 0)
        if not 0 <= place < len(data) // size:
            raise _files.refuse(path, f"core:sample_start tells of sample {place} of {len(data) // size}")
    opened = sigmf.SigMFFile(metadata={"global": fields, "captures": [], "annotations": []})
    opened.set_data_file(data_buffer=io.BytesIO(data), skip_checksum=True)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
        samples = opened.read_samples().astype(np.complex128)
    parts = samples.view(np.float64)
    if not np.isfinite(parts).all():
        bad = int(np.flatnonzero(~np.isfinite(parts))[0]) // 2
        raise _files.refuse(data_path, f"sample {bad} is {samples[bad]}: all must be finite")
    limit = float(np.mean(np.abs(parts) >= np.abs(parts).max(initial=0.0))) if parts.any() else 0.0
    if limit > FLAT:
        rule = f"{100 * limit:.0f} % of the values are at the limit: it was clipped; record it with less gain"
        raise _files.refuse(data_path, rule)
    return Recording(samples, float(fields["core:sample_rate"]), *_told(path, fields))


def decode(path: Path, sent: Path | None = None, round: int | None = None) -> tuple[Recording, FrameReading]:
    """Return a recording and what the server makes of it; of a ``round``, if one is given.

    ``sent`` is what a device sent in that round, where the recording itself does not tell frame and round.
    """
    found = read_recording(path)
    if sent is not None:
        told = read_recording(sent)
        round = told.round if round is None else round
        found = replace(found, frame=told.frame, round=told.round if found.round is None else found.round)
    if found.frame is None:
        raise _files.refuse(path, "does not tell its frame: give --sent, what a device sent in that round")
    if found.sample_rate != found.frame.sample_rate:
        wanted = f"must be {found.frame.sample_rate:g}, the frame's"
        raise _files.refuse(path, f"core:sample_rate is {found.sample_rate:g}: {wanted}")
    if round is not None and found.round != round:
        raise _files.refuse(path, f"is of round {found.round}: must be of round {round}")
    try:
        return found, found.frame.demodulate(found.samples)
    except FrameMissing as error:
        raise _files.refuse(path, str(error)) from None


def _metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a recording, if SigMF allows them and they can be read here."""
    try:
        metadata: dict[str, Any] = _files.parse_json(_files.read_bytes(path, _files.SETTINGS))
    except ValueError as error:
        raise _files.refuse(path, f"is not JSON ({error})") from None
    try:
        sigmf.validate.validate(metadata)
    except ImportError:
        raise
    except Exception as error:  # whatever a schema's checker makes of anybody's file
        said = str(getattr(error, "message", error)).partition("\n")[0][:200]
        raise _files.refuse(path, f"are no SigMF metadata ({said})") from None
    fields = metadata["global"]
    rule = ""
    for key, wanted in (("core:num_channels", 1), ("core:trailing_bytes", 0), ("core:metadata_only", False)):
        if fields.get(key, wanted) != wanted:
            rule = f"{key} is {json.dumps(fields[key])}: must be {json.dumps(wanted)}"
    if "core:dataset" in fields or any(part.get("core:header_bytes") for part in metadata["captures"]):
        rule = "describes a file in another format: must be samples alone, in SigMF's"
    elif not fields["core:datatype"].startswith("c"):
        rule = f"core:datatype is {fields['core:datatype']}: must be complex, such as cf32_le"
    elif not fields.get("core:sample_rate"):
        rule = "must have core:sample_rate, in hertz"
    if rule:
        raise _files.refuse(path, rule)
    return metadata


def _told(path: Path, fields: Mapping[str, Any]) -> tuple[Frame | None, int | None]:
    """Return the frame and the round of which the metadata tell."""
    frame, round, known = fields.get("airfeel:frame"), fields.get("airfeel:round"), Frame.__dataclass_fields__
    if frame is not None and (not isinstance(frame, Mapping) or set(frame) != set(known)):
        raise _files.refuse(path, f"airfeel:frame must have exactly {', '.join(known)}")
    try:
        if round is not None:
            round = _checks.integer("airfeel:round", round, at_least=1, at_most=MOST)
        return None if frame is None else Frame(**frame), round
    except ValueError as error:
        raise _files.refuse(path, str(error)) from None
