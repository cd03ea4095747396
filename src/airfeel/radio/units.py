"""Hertz, watts and seconds beside the units in which everything is computed: energies over sigma_e^2.

A complex baseband of bandwidth B carries B complex channel uses a second, and each of them two real symbols
(in phase and quadrature). A real symbol has the noise energy N0/2, which is sigma_e^2 = 1 here.
"""

from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Gt

from airfeel.ranges import Checked, RadioLevel
from airfeel.units import decibel, from_decibel

BOLTZMANN = 1.380649e-23  # J/K, by definition
TEMPERATURE = 290.0  # K, to which noise figures refer: -174 dBm/Hz
NOISE_FIGURE_DB = 7.0  # of a usual base station, where nothing else is said
OVERHEAD = 0.3  # cyclic prefix, pilots and guards of LTE and NR are 0.25 to 0.35 in all
BITS = 32  # of a number on its way to the devices


def watts(level_dbm: float) -> float:
    """Return the power that so many dBm stand for.

    >>> watts(30.0)
    1.0
    """
    return from_decibel(level_dbm - 30)


@dataclass(frozen=True, slots=True)
class RadioUnits(Checked):
    """The radio of one device, as an engineer states it.

    ``bandwidth_hz`` is B of the complex baseband; ``tx_power_dbm`` the most a device sends with in any round;
    ``path_loss_db`` that between device and server, antenna gains included (where devices differ, the loss to
    which a channel's costs refer); ``noise_figure_db`` the receiver's; ``overhead`` air time beyond that of
    the symbols, as a share of it: cyclic prefix, pilots, guards. ``downlink_bps_hz`` are the bits that the
    server brings to every device per second and hertz, overhead left out already; None: as many as the
    weakest of them could receive from a server that sends with the power of a device.

    20 MHz, 23 dBm over 120 dB and a noise figure of 7 dB: the noise is -174 + 73 + 7 = -94 dBm, the signal of
    a device -97 dBm.

    >>> units = RadioUnits(bandwidth_hz=20e6, tx_power_dbm=23, path_loss_db=120, noise_figure_db=7)
    >>> round(units.snr_db, 1)
    -3.0
    >>> round(units.power(785), 1), round(1e6 * units.air_seconds(785), 1)
    (391.4, 25.5)
    """

    bandwidth_hz: Annotated[float, Gt(0)]
    tx_power_dbm: RadioLevel
    path_loss_db: RadioLevel
    noise_figure_db: RadioLevel = NOISE_FIGURE_DB
    overhead: Annotated[float, Ge(0)] = OVERHEAD
    downlink_bps_hz: Annotated[float, Gt(0)] | None = None

    @property
    def noise_density(self) -> float:
        """N0 = k T F, in watts per hertz, which is joules."""
        return BOLTZMANN * TEMPERATURE * from_decibel(self.noise_figure_db)

    @property
    def snr(self) -> float:
        """g p / (N0 B), of one device in a channel use."""
        received = watts(self.tx_power_dbm - self.path_loss_db)
        return received / (self.noise_density * self.bandwidth_hz)

    @property
    def snr_db(self) -> float:
        """:attr:`snr` in decibel."""
        return decibel(self.snr)

    def power(self, symbols: float) -> float:
        """Return P = s SNR: the energy that arrives from a device in so many real symbols, over sigma_e^2."""
        return symbols * self.snr

    def air_seconds(self, symbols: float) -> float:
        """Return how long so many real symbols take, two in each channel use: (s/2) / B, and the overhead."""
        return symbols / (2 * self.bandwidth_hz / (1 + self.overhead))

    def downlink_seconds(self, numbers: int, weakest: float) -> float:
        """Return how long so many numbers of 32 bits take on their way to all devices at once.

        ``weakest`` are the bits per channel use that the weakest device could receive, which the overhead
        slows down; they count where no rate is stated.
        """
        rate = weakest / (1 + self.overhead) if self.downlink_bps_hz is None else self.downlink_bps_hz
        return BITS * numbers / (rate * self.bandwidth_hz)

    def joules(self, energy: float) -> float:
        """Return what a device sends for an energy in the units of P: energy (N0/2) / g, and the overhead.

        That of P is the transmit power times the air time.
        """
        at_the_server = energy * self.noise_density / 2 * (1 + self.overhead)
        return at_the_server * from_decibel(self.path_loss_db)

    def with_snr_db(self, snr_db: float) -> "RadioUnits":
        """Return the radio with the transmit power that gives this SNR."""
        return replace(self, tx_power_dbm=self.tx_power_dbm + (snr_db - self.snr_db))
