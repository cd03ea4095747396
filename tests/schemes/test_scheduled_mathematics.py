"""The derivations of docs/scheduled-mathematics.md, checked by simulation or by a search."""

import numpy as np
import pytest

DEVICES, WAIT, VISITS = 40, 20, 3000


def lumps(heard, mean, spread, seed):
    """Return what arrives at every visit of one coefficient: late, fresh, and without radio.

    Devices differ by constants d_m; in every round ``heard`` of them, drawn anew, compute and are heard.
    """
    rng = np.random.default_rng(seed)
    d = rng.standard_normal(DEVICES)
    d = spread * (d - d.mean()) / d.std()
    waiting, found = np.zeros(DEVICES), []
    for _ in range(VISITS):
        rounds = np.array([rng.permutation(DEVICES)[:heard] for _ in range(WAIT)])
        np.add.at(waiting, rounds, (mean + d)[rounds])
        now = rounds[-1]
        fresh, free = WAIT * (mean + d[now]).mean(), (mean + d[rounds]).mean(axis=1).sum()
        found.append((waiting[now].mean(), fresh, free))
        waiting[now] = 0
    return np.array(found).T


@pytest.mark.parametrize(("heard", "mean"), [(20, 0.3), (10, 1.0), (8, 0.0)])
def test_late_lumps_have_at_least_twice_the_variance_of_fresh_ones(heard, mean):
    """All have the mean L mu; their variances are those of section 1."""
    late, fresh, free = lumps(heard, mean, 1.0, seed=heard)
    p, unit = heard / DEVICES, (1 - heard / DEVICES) / heard * DEVICES / (DEVICES - 1)
    for found in (late, fresh, free):
        assert found.mean() == pytest.approx(WAIT * mean, abs=4 * found.std() / np.sqrt(VISITS) + 1e-9)
    assert np.var(late) == pytest.approx(WAIT**2 * (1 - p) / heard * (mean**2 + 2), rel=0.2)
    assert np.var(fresh) == pytest.approx(WAIT**2 * unit, rel=0.12)
    assert np.var(free) == pytest.approx(WAIT * unit, rel=0.12)


@pytest.mark.parametrize("steps", [2.2, 3.0, 8.0, 40.0])
def test_the_schedule_heals_an_overshoot_and_a_fixed_wait_does_not(steps):
    """theta <- (1 - L kappa) theta: |.| > 1 from L kappa = 2 on; V = E L^2 fixes L |kappa theta|."""
    kappa, wait = 0.1, steps / 0.1
    fixed = scheduled = 1.0
    threshold, seen = (wait * kappa * scheduled) ** 2, []
    for _ in range(30):
        fixed *= 1 - wait * kappa
        own = np.sqrt(threshold) / abs(kappa * scheduled)  # L at which E L^2 reaches the common threshold
        scheduled *= 1 - own * kappa
        seen.append(abs(scheduled))
    assert abs(fixed) > 100
    assert max(seen) <= steps + 1e-9  # one lump is sqrt(V), wherever theta is


@pytest.mark.parametrize("clip", [2.0, 3.0])
def test_the_clip_stops_growth_by_more_than_the_record_expects(clip):
    """Growing by r at every visit, f^2 / E tends to 2 r^2 - 1: c^2 is less from sqrt((c^2 + 1) / 2) on."""
    edge = np.sqrt((clip**2 + 1) / 2)
    for r in (0.98 * edge, 1.02 * edge):
        record, found = 1.0, 1.0
        for _ in range(60):
            found *= r
            ratio = found**2 / record
            record = (record + found**2) / 2
        assert ratio == pytest.approx(2 * r**2 - 1, rel=1e-6)
        assert (ratio > clip**2) == (r > edge)


@pytest.mark.parametrize("left", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("moved", [0.1, 0.5])
def test_what_noise_is_left_in_the_control(left, moved):
    """x = L H + y: gain 1 + a W k / (1 - k) at frequency zero, variance 1 + (a W k)^2 / (1 - k^2)."""
    rng = np.random.default_rng(4)
    noise, control, found = rng.standard_normal(200_000), 0.0, np.empty(200_000)
    for i, nu in enumerate(noise):
        control *= left
        found[i] = control + nu
        control += moved * nu
    gain, power = 1 + moved * left / (1 - left), 1 + (moved * left) ** 2 / (1 - left**2)
    assert found.var() == pytest.approx(power, rel=0.02)
    # Long sums see frequency zero alone: blocks far longer than the control remembers.
    sums = [part.reshape(-1, 500).sum(axis=1) for part in (found, noise)]
    assert np.polyfit(sums[1], sums[0], 1)[0] == pytest.approx(gain, rel=0.02)


@pytest.mark.parametrize("left", [0.3, 0.6])
@pytest.mark.parametrize("p", [0.2, 0.5, 0.8])
def test_how_much_of_what_devices_differ_by_is_known(left, p):
    """Heard with chance p at a visit, a device has q = a p k / (1 - k (1 - a p)) of d at the next one."""
    rng, a = np.random.default_rng(5), 1 - p
    h = np.zeros(200_000)
    for _ in range(60):
        h = left * (h + a * (rng.random(len(h)) < p) * (1 - h))
    assert h.mean() == pytest.approx(a * p * left / (1 - left * (1 - a * p)), rel=0.02)


def cost(a, p, left, ratio):
    """Return what remains of differences plus noise, in variances of a visit: section 4."""
    known = a * p * left / (1 - left * (1 - a * p))
    return ratio * (1 - p) * (1 - known) ** 2 + (1 + a * p * left / (1 - left)) ** 2


@pytest.mark.parametrize("ratio", [0.0, 1.0, 4.0, 16.0, 100.0])
@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8, 0.95, 1.0])
def test_one_minus_the_share_is_never_far_from_the_best(p, ratio):
    """At k = 0.3: within a quarter of the least cost over all a; within half where devices differ by much."""
    best = min(cost(a, p, 0.3, ratio) for a in np.linspace(0, 1, 201))
    assert cost(1 - p, p, 0.3, ratio) <= (1.25 if ratio < 20 else 1.5) * best
    if p == 1:
        assert best == cost(0, p, 0.3, ratio)
