"""Records layers of single-stage detectors' forks on small inputs in float64, from their definitions, in numpy and
PyTorch: default boxes of FaceBoxes and TextBoxes++, TextBoxes++'s polygons, MultiBoxLoss's forks,
Mish and BatchNormScale, plates of cars.

Usage: python3 make_single_stage_goldens.py      writes layers_single_stage.json (the format of make_layer_goldens.py)
"""

import json
import math
import os

import numpy as np
import torch

import make_ssd_goldens as ssd
from make_ssd_goldens import CASES, random, record, rounded, short, some_priors, truth_rows
from ssd_boxes import decode, encode, suppress


# PriorBox ------------------------------------------------------------------------------------------------------------


def grid_priors(map_size, image, step, fixed, density, ratios, whole, offset=0.5):
    """Priors [1,2,P*4]; `whole`: a square's side is a whole number of pixels."""
    rows = []
    for y in range(map_size[0]):
        for x in range(map_size[1]):
            cx, cy = (x + offset) * step[1], (y + offset) * step[0]
            for size, dense in zip(np.float32(fixed).astype(float), density):
                for ratio in ratios:
                    side = math.floor(size) if whole and ratio == 1 else size
                    w, h = side * math.sqrt(ratio) / 2, side / math.sqrt(ratio) / 2
                    gap = int(size / int(dense))
                    for r in range(int(dense)):
                        for c in range(int(dense)):
                            px = cx - int(size) // 2 + gap / 2 + c * gap
                            py = cy - int(size) // 2 + gap / 2 + r * gap
                            rows.append([max((px - w) / image[1], 0), max((py - h) / image[0], 0),
                                         min((px + w) / image[1], 1), min((py + h) / image[0], 1)])
    boxes = np.array(rows).reshape(-1)
    return np.stack([boxes, np.full_like(boxes, np.float32(0.1))])[None]


def prior_cases():
    def case(name, map_size, fields, *arguments, **more):
        text = f"prior_box_param {{ img_h: 48 img_w: 64 {fields} }}"
        top = grid_priors(map_size, (48, 64), *arguments, **more)
        record(name, "PriorBox", text, [np.zeros((1, 1, *map_size))], top)

    case("prior_fixed", (2, 2), "step: 16 fixed_size: 9.7 fixed_size: 33 density: 4 density: 2.5", (16, 16), (9.7, 33),
         (4, 2.5), [1], True)
    case("prior_fixed_ratios", (1, 2), "step_h: 24 step_w: 40 offset: 0.75 fixed_size: 20.5 density: 3 aspect_ratio: 4",
         (24, 40), (20.5,), (3,), [1, 4, 0.25], True, offset=0.75)
    case("prior_fixed_ratio", (2, 3), "fixed_size: 15.25 density: 2 fixed_ratio: 2.25", (24, 64 / 3), (15.25,), (2,),
         [2.25], False)
    # Every box once more, its centre at the cell's lower edge whatever the offset.
    plain = ssd.prior_boxes((2, 2), (40, 30), [6], [12], [2], step=(16, 12), offset=0.25)
    boxes = plain[0, 0].reshape(-1, 4)
    lower = boxes + [0, 0.75 * 16 / 40, 0, 0.75 * 16 / 40]
    both = np.stack([boxes, lower], axis=1).reshape(-1)
    record("prior_denser", "PriorBox",
           "prior_box_param { img_h: 40 img_w: 30 step_h: 16 step_w: 12 offset: 0.25 min_size: 6 max_size: 12 "
           "aspect_ratio: 2 denser_prior_boxes: true }", [np.zeros((1, 1, 2, 2))],
           np.stack([both, np.full_like(both, np.float32(0.1))])[None])


# Polygons ------------------------------------------------------------------------------------------------------------


def corners(boxes):
    """[P,8]: clockwise from the upper left."""
    return boxes[:, [0, 1, 2, 1, 2, 3, 0, 3]]


def polygon_units(priors, variance):
    size = priors[:, 2:] - priors[:, :2]
    return np.tile(size * variance[:, :2], 4)


def polygon_detections():
    prior = some_priors()
    boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
    count, n, classes = len(boxes), 2, 3

    def case(name, share, keep):
        places = 1 if share else classes
        loc = random(f"{name}/loc", (n, count * places * 12), -0.75, 0.75)
        conf = np.stack([(np.argsort(np.argsort(random(f"{name}/conf{i}", (count * classes,)))) + 1) / 512
                         for i in range(n)])
        rows = []
        for i in range(n):
            codes, scores = loc[i].reshape(count, places, 12), conf[i].reshape(count, classes)
            found = []
            for c in range(1, classes):
                code = codes[:, 0 if share else c]
                decoded = decode("CENTER_SIZE", boxes, code[:, :4] * variance)
                polygons = corners(boxes) + code[:, 4:] * polygon_units(boxes, variance)
                order = sorted(range(count), key=lambda p: (-scores[p, c], p))
                found += [[i, c, scores[p, c], *decoded[p], *polygons[p]] for p in suppress(decoded, order, 0.25)]
            rows += sorted(sorted(found, key=lambda f: -f[2])[:keep], key=lambda f: (f[1], -f[2]))
        top = np.full((1, 1, n * keep, 15), -1.0)
        top[0, 0, :len(rows)] = rows
        record(name, "DetectionOutput",
               f"detection_output_param {{ num_classes: {classes} share_location: {str(share).lower()} code_type: "
               f"CENTER_SIZE nms_param {{ nms_threshold: 0.25 }} keep_top_k: {keep} use_polygon: true }}",
               [loc, conf, prior], top, phase="TEST")

    case("detection_polygons", True, 5)
    case("detection_own_polygons", False, 9)


def polygon_evaluation():
    truth = np.zeros((1, 1, 3, 16))
    truth[0, 0, :, :8] = [[0, 1, 0, 0.1, 0.1, 0.5, 0.5, 0], [0, 1, 1, 0.5, 0.5, 0.9, 0.75, 0],
                          [1, 1, 0, 0.25, 0.25, 0.5, 0.5, 0]]
    truth[0, 0, :, 8:] = random("evaluate_polygons/truth", (3, 8))
    found = np.zeros((1, 1, 4, 15))
    found[0, 0, :, :7] = [[0, 1, 0.75, 0.1, 0.1, 0.5, 0.5], [0, 1, 0.5, 0.125, 0.1, 0.5, 0.5],
                          [0, 1, 0.25, 0.5, 0.5, 0.875, 0.75], [1, 1, 0.5, 0.5, 0.5, 0.75, 0.75]]
    found[0, 0, :, 7:] = random("evaluate_polygons/found", (4, 8))
    top = np.array([[-1, 1, 3, -1, -1], [0, 1, 0.75, 1, 0], [0, 1, 0.5, 0, 1], [0, 1, 0.25, 1, 0], [1, 1, 0.5, 0, 1]])
    record("evaluate_polygons", "DetectionEvaluate", "detection_evaluate_param { num_classes: 2 use_polygon: true }",
           [found, truth], top[None, None], phase="TEST")


# MultiBoxLoss's forks ------------------------------------------------------------------------------------------------

SETTINGS = {**ssd.DEFAULTS, "code": "CENTER_SIZE", "overlap": 0.25, "neg_overlap": 0.25}
FIELDS = "code_type: CENTER_SIZE overlap_threshold: 0.25 neg_overlap: 0.25"


def matched(prior, truth, n):
    """For each image the object each prior learns (-1: none), its best overlap, boxes and labels."""
    boxes = prior[0, 0].reshape(-1, 4)
    out = []
    for i in range(n):
        rows = truth[0, 0][truth[0, 0][:, 0] == i]
        owner, best = ssd.match(boxes, rows[:, 3:7], SETTINGS)
        out.append((owner, best, rows))
    return out


def smooth(d):
    return torch.where(d.abs() < 1, 0.5 * d * d, d.abs() - 0.5)


def loc_sum(loc, prior, found):
    """loc [N,P,4] of the boxes alone."""
    boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
    total = 0
    for i, (owner, _, rows) in enumerate(found):
        for p in np.flatnonzero(owner >= 0):
            code = encode("CENTER_SIZE", boxes[p:p + 1], rows[owner[p]][None, 3:7])[0] / variance[p]
            total = total + smooth(loc[i, p, :4] - torch.tensor(code)).sum()
    return total


def classes_of(found, count):
    target = np.zeros((len(found), count), dtype=int)
    for i, (owner, _, rows) in enumerate(found):
        for p in np.flatnonzero(owner >= 0):
            target[i, p] = int(rows[owner[p]][1])
    return torch.tensor(target)


def write_loss(name, kind, fields, bottoms, tensors, loss, params=()):
    loss.backward()
    record(name, kind, fields, bottoms, loss.detach().numpy(),
           {i: t.grad.numpy() for i, t in tensors.items()}, loss=True)
    CASES[-1]["params"] = [{"shape": list(p.shape), "data": [short(v) for v in p.reshape(-1)],
                            "after": [short(v) for v in p.reshape(-1)]} for p in params]


def fork_losses():
    images, classes = (2, 0, 3), 4
    n, prior = len(images), some_priors()
    count = prior.shape[2] // 4

    def inputs(name, numbers=4):
        loc = random(f"{name}/loc", (n, count * numbers), -0.5, 0.5)
        conf = random(f"{name}/conf", (n, count * classes), -3, 3)
        truth = truth_rows(name, images, classes, sum(images) + 2)
        return loc, conf, truth

    def focal(name, alpha, gamma, mining):
        loc, conf, truth = inputs(name)
        x = {0: torch.tensor(loc, requires_grad=True), 1: torch.tensor(conf, requires_grad=True)}
        found = matched(prior, truth, n)
        target = classes_of(found, count)
        p = torch.softmax(x[1].reshape(n, count, classes), 2).gather(2, target[..., None])[..., 0]
        weight = torch.ones(n, count, dtype=torch.float64)
        if mining:
            weight[:] = 0
            for i, (owner, best, rows) in enumerate(found):
                weight[i, owner >= 0] = 1
                loss = -torch.log(p[i].detach())
                free = [k for k in range(count) if owner[k] == -1 and best[k] < 0.25]
                chosen = sorted(free, key=lambda k: (-loss[k], k))[:int(3 * (owner >= 0).sum())]
                weight[i, chosen] = 1
        matches = sum(int((owner >= 0).sum()) for owner, _, _ in found)
        each = -alpha * (1 - p) ** gamma * torch.log(p)
        total = (loc_sum(x[0].reshape(n, count, 4), prior, found) + (weight * each).sum()) / matches
        write_loss(name, "MultiBoxFocalLoss",
                   f"focal_loss_param {{ alpha: {alpha} gamma: {gamma} }} multibox_loss_param {{ num_classes: "
                   f"{classes} {FIELDS} mining_type: {'MAX_NEGATIVE' if mining else 'NONE'} }}",
                   [loc, conf, prior, truth], x, total)

    focal("multibox_focal", 0.25, 2, False)
    focal("multibox_focal_mined", 0.5, 1.5, True)

    def center(name, weight, fields):
        loc, conf, truth = inputs(name)
        length = 3
        vectors, centers = random(f"{name}/v", (n, count * length)), random(f"{name}/c", (classes, length))
        x = {0: torch.tensor(loc, requires_grad=True), 1: torch.tensor(conf, requires_grad=True),
             4: torch.tensor(vectors, requires_grad=True)}
        found = matched(prior, truth, n)
        target = classes_of(found, count)
        matches = sum(int((owner >= 0).sum()) for owner, _, _ in found)
        e = torch.nn.functional.cross_entropy(x[1].reshape(-1, classes), target.reshape(-1), reduction="sum")
        away = ((x[4].reshape(-1, length) - torch.tensor(centers)[target.reshape(-1)]) ** 2).sum() / (2 * n * count)
        total = (loc_sum(x[0].reshape(n, count, 4), prior, found) + e + weight * away) / matches
        write_loss(name, "MultiBoxCenterLoss",
                   f"multibox_loss_param {{ num_classes: {classes} {FIELDS} {fields} }} multibox_center_loss_param {{ "
                   f"center_features: {length} }}", [loc, conf, prior, truth, vectors], x, total, [centers])

    center("multibox_center", 0.125, "center_loss_weight: 0.125 mining_type: MAX_NEGATIVE")
    center("multibox_center_one", 1.0, "mining_type: NONE")

    def polygons(name, spread, inside, weight):
        loc, conf, truth = inputs(name, 12)
        loc = loc * spread
        rows = truth.shape[2]
        truth = np.concatenate([truth, random(f"{name}/corners", (1, 1, rows, 8), 0, 1)], axis=3)
        x = {0: torch.tensor(loc, requires_grad=True), 1: torch.tensor(conf, requires_grad=True)}
        found = matched(prior, truth, n)
        boxes, variance = prior[0, 0].reshape(-1, 4), prior[0, 1].reshape(-1, 4)
        places, matches = 0, 0
        for i, (owner, _, objects) in enumerate(found):
            for p in np.flatnonzero(owner >= 0):
                own = objects[owner[p]]
                code = np.concatenate([
                    encode("CENTER_SIZE", boxes[p:p + 1], own[None, 3:7])[0] / variance[p],
                    (own[8:] - corners(boxes[p:p + 1])[0]) / polygon_units(boxes[p:p + 1], variance[p:p + 1])[0]])
                # TextBoxes++ asks xmax, not xmin, whether x4 counts.
                sides = boxes[p][[0, 1, 2, 3, 0, 1, 2, 3, 2, 3, 2, 3]]
                counts = (sides >= 0) & (sides <= 1) if inside else np.ones(12, dtype=bool)
                d = x[0].reshape(n, count, 12)[i, p] - torch.tensor(code)
                places = places + (smooth(d) * torch.tensor(counts)).sum()
                matches += 1
        terms = 0
        for i, (owner, best, _) in enumerate(found):
            target = classes_of(found, count)[i]
            loss = torch.nn.functional.cross_entropy(x[1].reshape(n, count, classes)[i], target, reduction="none")
            free = [k for k in range(count) if owner[k] == -1 and best[k] < 0.25]
            chosen = sorted(free, key=lambda k: (-loss[k], k))[:int(3 * (owner >= 0).sum())]
            terms = terms + loss[list(np.flatnonzero(owner >= 0)) + chosen].sum()
        places, terms = weight * places / matches, terms / matches
        more = float(places.detach()) - 20
        print(f"{name}: {more:.3f} over 20")
        shown = places - max(more, 0)
        write_loss(name, "MultiBoxLoss",
                   f"multibox_loss_param {{ num_classes: {classes} {FIELDS} use_polygon: true loc_weight: {weight} "
                   f"bp_inside: {str(inside).lower()} }}", [loc, conf, prior, truth], x, shown + terms)

    polygons("multibox_polygons", 1, True, 0.25)
    polygons("multibox_polygons_far", 8, False, 1)

    loc, conf, truth = inputs("multibox_ssd_name")
    x = {0: torch.tensor(loc, requires_grad=True), 1: torch.tensor(conf, requires_grad=True)}
    found = matched(prior, truth, n)
    e = torch.nn.functional.cross_entropy(x[1].reshape(-1, classes), classes_of(found, count).reshape(-1),
                                          reduction="sum")
    total = (loc_sum(x[0].reshape(n, count, 4), prior, found) + e) / n
    write_loss("multibox_ssd_name", "MultiBoxSSDLoss",
               f"loss_param {{ normalization: BATCH_SIZE }} multibox_loss_param {{ num_classes: {classes} {FIELDS} "
               "mining_type: NONE }", [loc, conf, prior, truth], x, total)


# Activations and normalisation ---------------------------------------------------------------------------------------


def plain(name, kind, fields, x, rule, params=(), phase="TRAIN"):
    """One bottom, one top; params: (array, trained)."""
    tensors = [torch.tensor(a, requires_grad=trained) for a, trained in params]
    bottom = torch.tensor(x, requires_grad=True)
    y = rule(bottom, *tensors)
    weight = random(f"{name}/weight", y.shape)
    (y * torch.tensor(weight)).sum().backward()
    record(name, kind, fields, [x], y.detach().numpy(), {0: bottom.grad.numpy()}, phase=phase)
    CASES[-1]["tops"][0]["weight"] = [short(v) for v in weight.reshape(-1)]
    for (array, trained), tensor in zip(params, tensors):
        row = {"shape": list(array.shape), "data": [short(v) for v in array.reshape(-1)]}
        if trained:
            row["gradient"] = rounded(tensor.grad.numpy())
        else:
            row["after"] = row["data"]
        CASES[-1]["params"].append(row)


def activations():
    x = np.concatenate([random("mish/x", (2, 9), -6, 6).reshape(-1), [-90, -21, -20, 0, 19.5, 20.5, 30, 90]])
    plain("mish", "Mish", "", x.reshape(2, 13), lambda t: t * torch.tanh(torch.nn.functional.softplus(t, threshold=40)))
    sums = [(random("bn_scale/mean", (3,)), False), (random("bn_scale/variance", (3,), 0.5, 1.5), False),
            (np.array([2.0]), False), (random("bn_scale/scale", (3,), 0.5, 2), True),
            (random("bn_scale/shift", (3,)), True)]

    def rule(t, mean, variance, count, scale, shift):
        def spread(v):
            return v.reshape(1, 3, 1, 1)
        h = (t - spread(mean / count)) / torch.sqrt(spread(variance / count) + float(np.float32(1e-5)))
        return h * spread(scale) + spread(shift)

    plain("batch_norm_scale", "BatchNormScale", "batch_norm_param { eps: 1e-5 }", random("bn_scale/x", (2, 3, 2, 3)),
          rule, sums, phase="TEST")


# Plates of cars ------------------------------------------------------------------------------------------------------


def plates():
    sizes = (4, 3, 5, 5, 5, 5, 5)
    scores = [random(f"plate/{k}", (3, size), -0.5, 1) for k, size in enumerate(sizes)]
    scores[2][1] = [-0.5, -0.25, -1, -0.125, -0.75]  # nothing above 0
    scores[3][0] = [0.25, 0.75, 0.5, 0.75, 0.75]     # the first of equals
    best = np.array([[int(np.argmax(np.maximum(s[i], 0))) for s in scores] for i in range(3)], dtype=float)
    record("plates", "DetectionCcpdOutput", "lp_det_param { num_chinese: 4 num_english: 3 num_letter: 5 }", scores,
           best[None, None], phase="TEST")
    read = np.array([[0, 1, 2, 3, 4, 5, 6], [1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 3]], dtype=float)
    true = np.array([[0, 1, 2, 3, 4, 5, 5], [1, 1, 1, 1, 1, 1, 1], [2, 2, 2, 2, 2, 2, 2]], dtype=float)
    record("plates_right", "LpEvaluate", "", [read, true], np.array([0, 1, 1.0]).reshape(1, 1, 3, 1), phase="TEST")
    record("plates_as_one", "LpEvaluate", "", [true[None, None], true[None, None]], np.ones((1, 1, 1, 1)), phase="TEST")


def main():
    CASES.clear()
    for cases in (prior_cases, polygon_detections, polygon_evaluation, fork_losses, activations, plates):
        cases()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_single_stage.json")
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
