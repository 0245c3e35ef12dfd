"""Records DiceLoss, BorderWeight, RandScore and SegmentationEvaluate, written from their definitions.

Usage: python3 make_measures_goldens.py      writes layers_measures.json, in the format of make_layer_goldens.py

Regions are found by repeated minima over neighbours and grown by rings, distances by looking at all pairs of pixels,
confusion matrices by numpy.bincount: none of it as Moka does it.
"""

import numpy as np
import torch

import moka_random
from make_layer_goldens import values
from single_layers import case, write


def labels(name, shape, classes):
    return (moka_random.random_words(moka_random.SEED, moka_random.stable_hash(name), int(np.prod(shape)))
            % classes).astype(np.float64).reshape(shape)


def dice(ignored=None, smooth=1.0, squared=False):
    def run(x, p):
        scores, label = x
        classes = scores.shape[1]
        probability = torch.softmax(scores, 1).movedim(1, -1).reshape(-1, classes)
        label = label.reshape(-1).long()
        if ignored is not None:
            probability, label = probability[label != ignored], label[label != ignored]
        target = torch.nn.functional.one_hot(label, classes).double()
        area = (probability**2 if squared else probability).sum(0)
        d = (2 * (probability * target).sum(0) + smooth) / (area + target.sum(0) + smooth)
        return [1 - d[target.sum(0) > 0].mean()]
    return run


def regions(inside):
    """Numbers of connected pixels, 4 neighbours each: each pixel takes the least number around it until none changes."""
    height, width = inside.shape
    numbers = np.where(inside, np.arange(1, height * width + 1).reshape(height, width), 10**6)
    while True:
        padded = np.pad(numbers, 1, constant_values=10**6)
        least = np.minimum.reduce([numbers, padded[:-2, 1:-1], padded[2:, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:]])
        least = np.where(inside, least, 10**6)
        if (least == numbers).all():
            return np.where(inside, numbers, 0)
        numbers = least


def grown(numbers, pick):
    """Ring by ring; of several regions that a pixel touches at once `pick` says which."""
    while (numbers == 0).any() and (numbers != 0).any():
        padded = np.pad(numbers, 1)
        around = np.stack([padded[:-2, 1:-1], padded[1:-1, :-2], padded[1:-1, 2:], padded[2:, 1:-1]])
        picked = around.max(0) if pick == "most" else np.where(around == 0, 10**6, around).min(0)
        numbers = np.where((numbers == 0) & (around.max(0) > 0), picked, numbers)
    return numbers


def scored(truth, predicted):
    mask = truth > 0
    table = np.zeros((truth.max() + 1, predicted.max() + 1))
    np.add.at(table, (truth[mask], predicted[mask]), 1)
    both = (table**2).sum()
    split, merge = (table.sum(1)**2).sum(), (table.sum(0)**2).sum()
    return 2 * both / (split + merge), both / merge, both / split


def rand(threshold=0.5, least=0, inside_class=1):
    def run(x, p):
        scores, label = x[0].detach().numpy(), x[1].detach().numpy()
        probability = np.exp(scores[:, inside_class]) / np.exp(scores).sum(1)
        rows = []
        for n in range(len(scores)):
            predicted = regions(probability[n] > threshold)
            for number in np.unique(predicted):
                if number and (predicted == number).sum() < least:
                    predicted[predicted == number] = 0
            truth = regions(label[n, 0] == inside_class)
            rows.append(scored(truth, grown(predicted, "most")))
            assert rows[-1] == scored(truth, grown(predicted, "least")), "it hangs on a tie"
        return [torch.tensor(v) for v in np.mean(rows, 0)]
    return run


def border(weights, w0, sigma, inside=1, ignored=-1):
    def run(x, p):
        label = x[0].detach().numpy()
        out = np.zeros_like(label)
        for n in range(len(label)):
            objects = regions(label[n, 0] == inside)
            places = [np.argwhere(objects == number) for number in np.unique(objects) if number]
            for (y, x_), value in np.ndenumerate(label[n, 0]):
                if value == ignored:
                    continue
                w = weights[int(value)] if value < len(weights) else 1.0
                if value != inside:
                    d = sorted(np.sqrt(((at - (y, x_))**2).sum(1)).min() for at in places)
                    d = [v for v in d if v <= 4 * sigma]
                    if len(d) > 1:
                        w += w0 * np.exp(-(d[0] + d[1])**2 / (2 * sigma**2))
                out[n, 0, y, x_] = w
        return [torch.tensor(out)]
    return run


def counts(ignored=()):
    def run(x, p):
        scores, label = x[0].detach().numpy(), x[1].detach().numpy().reshape(-1).astype(int)
        classes = scores.shape[1]
        best = scores.argmax(1).reshape(-1)
        kept = ~np.isin(label, ignored)
        matrix = np.bincount(label[kept] * classes + best[kept], minlength=classes**2).reshape(classes, classes)
        return [torch.tensor(np.stack([np.diag(matrix), matrix.sum(1), matrix.sum(0)]).astype(np.float64))]
    return run


# Two cells with a wide predicted border between them, a third that is cut, and a speck.
TRUTH = np.array([[1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1],
                  [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1],
                  [1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1],
                  [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1],
                  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
                  [1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1]], float)
FOUND = np.array([[1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1],
                  [1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1],
                  [1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1],
                  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                  [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                  [1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1]], float)


def main():
    flat, none = (0, 1), (1,)
    for name, fields, function, classes in (
            ("dice", "", dice(), 4), ("dice_ignored", "dice_loss_param { ignore_label: 3 smooth: 0.5 }", dice(3, 0.5), 4),
            ("dice_squared", "dice_loss_param { squared: true }", dice(squared=True), 3)):
        scores = 3 if "ignored" in name else classes
        case(name, "DiceLoss", fields, [(2, scores, 3, 4), labels(name, (2, 1, 3, 4), classes)], function, no_gradient=none)
    scores = np.stack([-3 * FOUND, 3 * FOUND - 1], 0)[None]
    truth = TRUTH[None, None]
    case("rand", "RandScore", "", [scores, truth], rand(), tops=3, no_gradient=flat, silent_tops=(0, 1, 2))
    case("rand_least", "RandScore", "rand_score_param { threshold: 0.4 least_pixels: 2 }", [scores, truth], rand(0.4, 2),
         tops=3, no_gradient=flat, silent_tops=(0, 1, 2))
    case("border", "BorderWeight", "", [truth], border([], 10, 5), no_gradient=(0,), silent_tops=(0,))
    made = labels("border_classes", (2, 1, 6, 9), 4)
    case("border_classes", "BorderWeight",
         "border_weight_param { class_weight: 0.5 class_weight: 2 w0: 3 sigma: 1.5 object_label: 2 ignore_label: 3 }",
         [made], border([0.5, 2], 3, 1.5, 2, 3), no_gradient=(0,), silent_tops=(0,))
    for name, fields, ignored in (("counts", "", ()),
                                  ("counts_ignored", "segmentation_evaluate_param { ignore_label: 0 ignore_label: 3 }", (0, 3))):
        case(name, "SegmentationEvaluate", fields,
             [values(name, (2, 3, 4, 5)), labels(name, (2, 1, 4, 5), 4 if ignored else 3)], counts(ignored),
             no_gradient=flat, silent_tops=(0,))
    write("layers_measures.json")


if __name__ == "__main__":
    main()
