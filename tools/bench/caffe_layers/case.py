"""A case: a layer, its fields and what its bottoms hold."""

import re

import numpy as np


class Values:
    """Values of a bottom."""

    has_gradient = False

    def __init__(self, *shape):
        self.shape = shape

    def make(self, rng):
        raise NotImplementedError


class Normal(Values):
    has_gradient = True

    def make(self, rng):
        return rng.standard_normal(self.shape)


class Between(Values):
    has_gradient = True

    def __init__(self, low, high, *shape):
        super().__init__(*shape)
        self.low, self.high = low, high

    def make(self, rng):
        return rng.uniform(self.low, self.high, self.shape)


class Shares(Normal):
    """Positive, the channels of each position sum to 1."""

    def make(self, rng):
        values = rng.uniform(0.1, 1, self.shape)
        return values / values.sum(axis=1, keepdims=True)


class Whole(Values):
    """Whole numbers from 0 to below `end`."""

    def __init__(self, end, *shape):
        super().__init__(*shape)
        self.end = end

    def make(self, rng):
        return rng.randint(0, self.end, self.shape)


class Fixed(Values):
    """The given list, in order, over and over."""

    def __init__(self, values, *shape):
        super().__init__(*shape)
        self.values = values

    def make(self, rng):
        count = 1
        for d in self.shape:
            count *= d
        repeated = (self.values * count)[:count]
        return np.array(repeated, dtype="float32").reshape(self.shape)


class Plain(Normal):
    """Random numbers without a gradient."""

    has_gradient = False


class Markers(Fixed):
    """Sequence markers of T steps and N streams: a new sequence begins at 0."""

    def __init__(self, *shape):
        super().__init__([0, 0, 1, 1, 1, 0, 1, 1], *shape)


class Truth(Values):
    """Rows (item, label, instance, xmin, ymin, xmax, ymax, difficult) of SSD."""

    def __init__(self, items, classes, *shape, difficult=False):
        super().__init__(*shape)
        self.items, self.classes, self.difficult = items, classes, difficult

    def make(self, rng):
        rows = np.zeros((self.shape[2], 8))
        rows[:, 0] = np.sort(rng.randint(0, self.items, len(rows)))
        rows[:, 1] = rng.randint(1, self.classes, len(rows))
        rows[:, 3:5] = rng.uniform(0, 0.5, (len(rows), 2))
        rows[:, 5:7] = rows[:, 3:5] + rng.uniform(0.1, 0.45, (len(rows), 2))
        if self.difficult:
            rows[::3, 7] = 1
        return rows.reshape(self.shape)


class Detections(Values):
    """Rows (item, label, score, box) of SSD."""

    def __init__(self, items, classes, *shape):
        super().__init__(*shape)
        self.items, self.classes = items, classes

    def make(self, rng):
        rows = Truth(self.items, self.classes, 1, 1, self.shape[2], 8).make(rng).reshape(-1, 8)[:, :7]
        rows[:, 2] = rng.uniform(0, 1, len(rows))
        return rows.reshape(self.shape)


class Priors(Values):
    """Boxes of SSD and their variances, (1, 2, 4 * count)."""

    def make(self, rng):
        count = self.shape[2] // 4
        boxes = np.zeros((count, 4))
        boxes[:, 0:2] = rng.uniform(0, 0.6, (count, 2))
        boxes[:, 2:4] = boxes[:, 0:2] + rng.uniform(0.1, 0.4, (count, 2))
        return np.stack([boxes.ravel(), np.tile([0.1, 0.1, 0.2, 0.2], count)]).reshape(self.shape)


class Case:
    """`known` says why Caffe's numbers and Moka's may differ: such a case is listed and not counted as a failure."""

    def __init__(self, name, text, *bottoms, tops=1, weighed=None, phase="TRAIN", known=None):
        self.name = name
        self.known = known
        self.needs_release = "round_mode" in text  # of Caffe; candidates before 1.0 lack it
        self.text = text
        self.inputs = dict(zip("abcdefgh", bottoms))
        self.tops = ["y" if k == 0 else f"y{k}" for k in range(tops)]
        self.weighed = self.tops if weighed is None else weighed
        self.phase = phase
        self.types = set(re.findall(r'type: "([A-Z]\w+)"', text))
        self.is_loss = any(t.endswith("Loss") for t in self.types)

    @staticmethod
    def parameter(layer_type, index, shape, rng):
        if layer_type == "BatchNorm":
            return [0.3 * rng.standard_normal(shape), rng.uniform(0.5, 1.5, shape), 1.7][index]
        if layer_type == "Normalize":
            return rng.uniform(0.5, 2, shape)
        return 0.5 * rng.standard_normal(shape)
