"""How much does each imperfection of radios cost, alone, over its size?

    python waveform_impairments.py                   a table
    python waveform_impairments.py impairments.svg   and a figure (needs airfeel[report])

25 devices send 785 independent numbers each through `channel.kind = "waveform"` without noise, with all
impairments off but one. Printed is the error of the received mean, in decibel; the mean over rounds.
"""

import sys
from dataclasses import replace

import numpy as np

import airfeel as af
from airfeel.radio.link import superpose
from airfeel.radio.waveform import Waveform
from airfeel.units import decibel

DEVICES, SYMBOLS, ROUNDS = 25, 785, range(1, 11)
IDEAL = Waveform(
    noise_var=0.0,
    csi_error=0.0,
    timing_error=0.0,
    carrier_error=0.0,
    phase_drift=0.0,
    clipping_db=300.0,
    bits=0,
)
SIZES = {
    "csi_error": ("noise of the downlink over the gain", [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1]),
    "phase_error": ("phase, radians", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5]),
    "timing_error": ("delay, samples", [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0]),
    "carrier_error": ("frequency, subcarrier spacings", [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02]),
    "phase_drift": ("drift at the end of a frame, degrees", [1, 2, 5, 10, 20]),
    "clipping_db": ("clipping over the mean power, dB", [2, 4, 6, 8, 10]),
    "bits": ("bits of the converters", [3, 4, 6, 8, 10, 12]),
}


def error(channel):
    """Return the NMSE of what arrives, in decibel."""
    found, devices = [], np.arange(DEVICES)
    for t in ROUNDS:
        link = channel.link(DEVICES, SYMBOLS, seed=0, round=t)
        numbers = af.stream(0, "numbers", t).standard_normal((DEVICES, SYMBOLS))
        signals = np.where(link.active, numbers, 0.0)
        wanted = superpose(replace(link, gain=np.ones(DEVICES)), signals, 0, t)
        heard, _ = channel.transmit(link, signals, devices, seed=0, round=t)
        found.append(np.sum((heard - wanted) ** 2) / np.sum(wanted**2))
    return decibel(float(np.mean(found)))


def rows():
    """Yield impairment, size and error."""
    for name, (_, sizes) in SIZES.items():
        for size in sizes:
            yield name, size, error(replace(IDEAL, **{name: size}))


def draw(table, path):
    """Write a figure."""
    import altair
    import vl_convert

    charts = []
    for name, (title, _) in SIZES.items():
        values = [{"size": size, "error": level} for one, size, level in table if one == name]
        scale = "linear" if name in ("clipping_db", "bits") else "log"
        charts.append(
            altair.Chart(altair.Data(values=values))
            .mark_line(point=True)
            .encode(
                x=altair.X(
                    "size:Q", title=title, scale=altair.Scale(type=scale), axis=altair.Axis(labelSeparation=9)
                ),
                y=altair.Y("error:Q", title="NMSE, dB", scale=altair.Scale(domain=[-65, 5])),
            )
            .properties(width=190, height=160, title=name)
        )
    with open(path, "w") as file:
        file.write(vl_convert.vegalite_to_svg(altair.concat(*charts, columns=4).to_json()))


if __name__ == "__main__":
    table = list(rows())
    print("impairment         size   NMSE, dB")
    for name, size, level in table:
        print(f"{name:14s}  {size:7g}   {level:8.1f}")
    for path in sys.argv[1:]:
        draw(table, path)
