"""Receptions of a real radio: complex channel uses are two real measurements each."""

import numpy as np
import pytest

import airfeel as af
from modeldata import Model, sample_chains


@pytest.mark.parametrize("rows", [400, 401])
def test_i_and_q_are_two_measurements(rows):
    """Stacked by hand or by the reception, half of the noise in each: the same estimate, byte for byte."""
    model, rng = Model(size=2000, ratio=0.2), np.random.default_rng(1)
    support, amplitude = sample_chains(model, 1, rng)
    operator = af.PartialDCT(2000, rows, seed=2)
    y = operator @ (support[0] * amplitude[0]) + 0.02 * rng.standard_normal(rows)
    padded = np.append(y, np.zeros(rows % 2))
    uses = padded[0::2] + 1j * padded[1::2]
    receiver = model.known()
    real, _ = receiver.receive(receiver.init(2000), af.Reception(y, operator, 0.02**2))
    complex_, _ = receiver.receive(receiver.init(2000), af.Reception(uses, operator, 2 * 0.02**2))
    assert complex_.mean.tobytes() == real.mean.tobytes()
    unequal = np.linspace(1e-4, 1e-3, len(uses))
    reception = af.Reception(uses, operator, unequal)
    assert (reception.noise_var == np.repeat(unequal / 2, 2)[:rows]).all()
    assert af.Reception(uses.astype(np.complex64), operator, 1e-4).observation.dtype == np.float32
