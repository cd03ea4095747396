import numpy as np
import pytest
from scipy import stats

from airfeel.learning.partitions import (
    by_classes,
    class_counts,
    class_table,
    dirichlet,
    iid,
    unequal_sizes,
)

LABELS = np.random.default_rng(0).integers(0, 10, 6000)
SIZES = [100, 250, 1, 400, 100]


@pytest.mark.parametrize(
    "draw",
    [
        lambda sizes, seed: iid(LABELS, sizes, seed, pool=5000),
        lambda sizes, seed: by_classes(LABELS, sizes, seed, 2, pool=5000),
        lambda sizes, seed: dirichlet(LABELS, sizes, seed, 0.3, pool=5000),
    ],
)
def test_what_every_partition_keeps(draw):
    parts = draw(SIZES, 3)
    assert [len(part) for part in parts] == SIZES
    for part in parts:
        assert len(np.unique(part)) == len(part)  # without replacement inside a device
        assert 0 <= part.min() <= part.max() < 5000
    for part, again in zip(parts, draw(SIZES[:3], 3), strict=False):
        np.testing.assert_array_equal(part, again)  # further devices change nothing for the first
    assert not np.array_equal(parts[0], draw(SIZES, 4)[0])


def test_iid_devices_overlap_and_follow_the_class_shares():
    parts = iid(LABELS, [2000] * 10, seed=1, pool=5000)
    assert len(np.intersect1d(parts[0], parts[1])) > 500
    expected = np.bincount(LABELS[:5000]) * (2000 / 5000)
    counts = class_counts(LABELS, parts)
    assert stats.chisquare(counts.mean(axis=0), expected).pvalue > 1e-4
    assert (np.abs(counts - expected) < 6 * np.sqrt(expected)).all()


def test_a_device_has_only_its_classes_in_equal_shares():
    counts = class_counts(LABELS, by_classes(LABELS, [101] * 30, seed=1, classes=2))
    for row in counts:
        np.testing.assert_array_equal(np.sort(row[row > 0]), [50, 51])
    assert (counts > 0).sum(axis=0).min() > 0  # over 30 devices every class is somewhere


def test_small_dirichlet_parameters_make_devices_less_alike():
    shares = {}
    for alpha in (0.1, 1.0, 100.0):
        counts = class_counts(LABELS, dirichlet(LABELS, [300] * 40, seed=1, alpha=alpha))
        shares[alpha] = (counts / 300).max(axis=1).mean()
    assert shares[0.1] > shares[1.0] > shares[100.0]
    assert shares[100.0] < 0.16


def test_dirichlet_shares_have_the_variance_of_their_law():
    counts = class_counts(LABELS, dirichlet(LABELS, [500] * 300, seed=2, alpha=1.0)) / 500
    expected = 0.1 * 0.9 / 11  # of one share of a symmetric Dirichlet(1) over ten classes
    assert counts.var() == pytest.approx(expected, rel=0.15)


def test_dirichlet_spreads_what_a_class_cannot_give():
    labels = np.repeat(np.arange(4), 25)
    parts = dirichlet(labels, [90, 100], seed=0, alpha=0.05)
    assert [len(part) for part in parts] == [90, 100]
    assert class_counts(labels, parts).max() == 25


def test_unequal_sizes_keep_the_sum():
    sizes = unequal_sizes(40, mean=200, spread=0.8, seed=1)
    assert sum(sizes) == 8000
    assert min(sizes) >= 1
    assert np.std(np.log(sizes)) == pytest.approx(0.8, rel=0.4)
    assert unequal_sizes(5, 200, 0.0, seed=1) == [200] * 5
    assert max(unequal_sizes(5, 200, 3.0, seed=1, pool=400)) <= 400


def test_the_table_shows_every_device():
    text = class_table(LABELS, by_classes(LABELS, [1000, 30], seed=0, classes=3))
    lines = text.split("\n")
    assert len(lines) == 3
    assert len({len(line) for line in lines}) == 1
    assert sum(cell.isdigit() for cell in lines[1].split()[2:]) == 3


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: iid(LABELS, [5001], 0, pool=5000), r"sizes\[0\] = 5001"),
        (lambda: iid(LABELS, [], 0), "sizes = "),
        (lambda: iid(LABELS, [10, 0], 0), r"sizes\[1\] = 0"),
        (lambda: by_classes(LABELS, [10], 0, 11), "classes = 11"),
        (lambda: by_classes(LABELS, [3000], 0, 2), "samples of class .* = 1500: only"),
        (lambda: dirichlet(LABELS, [10], 0, 0.0), "alpha = 0.0"),
        (lambda: dirichlet(LABELS, [7000], 0, 1.0), r"sizes\[0\] = 7000"),
        (lambda: unequal_sizes(0, 10, 1.0, 0), "num_devices = 0"),
        (lambda: unequal_sizes(3, 10, -1.0, 0), "spread = -1"),
    ],
)
def test_impossible_wishes_are_named(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
