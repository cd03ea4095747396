"""Bases of tensors: orthonormal, chosen by role, and small enough to travel."""

import numpy as np
import pytest

from airfeel.schemes import basis

SHAPES = {
    "conv1": (8, 1, 5, 5),
    "conv1.bias": (8,),
    "conv2": (16, 8, 3, 3),
    "pointwise": (4, 16, 1, 1),
    "dense": (24, 64),
    "scale": (),
}


def axes(name, shapes=SHAPES):
    return [tensor.axes for tensor in basis.choose(shapes, name)]


def test_the_basis_follows_the_role_of_a_tensor():
    taps = (2, 3)
    assert axes("identity") == [(), (), (), (), (), ()]
    assert axes("dct") == [taps, (), taps, (), (0, 1), ()]
    assert axes("auto") == [taps, (), taps, (), (), ()]
    mlp = {"first": (100, 784), "bias": (100,), "second": (10, 100)}
    assert axes("auto", mlp) == [(1,), (), ()]
    assert axes("auto", {"weights": (784, 10), "bias": (10,)}) == [(0, 1), ()]
    assert axes("auto", {"theta": (7850,)}) == [()]
    assert axes("dct", {"conv1d": (8, 4, 5)}) == [(2,)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", basis.BASES)
def test_transforms_keep_lengths_and_undo_each_other(name, dtype):
    layout = basis.choose(SHAPES, name)
    rows = np.random.default_rng(1).standard_normal((3, sum(t.size for t in layout))).astype(dtype)
    kept = rows.copy()
    coefficients = basis.forward(layout, rows)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose((coefficients**2).sum(axis=1), (rows**2).sum(axis=1), rtol=tolerance)
    assert coefficients.dtype == dtype
    np.testing.assert_allclose(basis.backward(layout, coefficients), rows, atol=tolerance)
    np.testing.assert_array_equal(rows, kept)


@pytest.mark.parametrize("shape", [(7, 5), (40, 5), (5, 40), (40, 40)])
def test_the_matrix_transform_is_the_one_of_the_definition(shape):
    """sqrt(2/n) cos(pi (2 j + 1) k / (2 n)) along each axis, and sqrt(1/n) for k = 0."""

    def cosines(n):
        k, j = np.mgrid[:n, :n]
        return np.sqrt(np.where(k == 0, 1, 2) / n) * np.cos(np.pi * (2 * j + 1) * k / (2 * n))

    matrix = np.random.default_rng(2).standard_normal(shape)
    found = basis.forward(basis.choose({"w": shape}, "auto"), matrix.reshape(1, -1))
    expected = cosines(shape[0]) @ matrix @ cosines(shape[1]).T
    np.testing.assert_allclose(found.reshape(shape), expected, atol=1e-12)


@pytest.mark.parametrize("name", basis.BASES)
def test_a_layout_travels_as_a_word(name):
    layout = basis.choose(SHAPES, name)
    assert basis.read(basis.write(layout))[:-1] == layout[:-1]
    assert basis.read(basis.write(layout))[-1].shape == (1,)


def test_another_basis_is_refused():
    with pytest.raises(ValueError, match=r"basis = 'fourier'"):
        basis.choose(SHAPES, "fourier")
