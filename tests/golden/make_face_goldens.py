"""Records the layers of faces and people, YOLO v1's and their kin, each written here with numpy and PyTorch item by item
from the forks' rules.

Usage: python3 make_face_goldens.py      writes layers_faces.json (format: make_layer_goldens.py)
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from make_segmentation_goldens import Recorder, values


# Identities -----------------------------------------------------------------------------------------------------------


def identities(r):
    x = values("faces/norm/x", (3, 2, 2, 3), -2.0, 2.0)
    r.case("simple_normalize", "SimpleNormalize", "", [x],
           lambda x, _: [x[0] / x[0].reshape(3, -1).norm(dim=1).reshape(3, 1, 1, 1)])
    x = values("faces/cosine/x", (4, 3), -2.0, 2.0)
    weight = values("faces/cosine/w", (5, 3), -1.0, 1.0)
    labels = np.array([2.0, 0.0, 4.0, 2.0])

    def cosines(x, w):
        y = F.normalize(x[0], eps=0) @ F.normalize(w[0], eps=0).T
        return [12 * (y + 0.25 * F.one_hot(torch.tensor(labels).long(), 5))]

    r.case("cosin_l2_normalize", "CosinL2Normalize", "cosin_loss_param { num_output: 5 scale: 12 margin: 0.25 }",
           [x, labels], cosines, params=[weight], no_gradient=[1])
    x = values("faces/pairs/x", (6, 2, 2), -2.0, 2.0)
    same = np.array([1.0, 0.0, 1.0])
    r.case("identity2verify", "Identity2Verify", "", [x, np.array([3.0, 3.0, 1.0, 5.0, 0.0, 0.0])],
           lambda x, _: [x[0][0::2], x[0][1::2], torch.tensor(same)], no_gradient=[1], silent=[2])


def triplets(r):
    x = values("faces/triplets/x", (6, 3), -1.0, 1.0)
    rows = [[0, 1, 3], [1, 2, 4], [3, 4, 0], [-1, -1, -1]]
    margin, count = 0.5, len(rows)
    loss, slope = 0.0, np.zeros_like(x)
    for a, p, n in rows[:3]:
        loss += max(0.0, ((x[a] - x[p]) ** 2).sum() - ((x[a] - x[n]) ** 2).sum() + margin)
        slope[a], slope[p], slope[n] = 2 * (x[n] - x[p]), 2 * (x[p] - x[a]), 2 * (x[a] - x[p])
    r.case("triplet_rows", "TripletLoss", "triplet_loss_param { margin: 0.5 }",
           [x, np.array(rows, dtype=float).reshape(4, 3, 1, 1)], lambda *_: [torch.tensor(loss / count)],
           no_gradient=[1], slopes={0: slope / count})


# Attributes -----------------------------------------------------------------------------------------------------------


def attributes(r):
    found = values("faces/attributes/found", (3, 18), 0.0, 1.0)
    truth = values("faces/attributes/truth", (3, 17), 0.0, 1.0)
    found[:, 10:13] *= 90
    truth[:, 10:13] *= 90
    found[:, 13:17] = [[0.875, 0.125, 0.25, 0.75], [0.25, 0.75, 0.375, 0.625], [0.625, 0.375, 0.125, 0.875]]
    truth[:, 13:15] = [[1, 0], [1, 0], [1, 1]]
    truth[:, 15:] = [[30, 40], [20, 21], [64, 48]]
    y = np.zeros((1, 1, 3, 10))
    for i in range(3):
        w, h = truth[i, 15:]
        for k in range(5):
            dx, dy = w * (found[i, k] - truth[i, k]), h * (found[i, 5 + k] - truth[i, 5 + k])
            y[0, 0, i, k] = math.sqrt(dx * dx + dy * dy) / math.sqrt(w * w + h * h)
        for k in range(3):
            y[0, 0, i, 7 + k] = math.cos(math.radians(found[i, 10 + k] - truth[i, 10 + k]))
    y[0, 0, :, 5] = [0, 1, 1]  # gender: wrong, right, and from there on
    y[0, 0, :, 6] = [0, 0, 1]
    r.case("face_attri_evaluate", "FaceAttriEvaluate", "face_evaluate_param { facetype: FACEATTRIBUTE }",
           [found, truth], lambda *_: [torch.tensor(y)], no_gradient=[0, 1], silent=[0])


# Detectors ------------------------------------------------------------------------------------------------------------


def smooth_l1(d):
    return torch.where(d.abs() < 1, d * d / 2, d.abs() - 0.5).sum()


def grid_loss(x, faces, softmax, marks, box, low, high, picture, divide):
    """faces: rows of (image, corners, has marks, marks), in their order."""
    images, _, height, width = x.shape
    stride = picture / height
    kinds = [["none"] * (height * width) for _ in range(images)]
    places, mark_places, cells, marked = x.new_zeros(()), x.new_zeros(()), 0, 0
    taken = set()
    for image, (x0, y0, x1, y1), has_marks, points in faces:
        corners = (x0 * width, y0 * height, x1 * width, y1 * height)
        longer = max(int((corners[2] - corners[0]) * stride), int((corners[3] - corners[1]) * stride))
        for i in range(int(corners[1]), int(corners[3])):
            for j in range(int(corners[0]), int(corners[2])):
                kinds[image][i * width + j] = "ignored"
                if not low <= longer < high or (image, i, j) in taken:
                    continue
                taken.add((image, i, j))
                kinds[image][i * width + j] = "face"
                cells += 1
                scale = stride / box * (1 if softmax else 2)
                centre = (j + 0.5, i + 0.5)
                goal = torch.tensor([(centre[k % 2] - corners[k]) * scale for k in range(4)])
                places = places + smooth_l1(x[image, :4, i, j] - goal)
                if marks and has_marks:
                    marked += 1
                    sides = (width, height)
                    goal = torch.tensor([(centre[k % 2] - points[k] * sides[k % 2]) * scale for k in range(10)])
                    mark_places = mark_places + smooth_l1(x[image, 4:14, i, j] - goal)
    classes = x.new_zeros(())
    first = 14 if marks else 4
    for image in range(images):
        if not softmax and not any(f[0] == image for f in faces):
            continue
        for cell, kind in enumerate(kinds[image]):
            if kind == "ignored":
                continue
            scores = x[image, first:, cell // width, cell % width]
            face = torch.softmax(scores, 0)[1] if softmax else torch.sigmoid(scores[0])
            p = face if kind == "face" else 1 - face
            alpha, gamma = (0.25, 2) if softmax else (2, 4)
            classes = classes - alpha * (1 - p) ** gamma * torch.log(p)
    by = {"BATCH_SIZE": (images, images), "VALID": (cells or images, marked or images), "NONE": (1, 1)}[divide]
    return (places + classes) / by[0] + 0.1 * mark_places / by[1]


def grids(r):
    points = [0.1875, 0.3125, 0.40625, 0.3125, 0.3125, 0.4375, 0.21875, 0.625, 0.40625, 0.65625]
    faces = [(0, (0.125, 0.09375, 0.59375, 0.8125), True, points), (0, (0.40625, 0.3125, 0.9375, 0.90625), False, [-1.0] * 10),
             (1, (0.0, 0.0, 0.3125, 0.4375), True, points), (1, (0.1875, 0.21875, 0.90625, 0.9375), True, points)]

    def record(name, softmax, marks, divide, only=None):
        some = [f for f in faces if only is None or f[0] == only]
        channels = 4 + (10 if marks else 0) + (2 if softmax else 1)
        x = values(f"faces/{name}", (2, channels, 5, 6), -1.5, 1.5)
        columns = 19 if marks else 8
        label = np.full((2, 1, 3, columns), -1.0)
        for image in range(2):
            for row, f in enumerate(f for f in some if f[0] == image):
                label[image, 0, row, :8] = [image, 1, 0, *f[1], 0]
                if marks:
                    label[image, 0, row, 8:] = [float(f[2]), *f[3]]
        fields = (f"loss_param {{ normalization: {divide} }} center_object_loss_param {{ num_class: {2 if softmax else 1} "
                  f"class_type: {'SOFTMAX' if softmax else 'SIGMOID'} bias_scale: 24 bias_num: 1 net_height: 40 "
                  f"net_width: 48 low_bbox_scale: 20 up_bbox_scale: 100 has_lm: {'true' if marks else 'false'} }}")
        r.case(name, "CenterGridLoss", fields, [x, label],
               lambda x, _: [grid_loss(x[0], some, softmax, marks, 24, 20, 100, 40, divide)], no_gradient=[1])

    record("center_grid_sigmoid", False, False, "VALID")
    record("center_grid_sigmoid_one_image", False, False, "BATCH_SIZE", only=1)
    record("center_grid_softmax", True, False, "BATCH_SIZE")
    record("center_grid_landmarks", True, True, "VALID")
    record("center_grid_sums", True, True, "NONE", only=0)


def peaks(r):
    def record(name, marks, keep, nms):
        channels = 14 if marks else 4
        x = values(f"faces/{name}/x", (2, channels, 3, 4), -0.5, 0.9)
        scores = values(f"faces/{name}/s", (2, 2, 3, 4), 0.0, 1.02)
        columns = 7 + (10 if marks else 0)
        rows = []
        for image in range(2):
            found = []
            for c in range(2):
                for i in range(3):
                    for j in range(4):
                        s = scores[image, c, i, j]
                        if not 0.25 < s < 1:
                            continue
                        v = x[image, :, i, j]
                        cx, cy = (j + v[0]) * 4, (i + v[1]) * 4
                        w, h = math.exp(v[2]) * 4, math.exp(v[3]) * 4
                        box = [min(max(cx - w / 2, 0), 16), min(max(cy - h / 2, 0), 12), min(max(cx + w / 2, 0), 16),
                               min(max(cy + h / 2, 0), 12)]
                        bw, bh = box[2] - box[0], box[3] - box[1]
                        points = [min(max(((cx, cy)[k % 2] + v[4 + k] * (bw, bh)[k % 2]) * 4, 0), (16, 12)[k % 2])
                                  for k in range(10 if marks else 0)]
                        found.append((s, c + 1, box, w * h, points))
            found.sort(key=lambda f: -f[0])
            kept = []
            for f in found:
                def common(k):
                    side = [min(f[2][2 + d], k[2][2 + d]) - max(f[2][d], k[2][d]) + 1 for d in (0, 1)]
                    both = max(side[0], 0) * max(side[1], 0)
                    return both / (f[3] + k[3] - both)
                if all(common(k) <= nms for k in kept):
                    kept.append(f)
            for s, c, box, _, points in kept[:keep if keep > 0 else None]:
                rows.append([image, c, s, box[0] / 16, box[1] / 12, box[2] / 16, box[3] / 12, *points])
        y = np.full((1, 1, 2 * (keep if keep > 0 else 24), columns), -1.0)
        y[0, 0, :len(rows)] = rows
        r.case(name, "CenternetDetectionOutput",
               f"detection_output_param {{ num_classes: 3 keep_top_k: {keep} confidence_threshold: 0.25 nms_thresh: {nms} "
               f"has_lm: {'true' if marks else 'false'} }}", [x, scores], lambda *_: [torch.tensor(y)],
               no_gradient=[0, 1], silent=[0], phase="TEST")

    record("center_peaks", False, -1, 0.375)
    record("center_peaks_landmarks", True, 3, 0.25)


def focal(r):
    x = values("faces/focal/x", (3, 4, 2), -2.0, 2.0)
    labels = np.array([[1.0, 3.0], [0.0, 2.0], [2.0, 2.0]])

    def loss(x, ignored=None):
        p = torch.softmax(x[0], 1)
        total, count = x[0].new_zeros(()), 0
        for i in range(3):
            for j in range(2):
                if labels[i, j] == ignored:
                    continue
                q = p[i, int(labels[i, j]), j]
                total = total - 0.75 * (1 - q) ** 2 * torch.log(q)
                count += 1
        return [total / count]

    r.case("focal_softmax", "focalSoftmaxWithLoss", "", [x, labels], lambda x, _: loss(x), no_gradient=[1])
    r.case("focal_softmax_ignored", "focalSoftmaxWithLoss", "loss_param { ignore_label: 2 }", [x, labels],
           lambda x, _: loss(x, 2), no_gradient=[1])


# Poses and YOLO -------------------------------------------------------------------------------------------------------


def maxima(r):
    x = values("faces/maxima", (2, 2, 3, 4), -2.0, 1.0)
    x[1, 1] -= 5
    y = np.zeros((2, 2, 1, 3))
    for n in range(2):
        for c in range(2):
            i, j = np.unravel_index(np.argmax(x[n, c]), (3, 4))
            y[n, c, 0] = [j, i, x[n, c, i, j]]
    r.case("maximum", "Maximum", "", [x], lambda *_: [torch.tensor(y)], no_gradient=[0], silent=[0])


def excitations(r):
    x = values("faces/excited/x", (2, 3, 4, 5), -1.0, 1.0)
    label = np.zeros((2, 1, 3, 5))
    label[0, 0, :2] = [[1, 0.3125, 0.375, 0.34375, 0.3125], [2, 0.90625, 0.875, 0.5, 0.5]]
    label[1, 0, 0] = [1, 0.5, 0.5, 0.875, 0.875]
    mean = values("faces/excited/mean", (2, 4, 5), -1.0, 1.0)
    mask = np.zeros((4, 5))
    for _, cx, cy, w, h in label[0, 0, :2]:
        left, right = max(int((cx - w / 2) * 5), 0), min(int((cx + w / 2) * 5 + 0.95), 5)
        top, bottom = max(int((cy - h / 2) * 4), 0), min(int((cy + h / 2) * 4 + 0.95), 4)
        mask[top:bottom, left:right] = 1
    more = np.zeros((2, 1, 4, 5))
    more[0, 0] = mask * mean[0]  # the first run: cos(0)
    r.case("assisted_excitation", "AssistedExcitation", "assisted_excitation_param { max_iter: 8 }", [x, label, mean],
           lambda x, _: [x[0] + torch.tensor(more)], no_gradient=[1, 2])
    r.case("assisted_excitation_test", "AssistedExcitation", "", [x, label, mean], lambda x, _: [x[0] * 1],
           no_gradient=[1, 2], phase="TEST")


def squares(r):
    side, classes, boxes = 3, 4, 2
    cells = side * side
    label = np.zeros((2, 7 * cells))
    objects = [(0, 4, 2, (0.4375, 0.5625, 0.5, 0.3125), 0), (0, 8, 2, (0.8125, 0.90625, 0.1875, 0.25), 1),
               (1, 1, 0, (0.5, 0.1875, 0.3125, 0.3125), 0)]
    for item, cell, c, box, difficult in objects:
        label[item, cell] = difficult
        label[item, cells + cell] = 1
        label[item, 2 * cells + cell] = c
        label[item, 3 * cells + 4 * cell:3 * cells + 4 * cell + 4] = box

    def predicted(x, item, k, cell, sqrt, inside):
        at = (classes + boxes + 4 * k) * cells + cell
        bx, by, bw, bh = (x[item, at + o * cells] for o in range(4))
        if inside:
            bx, by = (cell % side + bx) / side, (cell // side + by) / side
        return (bx, by, bw * bw, bh * bh) if sqrt else (bx, by, bw, bh)

    def iou(a, b):
        w = min(a[0] + a[2] / 2, b[0] + b[2] / 2) - max(a[0] - a[2] / 2, b[0] - b[2] / 2)
        h = min(a[1] + a[3] / 2, b[1] + b[3] / 2) - max(a[1] - a[3] / 2, b[1] - b[3] / 2)
        common = w * h if w > 0 and h > 0 else 0.0
        return common / (a[2] * a[3] + b[2] * b[3] - common)

    def loss(name, sqrt, inside):
        x = values(f"faces/{name}", (2, cells * (classes + 5 * boxes)), 0.05, 0.95)
        slope = np.zeros_like(x)
        found, empty = 0.0, 0.0
        for item in range(2):
            for k in range(boxes):
                for cell in range(cells):
                    at = (classes + k) * cells + cell
                    slope[item, at] = 0.5 * x[item, at]
                    empty += 0.5 * x[item, at] ** 2
        for item, cell, c, truth, _ in objects:
            for j in range(classes):
                error = x[item, j * cells + cell] - (1.0 if j == c else 0.0)
                slope[item, j * cells + cell] = 0.75 * error
                found += 0.75 * error ** 2
            shapes = [predicted(x, item, k, cell, sqrt, inside) for k in range(boxes)]
            overlaps = [iou(s, truth) for s in shapes]
            if max(overlaps) > 0:
                best = int(np.argmax(overlaps))
            else:
                best = int(np.argmin([sum((s[o] - truth[o]) ** 2 for o in range(4)) for s in shapes]))
            at = (classes + best) * cells + cell
            empty -= 0.5 * x[item, at] ** 2
            found += 2 * (x[item, at] - 1) ** 2
            slope[item, at] = 2 * (x[item, at] - overlaps[best])
            goal = list(truth)
            if inside:
                goal[0], goal[1] = truth[0] * side - cell % side, truth[1] * side - cell // side
            if sqrt:
                goal[2], goal[3] = math.sqrt(truth[2]), math.sqrt(truth[3])
            for o in range(4):
                at = (classes + boxes + 4 * best + o) * cells + cell
                slope[item, at] = 5 * (x[item, at] - goal[o])
                found += 5 * (x[item, at] - goal[o]) ** 2
        total = found / 3 + empty / (2 * cells * boxes - 3)
        r.case(name, "DetectionLoss",
               f"detection_loss_param {{ side: 3 num_class: 4 num_object: 2 object_scale: 2 class_scale: 0.75 sqrt: "
               f"{'true' if sqrt else 'false'} constriant: {'true' if inside else 'false'} }}", [x, label],
               lambda *_: [torch.tensor(total)], no_gradient=[1], slopes={0: slope / 2})

    loss("yolo1_loss", True, True)
    loss("yolo1_loss_plain", False, False)

    def evaluate(name, kind, nms, threshold):
        x = values(f"faces/{name}", (2, cells * (classes + 5 * boxes)), 0.05, 0.95)
        y = np.zeros((2, classes + cells * boxes * 4))
        for item in range(2):
            own = [o for o in objects if o[0] == item]
            for o in own:
                y[item, o[2]] += 1 - o[4]
            found = []
            for cell in range(cells):
                scores = [x[item, c * cells + cell] for c in range(classes)]
                c = int(np.argmax(scores))
                for k in range(boxes):
                    o = x[item, (classes + k) * cells + cell]
                    score = {"OBJ": o, "PROB": scores[c], "MULTIPLY": o * scores[c]}[kind]
                    found.append((predicted(x, item, k, cell, True, True), c, score))
            found.sort(key=lambda f: -f[2])
            kept = []
            for f in found:
                if nms < 0 or all(iou(f[0], k[0]) < nms for k in kept):
                    kept.append(f)
            at = classes
            for c in range(classes):
                taken = set()
                for box, label_of, score in kept:
                    if label_of != c:
                        continue
                    truths = [o for o in own if o[2] == c]
                    overlaps = [iou(box, o[3]) for o in truths]
                    hit, miss = 0, 1
                    if truths and max(overlaps) >= threshold:
                        nearest = int(np.argmax(overlaps))
                        if truths[nearest][4]:
                            miss = 0
                        elif nearest not in taken:
                            taken.add(nearest)
                            hit, miss = 1, 0
                    y[item, at:at + 4] = [c, score, hit, miss]
                    at += 4
        r.case(name, "EvalDetection",
               f"eval_detection_param {{ side: 3 num_class: 4 num_object: 2 score_type: {kind} nms: {nms} threshold: "
               f"{threshold} }}", [x, label], lambda *_: [torch.tensor(y)], no_gradient=[0, 1], silent=[0],
               phase="TEST")

    evaluate("yolo1_evaluation", "MULTIPLY", 0.5, 0.25)
    evaluate("yolo1_evaluation_all", "OBJ", -1, 0.125)
    evaluate("yolo1_evaluation_probability", "PROB", 0.75, 0.5)


def main():
    r = Recorder()
    for record in (identities, triplets, attributes, grids, peaks, focal, maxima, excitations, squares):
        record(r)
    r.write("layers_faces.json")


if __name__ == "__main__":
    main()
