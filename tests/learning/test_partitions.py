import re

import numpy as np
import pytest

from airfeel.learning.partitions import class_counts, class_table, overlap, unequal_sizes
from airfeel.learning.partitions.rules import IID, ByClasses, Dirichlet
from airfeel.registry import PARTITIONS

REQUIRED = {"classes": {"classes": 2}, "dirichlet": {"alpha": 0.3}}  # options without a default
LABELS = np.random.default_rng(0).integers(0, 10, 6000)
SIZES = [100, 250, 1, 400, 100]


@pytest.mark.parametrize("name", PARTITIONS.names())
def test_what_every_partition_keeps(name):
    rule = PARTITIONS.get(name).build(REQUIRED.get(name, {}))

    def draw(sizes, seed):
        return rule.draw(LABELS, sizes, seed, 5000)

    parts = draw(SIZES, 3)
    assert [len(part) for part in parts] == SIZES
    for part in parts:
        assert len(np.unique(part)) == len(part)  # without replacement inside a device
        assert 0 <= part.min() <= part.max() < 5000
    for part, again in zip(parts, draw(SIZES[:3], 3), strict=False):
        np.testing.assert_array_equal(part, again)  # further devices change nothing for the first
    assert not np.array_equal(parts[0], draw(SIZES, 4)[0])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_how_many_samples_devices_share_is_told(seed):
    """Each of M devices holds a sample with probability p, so the shared ones follow from two binomials."""
    sentence = overlap(IID().draw(LABELS, [1200] * 5, seed))
    found = re.fullmatch(r"devices share samples: ([\d.]+) % of the ([\d,]+) that .* more than one", sentence)
    share, used = float(found[1]) / 100, int(found[2].replace(",", ""))
    in_use, once = 1 - 0.8**5, 5 * 0.2 * 0.8**4
    assert used == pytest.approx(6000 * in_use, abs=5 * np.sqrt(6000 * in_use * (1 - in_use)))
    assert share == pytest.approx(1 - once / in_use, abs=5 * 0.5 / np.sqrt(used))


def test_devices_that_share_nothing_are_told_apart():
    apart = (np.array([0, 4]), np.array([1, 2]))
    assert overlap(apart) == "devices share no samples: each of the 4 that are in use is held by one"
    assert "33.3 % of the 3" in overlap((np.array([0, 4]), np.array([1, 4])))


def test_the_table_of_targets_has_sizes_and_that_of_many_classes_counts_them():
    partition = (np.arange(5), np.arange(20, 32))
    assert class_table(np.linspace(0, 1, 40), partition).splitlines() == [
        "device  K_m",
        "     0    5",
        "     1   12",
    ]
    table = class_table(np.arange(1000) // 2, partition)
    assert table.splitlines()[0].split() == ["device", "K_m", "classes"]
    assert [line.split() for line in table.splitlines()[1:]] == [["0", "5", "3"], ["1", "12", "6"]]


@pytest.mark.parametrize(
    ("classes", "shares"), [(2, [50, 51]), (3, [33, 34, 34]), (4, [25, 25, 25, 26]), (6, [16] + [17] * 5)]
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_device_has_only_its_classes_in_equal_shares(classes, shares, seed):
    counts = class_counts(LABELS, ByClasses(classes).draw(LABELS, [101] * 60, seed))
    for row in counts:
        np.testing.assert_array_equal(np.sort(row[row > 0]), shares)
    # A class is drawn by a device with probability chi/10: binomial over 60 devices, 4.5 sigma.
    share = classes / 10
    assert np.abs((counts > 0).mean(axis=0) - share).max() < 4.5 * np.sqrt(share * (1 - share) / 60)


def test_dirichlet_shares_have_the_variance_of_their_law():
    """Var = 0.1 * 0.9 / 11 for ten classes; the square of a share has a relative spread below 3."""
    parts = [part for seed in range(4) for part in Dirichlet(1.0).draw(LABELS, [500] * 300, seed)]
    squares = np.square(class_counts(LABELS, parts) / 500 - 0.1)
    assert squares.mean() == pytest.approx(0.1 * 0.9 / 11, rel=4.5 * 3 / np.sqrt(squares.size))


def test_dirichlet_spreads_what_a_class_cannot_give():
    labels = np.repeat(np.arange(4), 25)
    parts = Dirichlet(0.05).draw(labels, [90, 100], seed=0)
    assert [len(part) for part in parts] == [90, 100]
    assert class_counts(labels, parts).max() == 25


def test_unequal_sizes_keep_the_sum():
    for seed in range(5):
        sizes = unequal_sizes(40, mean=200, spread=0.8, seed=seed)
        assert sum(sizes) == 8000
        assert min(sizes) >= 1
    assert unequal_sizes(5, 200, 0.0, seed=1) == [200] * 5
    assert max(unequal_sizes(5, 200, 3.0, seed=1, pool=400)) <= 400


@pytest.mark.parametrize("seed", range(4))
def test_unequal_sizes_are_log_normal(seed):
    """A standard deviation from 500 devices is known to 1/sqrt(1000), five times which is allowed."""
    sizes = unequal_sizes(500, mean=1000, spread=0.8, seed=seed)
    assert np.std(np.log(sizes)) == pytest.approx(0.8, rel=5 / np.sqrt(1000))


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: IID().draw(LABELS, [5001], 0, pool=5000), r"sizes\[0\] = 5001"),
        (lambda: IID().draw(LABELS, [], 0), "sizes = "),
        (lambda: IID().draw(LABELS, [10, 0], 0), r"sizes\[1\] = 0"),
        (lambda: ByClasses(11).draw(LABELS, [10], 0), "classes = 11"),
        (lambda: ByClasses(2).draw(LABELS, [3000], 0), "samples of class .* = 1500: only"),
        (lambda: Dirichlet(1.0).draw(LABELS, [7000], 0), r"sizes\[0\] = 7000"),
        (lambda: unequal_sizes(0, 10, 1.0, 0), "num_devices = 0"),
    ],
)
def test_impossible_wishes_are_named(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_a_stretch_is_one_piece_of_the_data():
    for part in PARTITIONS.get("stretch").build({}).draw(LABELS, SIZES, 1, 5000):
        np.testing.assert_array_equal(np.diff(part), 1)
