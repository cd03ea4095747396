"""Responses of a street canyon (3GPP TR 38.901 UMi) by Sionna, for ``channel.kind = "response"``.

    pip install sionna-no-rt     (1.2 GB with PyTorch; not a dependency of airfeel)
    python sionna_responses.py street.npz --devices 25 --rounds 20
    airfeel run --set channel.kind=response --set channel.source=street.npz --set uplink.policy=mse

Every round is one slot of 14 OFDM symbols from each device to a base station with one antenna. Devices keep
their places, path losses and shadows; the paths in between are drawn anew in each round. The file holds the
array ``responses`` (rounds, devices, elements), subcarrier by subcarrier in one OFDM symbol after another, as
amplitudes received over sent.
"""

import argparse

import numpy as np

SYMBOLS = 14  # OFDM symbols of a slot


def street(devices, rounds, subcarriers=120, spacing=30e3, carrier=3.5e9, seed=1):
    """Return responses (rounds, devices, elements) as complex64."""
    import sionna.phy
    from sionna.phy.channel import cir_to_ofdm_channel, gen_single_sector_topology, subcarrier_frequencies
    from sionna.phy.channel.tr38901 import PanelArray, UMi

    sionna.phy.config.seed = seed
    single = PanelArray(
        num_rows_per_panel=1,
        num_cols_per_panel=1,
        polarization="single",
        polarization_type="V",
        antenna_pattern="omni",
        carrier_frequency=carrier,
    )
    model = UMi(carrier, "low", single, single, direction="uplink")
    model.set_topology(*gen_single_sector_topology(1, devices, "umi"))
    frequencies = subcarrier_frequencies(subcarriers, spacing)
    drawn = []
    for _ in range(rounds):
        gains, delays = model(SYMBOLS, spacing)  # one sample for each OFDM symbol
        h = cir_to_ofdm_channel(
            frequencies, gains, delays
        )  # 1, 1, antennas, devices, antennas, time, frequency
        drawn.append(h.cpu().numpy()[0, 0, 0, :, 0].reshape(devices, -1))
    return np.array(drawn, dtype=np.complex64)


def main():
    """Write a file and say how far apart the devices are."""
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("path", help="the npz file to write")
    parser.add_argument("--devices", type=int, default=25)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    responses = street(given.devices, given.rounds, seed=given.seed)
    np.savez_compressed(given.path, responses=responses)
    gains = 10 * np.log10(np.mean(np.abs(responses.astype(complex)) ** 2, axis=(0, 2)))
    print(f"{given.path}: {responses.shape}, mean gains from {gains.min():.0f} to {gains.max():.0f} dB")


if __name__ == "__main__":
    main()
