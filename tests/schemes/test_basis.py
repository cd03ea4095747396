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
    assert axes("dct") == [taps, (), taps, (), (1, 2), ()]
    assert axes("auto") == [taps, (), taps, (), (), ()]
    assert axes("auto", {"theta": (7850,)}) == [()]
    assert axes("dct", {"conv1d": (8, 4, 5)}) == [(2,)]


@pytest.mark.parametrize(
    ("shape", "word", "matrix"),
    [
        ((100, 784), "100x28cx28c", (100, 784)),
        ((784, 10), "28cx28cx10", (784, 10)),
        ((20, 3072), "20x3x32cx32c", (20, 3072)),
        ((12, 2), "3x2cx2cx2", (12, 2)),
        ((5, 40), "5x40c", (5, 40)),
        ((40, 5), "40cx5", (40, 5)),
        ((40, 40), "40x40c", (40, 40)),
        ((16, 8, 3, 3), "16x8x3cx3c", (16, 72)),
        ((8, 4, 3, 1), "8x4x3cx1", (8, 12)),
    ],
)
def test_inputs_are_an_image_where_they_can_be_one(shape, word, matrix):
    layout = basis.choose({"w": shape, "bias": (3,), "later": (7, 49)}, "auto")
    assert basis.write(layout) == f"{word} 3 7x49"
    assert [tensor.matrix for tensor in layout] == [matrix, (1, 3), (7, 49)]


def test_energy_is_expected_to_fall_with_the_frequency():
    """Of images and kernels; a row of inputs may be anything, and the rest has no frequencies."""
    found = basis.profile(basis.choose({"w": (5, 16), "later": (3, 4)}, "auto"))
    assert (basis.profile(basis.choose({"w": (5, 18)}, "auto")) == 1).all()
    image, later = found[:80].reshape(5, 4, 4), found[80:]
    u, v = np.mgrid[1:5, 1:5]
    np.testing.assert_allclose(image / image[0, 0, 0], np.broadcast_to((u * v) ** -2.0, (5, 4, 4)))
    assert image.mean() == pytest.approx(1) and (later == 1).all()


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


def cosines(n):
    """sqrt(2/n) cos(pi (2 j + 1) k / (2 n)), and sqrt(1/n) for k = 0."""
    k, j = np.mgrid[:n, :n]
    return np.sqrt(np.where(k == 0, 1, 2) / n) * np.cos(np.pi * (2 * j + 1) * k / (2 * n))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (90, 5), (5, 90), (90, 90)])
def test_the_transform_of_inputs_in_a_row_is_the_one_of_the_definition(shape):
    matrix = np.random.default_rng(2).standard_normal(shape)
    found = basis.forward(basis.choose({"w": shape}, "auto"), matrix.reshape(1, -1)).reshape(shape)
    last = shape[1] >= shape[0]
    expected = matrix @ cosines(shape[1]).T if last else cosines(shape[0]) @ matrix
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("width", [3, 6, 28, 70])
@pytest.mark.parametrize("colours", [1, 3])
@pytest.mark.parametrize("inputs_last", [True, False])
def test_the_transform_of_images_is_the_one_of_the_definition(width, colours, inputs_last):
    c, images = cosines(width), np.random.default_rng(2).standard_normal((2, colours, width, width))
    expected = (c @ images @ c.T).reshape(2, -1)
    shape = (2, colours * width**2)
    images = images.reshape(shape)
    if not inputs_last:
        images, expected, shape = images.T, expected.T, shape[::-1]
    found = basis.forward(basis.choose({"w": shape}, "auto"), images.reshape(1, -1)).reshape(shape)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows_together", [1, 3, 100])
def test_some_coefficients_have_the_bytes_they_have_among_all(dtype, rows_together, monkeypatch):
    layout, rng = basis.choose(SHAPES, "auto"), np.random.default_rng(0)
    size = sum(tensor.size for tensor in layout)
    rows, places = rng.standard_normal((7, size)).astype(dtype), rng.permutation(size)[: size // 3]
    monkeypatch.setattr(basis, "AT_A_TIME", rows_together * size)
    found, before = basis.forward_at(layout, rows, places), rows.copy()
    assert found.dtype == dtype and found.tobytes() == basis.forward(layout, rows)[:, places].tobytes()
    np.testing.assert_array_equal(rows, before)


@pytest.mark.parametrize("name", basis.BASES)
def test_a_layout_travels_as_a_word(name):
    layout = basis.choose(SHAPES, name)
    assert basis.read(basis.write(layout))[:-1] == layout[:-1]
    assert basis.read(basis.write(layout))[-1].shape == (1,)


def test_another_basis_is_refused():
    with pytest.raises(ValueError, match=r"basis = 'fourier'"):
        basis.choose(SHAPES, "fourier")
