"""Boxes of single-shot detection in numpy, from their definitions: overlap, codes, suppression, default boxes."""

import math

import numpy as np


def overlaps(a, b):
    """Intersection over union of every box of a [P,4] with every box of b [G,4]."""
    a, b = a[:, None], b[None]
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    shared = np.prod(np.clip(sides, 0, None), axis=-1)

    def area(x):
        return np.prod(np.clip(x[..., 2:] - x[..., :2], 0, None), axis=-1)

    union = area(a) + area(b) - shared
    return np.divide(shared, union, out=np.zeros_like(shared), where=shared > 0)


def sizes(boxes):
    """Centre and size."""
    return (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]


def encode(kind, priors, boxes):
    centre, size = sizes(priors)
    if kind == "CORNER":
        return boxes - priors
    if kind == "CORNER_SIZE":
        return (boxes - priors) / np.tile(size, 2)
    to, extent = sizes(boxes)
    return np.concatenate([(to - centre) / size, np.log(extent / size)], axis=1)


def decode(kind, priors, codes):
    centre, size = sizes(priors)
    if kind == "CORNER":
        return priors + codes
    if kind == "CORNER_SIZE":
        return priors + codes * np.tile(size, 2)
    to, extent = centre + codes[:, :2] * size, np.exp(codes[:, 2:]) * size
    return np.concatenate([to - extent / 2, to + extent / 2], axis=1)


def suppress(boxes, order, threshold, eta=1.0):
    kept = []
    for i in order:
        if all(overlaps(boxes[i:i + 1], boxes[k:k + 1])[0, 0] <= threshold for k in kept):
            kept.append(i)
            if eta < 1 and threshold > 0.5:
                threshold *= eta
    return kept


def prior_boxes(map_size, image, min_sizes, max_sizes=(), ratios=(), flip=True, clip=False, variance=(0.1,), step=None,
                offset=0.5):
    shapes = [1.0]
    for ratio in np.float32(ratios):
        if not any(abs(ratio - s) < 1e-6 for s in shapes):
            shapes += [float(ratio)] + ([1 / float(ratio)] if flip else [])
    height, width = map_size
    step_h, step_w = step or (image[0] / height, image[1] / width)
    boxes = []
    for y in range(height):
        for x in range(width):
            for s, smallest in enumerate(min_sizes):
                smallest = int(smallest)
                extents = [(smallest, smallest)]
                if len(max_sizes):
                    extents.append((math.sqrt(smallest * int(max_sizes[s])),) * 2)
                extents += [(smallest * math.sqrt(r), smallest / math.sqrt(r)) for r in shapes[1:]]
                cx, cy = (x + offset) * step_w, (y + offset) * step_h
                boxes += [[(cx - w / 2) / image[1], (cy - h / 2) / image[0], (cx + w / 2) / image[1],
                           (cy + h / 2) / image[0]] for w, h in extents]
    boxes = np.array(boxes)
    if clip:
        boxes = np.clip(boxes, 0, 1)
    variances = np.tile(np.float32(variance).astype(np.float64), (len(boxes), 4 // len(variance)))
    return np.stack([boxes.reshape(-1), variances.reshape(-1)])[None]
