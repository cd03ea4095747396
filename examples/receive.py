"""Recover slowly changing sparse vectors from a tenth as many noisy measurements, round after round."""

import numpy as np

import airfeel as af

rng = np.random.default_rng(0)
x = np.where(rng.random(8000) < 0.05, rng.standard_normal(8000), 0.0)  # 5 % of the coefficients are active
receiver = af.TSAGA(activity=0.05, p01=0.005, beta=0.005)
state = receiver.init(x.size)
for t in range(20):
    x = np.where(x != 0, 0.99 * x + 0.14 * rng.standard_normal(x.size), 0.0)  # amplitudes drift
    operator = af.PartialDCT(size=x.size, rows=800, seed=t)
    y = operator @ x + 0.02 * rng.standard_normal(800)
    estimate, state = receiver.receive(state, af.Reception(y, operator, noise_var=0.02**2))
    print(t + 1, f"{10 * np.log10(np.sum((estimate.mean - x) ** 2) / np.sum(x**2)):.1f} dB")
