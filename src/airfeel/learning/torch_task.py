"""Any ``torch.nn.Module`` with any loss as a task; needs the extra ``airfeel[torch]``.

Parameters are flattened to one vector in the order of ``module.named_parameters()``. Every device's gradient
is computed by one thread with ``torch.autograd.grad``, in chunks of samples that bound the memory, and with
one torch thread, so that its bytes do not depend on the number of workers.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks
from airfeel.learning.tasks import Array, Samples, Score
from airfeel.streams import bits

try:
    import torch
    from torch import nn
    from torch.func import functional_call
except ImportError as error:
    raise ImportError("airfeel.learning.torch_task needs PyTorch: pip install 'airfeel[torch]'") from error


class TorchTask:
    """Train a module by its flattened parameters.

    Parameters
    ----------
    build
        Called without arguments to make the module. What it draws from torch's generator is decided by the
        seed given to :meth:`init`.
    loss
        Called with (outputs, labels), must return the mean over the samples.
    device
        Where to compute: ``"cpu"``, ``"cuda"``, ``"mps"``, ...
    chunk
        Samples per forward and backward pass: activations of that many samples are in memory at a time, for
        each thread.
    flatten
        Give the module vectors of pixels instead of images with one channel.

    Modules that draw random numbers or gather statistics while training (dropout, batch normalisation) are
    refused: a gradient must be a function of parameters and samples alone.
    """

    def __init__(
        self,
        build: Callable[[], Any],
        loss: Callable[[Any, Any], Any] | None = None,
        *,
        device: str = "cpu",
        chunk: int = 500,
        flatten: bool = False,
    ) -> None:
        """Build the module once to learn its parameters' names and shapes."""
        self.build, self.loss = build, loss or nn.functional.cross_entropy
        self.device, self.flatten = torch.device(device), flatten
        self.chunk = _checks.integer("chunk", chunk, at_least=1)
        module = self._seeded(0)
        _refuse_impure(module)
        self.shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        self.dtype = next(module.parameters()).dtype
        self._local = threading.local()

    @property
    def size(self) -> int:
        """N, the number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def init(self, seed: int) -> Array:
        """Return the parameters of a module built with torch's generator seeded from ``seed``."""
        module = self._seeded(int(bits(seed, "torch").random_raw() >> 1))
        flat = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        return np.asarray(flat.double().cpu().numpy())

    def prepare(self, images: NDArray[Any], labels: NDArray[Any]) -> Samples:
        """Scale uint8 pixels to 0..1, as (n, 1, height, width), or (n, pixels) with ``flatten``."""
        inputs = torch.from_numpy(np.array(images)).to(self.dtype)
        if images.dtype == np.uint8:
            inputs /= 255
        inputs = inputs.reshape(len(inputs), -1) if self.flatten else inputs.unsqueeze(1)
        return Samples(inputs.to(self.device), torch.from_numpy(np.array(labels)).to(self.device))

    def gradient(self, theta: Array, samples: Samples) -> Array:
        """Return the gradient of the mean loss, summed over chunks in their order."""
        module, flat = self._module(), self._tensor(theta).requires_grad_()
        total = torch.zeros_like(flat)
        for inputs, labels in self._chunks(samples):
            loss = self.loss(self._call(module, flat, inputs), labels) * (len(labels) / len(samples))
            total += torch.autograd.grad(loss, flat)[0]
        return np.asarray(total.cpu().numpy())

    def evaluate(self, theta: Array, samples: Samples) -> Score:
        """Return mean loss and the share of samples whose largest output is at their label."""
        module, flat = self._module(), self._tensor(theta)
        loss, right = 0.0, 0
        with torch.no_grad():
            for inputs, labels in self._chunks(samples):
                outputs = self._call(module, flat, inputs)
                loss += float(self.loss(outputs, labels)) * len(labels)
                right += int((outputs.argmax(dim=1) == labels).sum())
        return Score(loss / len(samples), right / len(samples))

    def _call(self, module: Any, flat: Any, inputs: Any) -> Any:
        """Run the module with views of the flat vector as its parameters: one gradient for all of them."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        views = (
            part.view(shape) for part, shape in zip(flat.split(sizes), self.shapes.values(), strict=True)
        )
        return functional_call(module, dict(zip(self.shapes, views, strict=True)), (inputs,))

    def _chunks(self, samples: Samples) -> Any:
        starts = range(0, len(samples), self.chunk)
        return ((samples.inputs[i : i + self.chunk], samples.labels[i : i + self.chunk]) for i in starts)

    def _tensor(self, theta: Array) -> Any:
        return torch.from_numpy(np.array(theta)).to(self.device, self.dtype)

    def _module(self) -> Any:
        """Return this thread's own module: running it with other parameters swaps them in and out."""
        if not hasattr(self._local, "module"):
            torch.set_num_threads(1)
            self._local.module = self._seeded(0)
        return self._local.module

    def _seeded(self, seed: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build().to(self.device)


def small_cnn(classes: int = 10, shape: tuple[int, int] = (28, 28)) -> Any:
    """Return a convolutional network of about 20,000 parameters (for 28 x 28 images and 10 classes)."""
    height, width = (-(-side // 4) for side in shape)  # two strides of 2, rounded up
    return nn.Sequential(
        nn.Conv2d(1, 8, kernel_size=5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * height * width, 24),
        nn.ReLU(),
        nn.Linear(24, classes),
    )


def _refuse_impure(module: Any) -> None:
    for name, part in module.named_modules():
        kind = type(part).__name__
        if kind.startswith(("BatchNorm", "SyncBatchNorm")) or ("Dropout" in kind and part.p > 0):
            raise ValueError(
                f"build() has {kind} at {name!r}: must not draw or gather anything while training"
            )
    dtypes = {str(p.dtype) for p in module.parameters()}
    if len(dtypes) != 1:
        found = f"parameters of types {', '.join(sorted(dtypes))}" if dtypes else "no parameters"
        raise ValueError(f"build() has {found}: must have parameters of exactly one type")
