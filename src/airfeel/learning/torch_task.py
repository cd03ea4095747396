"""Any ``torch.nn.Module`` with any loss as a task; needs the extra ``torch``.

Parameters are flattened to one vector in the order of ``module.named_parameters()``, without frozen
ones. Every device's gradient is computed by one thread with PyTorch's automatic differentiation, in chunks of
samples that bound the memory, and with one torch thread, so that its bytes do not depend on the number of
workers.
"""

import threading
from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfeel import _checks, _foreign
from airfeel._extras import missing
from airfeel.learning.tasks import Array, DataShape, Samples, Score
from airfeel.streams import derived

try:
    import torch
    from torch import nn
    from torch.nn.modules.lazy import LazyModuleMixin
except ImportError as error:
    raise missing("torch", "this model needs") from error

_TYPES = (torch.float16, torch.float32, torch.float64)  # what NumPy has too


class TorchTask:
    """Train a module by its flattened parameters.

    The module gets samples in the shape in which the data set stores them: uint8 (pixels) as numbers from 0
    to 1, other whole numbers (tokens) as int64, everything else in the precision of the module's parameters.
    ``view`` and ``transform`` give it another form.

    Parameters
    ----------
    build
        Makes the module. What it draws from torch's generator is decided by the seed given to :meth:`init`.
    loss
        Called with (outputs, labels), must return the mean over the samples; cross-entropy when not given.
        Labels that are whole numbers arrive as int64, targets of a regression in the module's precision.
    view
        Shape of one sample as the module takes it: ``(1, 28, 28)`` for grey images in a convolution,
        ``(-1,)`` for vectors of pixels.
    transform
        Called once with the tensor of all samples of a device, after ``view``.
    score
        Called with (outputs, labels), must return one number per sample; the mean stands in the records as
        accuracy. When not given: whether the largest output is at the label, nothing for a regression.
    device
        Where to compute: ``"cpu"``, ``"cuda"``, ``"mps"``, ...
    chunk
        Samples per forward and backward pass, whose activations are in memory at a time, for each thread.

    Modules that draw random numbers or gather statistics while training (dropout, batch normalisation) are
    refused: a gradient must be a function of parameters and samples alone. Parameters with ``requires_grad``
    off are neither trained nor sent, and stay as ``build`` makes them with torch's generator at seed 0.
    """

    def __init__(
        self,
        build: Callable[[], Any],
        loss: Callable[[Any, Any], Any] | None = None,
        *,
        view: tuple[int, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        score: Callable[[Any, Any], Any] | None = None,
        device: str = "cpu",
        chunk: int = 500,
    ) -> None:
        """Build the module once to learn its parameters' names and shapes."""
        self.build, self.loss, self.score = build, loss or nn.functional.cross_entropy, score or _right
        self.view, self.transform, self.device = view, transform, _device(device)
        self.chunk = _checks.integer("chunk", chunk, at_least=1)
        module = self._seeded(0)
        refuse_impure(module)
        self.shapes = {name: tuple(p.shape) for name, p in trainable(module).items()}
        self.dtype = next(iter(trainable(module).values())).dtype
        self._local, self._tried = threading.local(), False
        self._outputs: int | None = None

    @property
    def size(self) -> int:
        """N, the number of parameters."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def init(self, seed: int) -> Array:
        """Return the parameters of a module built with torch's generator seeded from ``seed``."""
        module = self._seeded(derived(seed, "torch"))
        flat = torch.cat([p.detach().reshape(-1) for p in trainable(module).values()])
        return np.asarray(flat.double().cpu().numpy())

    def prepare(self, inputs: NDArray[Any], labels: NDArray[Any]) -> Samples:
        """Turn arrays into tensors of the form that ``view`` and ``transform`` give them."""
        numbers, found = self._numbers(inputs, scaled=True), inputs.shape[1:]
        if self.view is not None:
            try:
                numbers = numbers.reshape(len(numbers), *self.view)
            except RuntimeError as error:
                rule = f"must have as many numbers as samples of shape {found}"
                raise _checks.reject("view", self.view, rule) from error
        with _foreign.explained(ValueError(f"transform cannot take samples of shape {found}")):
            numbers = (numbers if self.transform is None else self.transform(numbers)).to(self.device)
        samples = Samples(numbers, self._numbers(labels).to(self.device))
        if not self._tried:
            self._try(samples.inputs[:2], samples.labels[:2])
        self._require_outputs(samples.labels)
        return samples

    def _try(self, inputs: Any, labels: Any) -> None:
        """Run module, loss and score on two samples: what they cannot take is told before the first round.

        So is what draws or changes anything in its ``forward``, such as ``torch.nn.functional.dropout``; only
        draws from torch's generator of the CPU are seen.
        """
        module = self._mine().module
        generator, buffers = torch.get_rng_state(), [buffer.clone() for buffer in module.buffers()]
        found, each = (f"shape {tuple(x.shape[1:])} and {x.dtype}" for x in (inputs, labels))
        rule = "the module, its loss or its score cannot take them"
        with _foreign.explained(ValueError(f"samples have {found}, labels {each}: {rule}")):
            outputs = module(inputs)
            entropy = self.loss is nn.functional.cross_entropy and not labels.is_floating_point()
            if entropy and isinstance(outputs, torch.Tensor) and outputs.ndim > 1:
                self._outputs = outputs.shape[1]  # how many classes the module tells apart
            self._require_outputs(labels)
            loss = self.loss(outputs, labels)
            with torch.no_grad():
                self._scores(outputs, labels)
        if not torch.equal(generator, torch.get_rng_state()):
            rule = "must not; functional dropout takes p = 0, devices.weight_decay regularises instead"
            raise ValueError(f"the module or its loss draws random numbers: {rule}")
        for (name, after), before in zip(module.named_buffers(), buffers, strict=True):
            if not torch.equal(before, after):
                raise ValueError(
                    f"the module changes its buffer {name!r} in every pass: must leave it as it is"
                )
        shape = getattr(loss, "shape", None)
        if shape is None or loss.numel() != 1 or not loss.requires_grad:
            told = f"a {type(loss).__name__}" if shape is None else f"of shape {tuple(shape)}"
            rule = "must be a tensor with one number, the mean over the samples, that has a gradient"
            raise ValueError(f"loss(outputs, labels) is {told}: {rule}")
        self._tried = True

    def _require_outputs(self, labels: Any) -> None:
        if self._outputs is not None and int(labels.max()) >= self._outputs:
            rule = f"must be less than {self._outputs}, the number of the module's outputs"
            raise _checks.reject("largest label", int(labels.max()), rule)

    def gradient(self, theta: Array, samples: Samples) -> Array:
        """Return the gradient of the mean loss, summed over chunks in their order."""
        return self.descent(theta, [samples], 0.0)

    def descent(self, theta: Array, batches: Iterable[Samples], rate: float) -> Array:
        """Return the sum of the gradients along plain steps from theta, each at theta - rate * sum so far.

        What autograd adds up is that sum: a large model is neither copied nor added up for every step. Steps
        start from theta in the precision of the parameters, as the module does.
        """
        mine, moves = self._mine(), False
        mine.load(theta)
        for samples in batches:
            if moves:
                mine.move(rate)
            before = mine.taken() if moves and len(samples) > self.chunk else None
            for inputs, labels in self._chunks(samples):
                loss = self.loss(mine.module(inputs), labels)
                (loss * (len(labels) / len(samples))).backward()
            if before is not None:  # the chunks of a step are added up first
                mine.add(before)
            moves = True
        return mine.gradient()

    def evaluate(self, theta: Array, samples: Samples) -> Score:
        """Return mean loss and mean score."""
        mine, loss, points, count = self._mine(), 0.0, 0.0, 0
        mine.load(theta)
        with torch.no_grad():
            for inputs, labels in self._chunks(samples):
                outputs = mine.module(inputs)
                scores = self._scores(outputs, labels)
                loss += float(self.loss(outputs, labels)) * len(labels)
                points += float(scores.sum(dtype=torch.float64))
                count += scores.numel()
        return Score(loss / len(samples), points / count)

    def _scores(self, outputs: Any, labels: Any) -> Any:
        scores = torch.as_tensor(self.score(outputs, labels))
        if scores.ndim == 0 or len(scores) != len(labels):
            rule = f"must be one number for each of {len(labels)} samples"
            raise ValueError(f"score(outputs, labels) has shape {tuple(scores.shape)}: {rule}")
        return scores

    def _numbers(self, array: NDArray[Any], scaled: bool = False) -> Any:
        """Return an array as a tensor of floats, or of int64 for whole numbers (but uint8 if ``scaled``)."""
        tensor = torch.from_numpy(np.array(array))
        if scaled and array.dtype == np.uint8:
            return tensor.to(self.dtype).div_(255)
        return tensor.to(torch.int64 if array.dtype.kind in "iu" else self.dtype)

    def _chunks(self, samples: Samples) -> Any:
        starts = range(0, len(samples), self.chunk)
        return ((samples.inputs[i : i + self.chunk], samples.labels[i : i + self.chunk]) for i in starts)

    def _mine(self) -> "_FlatModule":
        """Return this thread's own module: parameters and gradients are set in place."""
        if not hasattr(self._local, "module"):
            torch.set_num_threads(1)
            self._local.module = _FlatModule(self._seeded(0))
        module: _FlatModule = self._local.module
        return module

    def _seeded(self, seed: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.build().to(self.device)


class _FlatModule:
    """A module whose parameters and gradients are views of two vectors: no copy, and one call per chunk."""

    def __init__(self, module: Any) -> None:
        self.module, parameters = module, list(trainable(module).values())
        self._parameters, self._sizes = parameters, [p.numel() for p in parameters]
        self._values = torch.cat([p.detach().reshape(-1) for p in parameters])
        self._start, self._moved = torch.empty_like(self._values), False
        for values, parameter in zip(self._values.split(self._sizes), parameters, strict=True):
            parameter.data = values.view(parameter.shape)

    def load(self, theta: Array) -> None:
        """Set all parameters, and all gradients to zero."""
        self._values.copy_(torch.from_numpy(np.ascontiguousarray(theta)))
        self._begin()
        self._moved = False

    def _begin(self) -> None:
        """Have gradients in a vector of their own: the one before belongs to whoever took it."""
        self._gradients = torch.zeros_like(self._values)
        for gradients, parameter in zip(self._gradients.split(self._sizes), self._parameters, strict=True):
            parameter.grad = gradients.view(parameter.shape)

    def move(self, rate: float) -> None:
        """Set all parameters to what was loaded minus so much of the gradients, which stay."""
        if not self._moved:
            self._start.copy_(self._values)
            self._moved = True
        torch.mul(self._gradients, -rate, out=self._values).add_(self._start)

    def taken(self) -> Array:
        """Return the gradients, and begin anew."""
        found = self.gradient()
        self._begin()
        return found

    def add(self, gradients: Array) -> None:
        """Add gradients that were taken."""
        self._gradients.add_(torch.from_numpy(gradients).to(self._gradients.device))

    def gradient(self) -> Array:
        """Return the sum of all gradients since :meth:`load`; they go on in it until the next one."""
        return np.asarray(self._gradients.cpu().numpy())


def for_data(data: DataShape, build: Callable[[int], Any], **options: Any) -> TorchTask:
    """Return the task of a network that is built with its number of outputs.

    That is one per class with cross-entropy, or one per target with the squared error where data have no
    classes. ``options`` are those of :class:`TorchTask`.
    """
    each = getattr(data, "label_shape", ())
    if data.classes is None:
        return TorchTask(partial(build, prod(each)), squared_error, **options)
    if each:
        rule = "must be (): this model has one class for each sample, a model of your own may have more"
        raise _checks.reject("shape of a label", each, rule)
    return TorchTask(partial(build, data.classes), **options)


def _device(name: str) -> Any:
    """Return a device on which tensors can be made and read back."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except Exception as error:  # each kind of device has its own
        rule = f"must be one where PyTorch can compute here, such as 'cpu' ({_foreign.told(error)})"
        raise _checks.reject("device", name, rule) from error
    return device


def squared_error(outputs: Any, targets: Any) -> Any:
    """Return the mean squared error of outputs against as many targets, in whatever shape both are."""
    if outputs.numel() != targets.numel():
        shapes = f"{tuple(outputs.shape)} for targets of shape {tuple(targets.shape)}"
        raise ValueError(f"outputs have shape {shapes}: must be one number for each")
    return nn.functional.mse_loss(outputs.reshape(targets.shape), targets)


def _right(outputs: Any, labels: Any) -> Any:
    """Return whether the largest output is at the label; nan where labels are no classes."""
    if labels.is_floating_point():
        return torch.full((len(labels),), torch.nan)
    return outputs.argmax(dim=1) == labels


# Which modules can be trained: a gradient must be a function of parameters and samples alone.


def trainable(module: Any) -> dict[str, Any]:
    """Return the parameters that are trained, by name: frozen ones stay as they were built."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


def refuse_impure(module: Any) -> None:
    """Raise for parts that draw random numbers or gather statistics, and for parameters of several types.

    Recurrent and attention layers keep their share of dropped values in ``dropout``.
    """
    for name, part in module.named_modules():
        kind, rule = type(part).__name__, ""
        drops = part.p if "Dropout" in kind else getattr(part, "dropout", 0)
        if isinstance(drops, int | float) and drops > 0:
            rule = "not draw anything while training; set it to 0, devices.weight_decay regularises instead"
        elif "BatchNorm" in kind or getattr(part, "track_running_stats", False):
            rule = "not gather statistics while training; GroupNorm or LayerNorm does not"
        elif isinstance(part, LazyModuleMixin):
            rule = f"know its sizes when it is built; {kind.removeprefix('Lazy')} does"
        elif kind == "RReLU":
            rule = "not draw anything while training; LeakyReLU does not"
        if rule:
            raise ValueError(f"build() has {kind} at {name!r}: must {rule}")
    types = {p.dtype for p in trainable(module).values()}
    if len(types) != 1:
        found = f"parameters of types {', '.join(sorted(map(str, types)))}" if types else "no parameters"
        raise ValueError(f"build() has {found}: must have parameters of exactly one type to be trained")
    if not types <= set(_TYPES):
        rule = f"must be one of {', '.join(map(str, _TYPES))}, which NumPy knows too"
        raise ValueError(f"build() has parameters of {types.pop()}: {rule}")
