"""Types of arrays by what is in them, for annotations: each name has one meaning everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complexfloating[Any]]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]
