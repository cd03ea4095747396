"""Data of your own: here stripes of four directions, drawn on the spot.

    airfeel run --set dataset=own_data:stripes --set devices.samples=100 --set rounds=20

A data set is a function that returns ``af.Dataset``; ``af.Dataset.from_arrays`` checks what you give it.
Samples may have any shape, and labels may be floating targets of a regression.
"""

import numpy as np

import airfeel as af


def stripes(train=2000, test=500, side=12):
    """Grey images of stripes; the class is their direction."""
    draw = af.stream(0, "stripes")
    row, column = np.mgrid[:side, :side]
    directions = [row, column, row + column, row - column]

    def images(count):
        labels = draw.integers(0, 4, count)
        phase = draw.integers(0, 6, count)
        drawn = [
            160 * (((directions[c] + p) // 3) % 2) + draw.integers(0, 90, (side, side))
            for c, p in zip(labels, phase, strict=True)
        ]
        return np.array(drawn, dtype=np.uint8), labels

    return af.Dataset.from_arrays(*images(train), *images(test), name="stripes")


if __name__ == "__main__":
    config = af.load_config(None, {"rounds": 20, "devices.samples": 200, "devices.learning_rate": 0.3})
    for record in af.train(config, dataset=stripes()):
        print(record.round, record.accuracy)
