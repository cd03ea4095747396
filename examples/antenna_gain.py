"""How much do more receive antennas help when one combiner serves all devices?

    python antenna_gain.py                    a table
    python antenna_gain.py antenna-gain.svg   and a figure (needs airfeel[report])

Devices invert what the combiner makes of their channels, so with one alpha for all the weakest device counts.
Printed is its gain |a^H h_m|^2 in decibel, over a mean gain of 0 dB per antenna; the mean over seeds.
"""

import sys

import numpy as np

from airfeel.radio.antennas import Antennas, fair, principal
from airfeel.units import decibel

DEVICES, ANTENNAS, SEEDS = (1, 5, 25), (1, 2, 4, 8, 16, 32, 64), range(20)


def weakest(devices, antennas, combiner):
    """Return the mean over seeds of the least gain, in decibel."""
    least = []
    for seed in SEEDS:
        h = Antennas(antennas=antennas).channels(devices, seed, round=1)
        least.append((np.abs(h @ combiner(h).conj()) ** 2).min())
    return decibel(float(np.mean(least)))


def rows():
    """Yield devices, antennas, name of the curve and gain."""
    for devices in DEVICES:
        for antennas in ANTENNAS:
            yield devices, antennas, "fair", weakest(devices, antennas, fair)
            yield devices, antennas, "principal", weakest(devices, antennas, principal)
            yield devices, antennas, "bound", decibel((1 + np.sqrt(antennas / devices)) ** 2)


def draw(table, path):
    """Write a figure."""
    import altair
    import vl_convert

    names = ("devices", "antennas", "combiner", "gain")
    data = altair.Data(values=[dict(zip(names, row, strict=True)) for row in table])
    chart = (
        altair.Chart(data)
        .mark_line(point=True)
        .encode(
            x=altair.X("antennas:Q", title="receive antennas R", scale=altair.Scale(type="log", base=2)),
            y=altair.Y("gain:Q", title="gain of the weakest device, dB"),
            color=altair.Color("combiner:N", sort=["bound", "fair", "principal"], title=None),
            column=altair.Column("devices:O", title="devices"),
        )
        .properties(width=190, height=240)
    )
    with open(path, "w") as file:
        file.write(vl_convert.vegalite_to_svg(chart.to_json()))


if __name__ == "__main__":
    table = list(rows())
    print("devices  antennas  combiner   gain of the weakest, dB")
    for devices, antennas, combiner, gain in table:
        print(f"{devices:7d}  {antennas:8d}  {combiner:9s}  {gain:6.1f}")
    for path in sys.argv[1:]:
        draw(table, path)
