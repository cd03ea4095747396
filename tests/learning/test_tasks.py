import numpy as np
import pytest

from airfeel.learning.models.softmax import SoftmaxRegression


def digits(count=60, features=12, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, (count, features // 3, 3), dtype=np.uint8)
    images[:, 1, 1:] = 0  # two pixels are dark in all images, as the edges of MNIST's are
    return images, rng.integers(0, classes, count)


def textbook(theta, images, labels, classes, l2=0.0):
    """Mean cross-entropy written out sample by sample."""
    features = images[0].size
    weights, biases = theta[: features * classes].reshape(features, classes), theta[features * classes :]
    total = 0.0
    for image, label in zip(images, labels, strict=True):
        logits = image.reshape(-1) / 255 @ weights + biases
        total += np.log(np.exp(logits).sum()) - logits[label]
    return total / len(labels) + l2 / 2 * theta @ theta


@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_gradient_and_loss_are_those_of_the_textbook_formula(l2):
    task = SoftmaxRegression(12, 4, l2=l2, dtype="float64")
    images, labels = digits()
    samples, theta = task.prepare(images, labels), np.random.default_rng(1).standard_normal(task.size)
    assert task.evaluate(theta, samples).loss == pytest.approx(
        textbook(theta, images, labels, 4, l2), rel=1e-12
    )
    gradient, step = task.gradient(theta, samples), 1e-5
    for n in range(task.size):
        shift = step * np.eye(task.size)[n]
        loss = [textbook(theta + sign * shift, images, labels, 4, l2) for sign in (1, -1)]
        assert gradient[n] == pytest.approx((loss[0] - loss[1]) / (2 * step), abs=1e-8)


def test_the_tensors_are_a_matrix_of_weights_and_a_row_for_each_dark_pixel_has_no_gradient():
    task = SoftmaxRegression(12, 4)
    images, labels = digits()
    assert task.shapes == {"weights": (12, 4), "biases": (4,)}
    gradient = task.gradient(np.zeros(task.size), task.prepare(images, labels))
    weights, biases = gradient[:48].reshape(task.shapes["weights"]), gradient[48:]
    assert biases.shape == task.shapes["biases"] and biases.any()
    np.testing.assert_array_equal(np.flatnonzero(~weights.any(axis=1)), [4, 5])


def test_single_precision_agrees_with_double():
    images, labels = digits()
    theta = np.random.default_rng(1).standard_normal(52)
    single, double = (SoftmaxRegression(12, 4, dtype=d) for d in ("float32", "float64"))
    fast = single.gradient(theta, single.prepare(images, labels))
    assert fast.dtype == np.float32
    exact = double.gradient(theta, double.prepare(images, labels))
    assert np.linalg.norm(fast - exact) < 1e-6 * np.linalg.norm(exact)


def test_large_logits_do_not_overflow():
    task = SoftmaxRegression(12, 4)
    samples = task.prepare(*digits())
    theta = 1e4 * np.random.default_rng(1).standard_normal(task.size)
    assert np.isfinite(task.gradient(theta, samples)).all()
    assert np.isfinite(task.evaluate(theta, samples).loss)


def test_among_equal_outputs_the_lower_class_wins():
    task = SoftmaxRegression(12, 4)
    images, _ = digits(count=5)
    samples = task.prepare(images, np.array([0, 1, 0, 3, 0]))
    assert task.evaluate(np.zeros(task.size), samples).accuracy == pytest.approx(3 / 5)
    samples = task.prepare(images, np.array([1, 2, 2, 3, 3]))
    biases = np.zeros(task.size)
    biases[-3:-1] = 1.0  # classes 1 and 2 are equal, and above the others
    assert task.evaluate(biases, samples).accuracy == pytest.approx(1 / 5)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros((2, 13), np.uint8), np.array([0, 1]), "images have 13 pixels: must be 12"),
        (np.zeros((2, 12), np.uint8), np.array([0]), r"labels has shape \(1,\)"),
        (np.zeros((2, 12), np.uint8), np.array([0, 4]), "labels reach from 0 to 4: must be 0..3"),
        (np.zeros((2, 12), np.uint8), np.array([0.0, 1.0]), "labels reach"),
        (np.zeros((0, 12), np.uint8), np.array([], int), "labels has shape"),
    ],
)
def test_wrong_data_is_named(images, labels, message):
    with pytest.raises(ValueError, match=message):
        SoftmaxRegression(12, 4).prepare(images, labels)


@pytest.mark.parametrize("wrong", [{"features": 0}, {"classes": 1}, {"l2": -1}, {"dtype": "float16"}])
def test_wrong_parameters_are_named(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} = "):
        SoftmaxRegression(**wrong)
