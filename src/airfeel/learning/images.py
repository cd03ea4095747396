"""Where the channels of an image are: decided here, once, for all models that take images."""

from dataclasses import dataclass
from typing import Any

from airfeel import _checks

MOST_CHANNELS = 4


@dataclass(frozen=True, slots=True)
class ImageShape:
    """Size of an image, its number of channels, and the axis of a sample that counts them.

    ``axis`` is 0 for channels first, 2 for channels last, None for grey images without such an axis.

    >>> ImageShape.of((32, 32, 3)).channels, ImageShape.of((28, 28)).axis
    (3, None)
    """

    height: int
    width: int
    channels: int = 1
    axis: int | None = None

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> "ImageShape":
        """Read a sample's shape: (h, w), (channels, h, w) or (h, w, channels) with up to 4 channels."""
        if len(shape) == 2:
            return cls(shape[0], shape[1])
        first, last = (len(shape) == 3 and shape[axis] <= MOST_CHANNELS for axis in (0, 2))
        if first == last:
            rule = "must be (height, width), (channels, height, width) or (height, width, channels), "
            rule += f"with at most {MOST_CHANNELS} channels and larger images; 'mlp' takes any shape"
            raise _checks.reject("shape of a sample", shape, rule)
        axis = 0 if first else 2
        height, width = shape[1:] if first else shape[:2]
        return cls(height, width, shape[axis], axis)

    def channels_first(self, images: Any) -> Any:
        """Return a tensor of images (n, ...) as (n, channels, height, width)."""
        if self.axis is None:
            return images.unsqueeze(1)
        return images if self.axis == 0 else images.permute(0, 3, 1, 2).contiguous()
