"""``airfeel receive``: what is in a recording of samples."""

import json as encoding
from pathlib import Path

from airfeel.commands import Flag, Whole, log, show


def receive(
    recording: Path,
    /,
    *,
    sent: Path | None = None,
    round: Whole = None,
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Decode a SigMF recording of a round into what the server hears, and say what was found on the way.

    Recordings are made by airfeel run --set channel.kind=waveform --set channel.record=DIR, or by radios that
    played such files. Needs the extra "sigmf".

    Example: airfeel receive samples/round-00001/received.sigmf-meta --out heard.npz

    Parameters
    ----------
    recording
        The metadata of a recording, FILE.sigmf-meta.
    sent
        The metadata of what a device sent in that round, where the recording does not tell its frame.
    round
        The round that it must be of.
    out
        Where to write the observation and its noise variance, as an npz file.
    json
        Print one JSON object.
    """
    import io

    import numpy as np

    from airfeel._files import write_atomically
    from airfeel.radio.recordings import decode

    found, reading = decode(recording, sent, round)
    frame = found.frame
    assert frame is not None
    told = ("start", "offset_hz", "phase_deg", "snr_db", "noise_var")
    facts = {"round": found.round, "symbols": frame.symbols, **{key: getattr(reading, key) for key in told}}
    if out is not None:
        held = io.BytesIO()
        np.savez(held, observation=reading.symbols, noise_var=reading.noise_var)
        write_atomically(out, held.getvalue())
        log.info(f"wrote {out}")
    if json:
        show(encoding.dumps(facts))
        return
    show(f"frame of {frame.symbols} symbols in {frame.rows} rows, found at sample {reading.start:.2f}")
    show(f"frequency offset {reading.offset_hz:.1f} Hz, common phase {reading.phase_deg:.1f} degrees")
    show(f"SNR {reading.snr_db:.1f} dB, noise variance {reading.noise_var:.4g} per symbol")
