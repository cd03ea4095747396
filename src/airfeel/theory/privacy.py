"""What the noise of the channel guarantees: differential privacy of a device, with its conditions.

The server sees y = sum of signals + n alone. Take one device away, in all rounds: y moves by no more than
sqrt(P), if no more than P arrives from a device in a round, and n ~ N(0, sigma_e^2 I) in every symbol. That
is zero-concentrated differential privacy of rho = P / (2 sigma_e^2) in a round, and rounds add up (Bun and
Steinke, "Concentrated differential privacy: simplifications, extensions, and lower bounds", TCC 2016):
epsilon = rho + 2 (rho log(1 / delta))^(1/2). It holds if alpha and the norm limit do not follow the data
(``uplink.policy = "fixed"``).
"""

import math

from airfeel import _checks

DELTA = 1e-5  # chance with which the guarantee may fail
STRICT = 8.0  # epsilon that people ask for at least
MOST_DEVICES = 10_000  # beyond it nobody is served by one server


def epsilon(power: float, rounds: int, noise_var: float = 1.0, delta: float = DELTA) -> float:
    """Return epsilon after so many rounds in each of which a device's signal arrives with at most ``power``.

    >>> round(epsilon(500.0, 300)), round(epsilon(0.007, 300), 1)
    (76858, 8.0)
    """
    rho = rounds * _checks.real("power", power, above=0) / (2 * noise_var)
    return rho + 2 * math.sqrt(rho * math.log(1 / delta))


def power_for(wanted: float, rounds: int, noise_var: float = 1.0, delta: float = DELTA) -> float:
    """Return the power of a device in a round at which epsilon is as wanted.

    >>> round(power_for(8.0, 300), 4)
    0.007
    """
    log = math.log(1 / delta)
    rho = (math.sqrt(log + _checks.real("epsilon", wanted, above=0)) - math.sqrt(log)) ** 2
    return 2 * noise_var * rho / rounds


def devices_for(snr: float, symbols: int, power: float, noise_var: float = 1.0) -> int:
    """Return how many equal devices of this power have a receive SNR M^2 P / (s sigma_e^2).

    >>> devices_for(snr=398.0, symbols=785, power=0.007)
    6681
    """
    return math.ceil(math.sqrt(snr * symbols * noise_var / power))


def guarantee(power: float, rounds: int, symbols: int, snr: float, noise_var: float, fixed: bool) -> str:
    """Return what the noise of a link guarantees, in a sentence with its conditions.

    >>> guarantee(500.0, 300, 785, 398.0, 1.0, fixed=True)[:70]
    'The noise hides no device (epsilon 76,858 at delta 1e-05 in 300 rounds'
    """
    found, strict = epsilon(power, rounds, noise_var), power_for(STRICT, rounds, noise_var)
    needed = devices_for(snr, symbols, strict, noise_var)
    if needed <= MOST_DEVICES:
        instead = f"takes P = {strict:.4g}, and then {needed:,} devices for the same SNR"
    else:
        instead = f"at the same SNR is out of reach with up to {MOST_DEVICES:,} devices"
    number = f"epsilon {found:,.3g}" if found < 1000 else f"epsilon {found:,.0f}"
    number += f" at delta {DELTA:g} in {rounds} rounds"
    if found > STRICT or not fixed:
        only = "" if fixed else ", and that only with uplink.policy = fixed"
        return f"The noise hides no device ({number}{only}): epsilon {STRICT:g} {instead}."
    return (
        f"The noise gives every device differential privacy of {number}, as alpha is fixed, no more than P "
        "arrives from any device that knows its channel, and if the server sees nothing but y."
    )
