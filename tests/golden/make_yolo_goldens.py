"""Records YOLO's layers, each written here with numpy (overlaps' derivatives with PyTorch) from darknet's and the Caffe
ports' rules: predictions are cut into boxes one anchor at a time, labels and rules are walked object by object.

Usage: python3 make_yolo_goldens.py      writes layers_yolo.json (format: make_layer_goldens.py)
"""

import math

import numpy as np
import torch

from make_segmentation_goldens import Recorder, values


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def f32(x):
    return float(np.float32(x))


def edges(b):
    return b[0] - b[2] / 2, b[1] - b[3] / 2, b[0] + b[2] / 2, b[1] + b[3] / 2


def areas(a, b):
    """Width and height of the intersection (maybe negative), union with the intersection at least 0."""
    l0, t0, r0, b0 = edges(a)
    l1, t1, r1, b1 = edges(b)
    w, h = min(r0, r1) - max(l0, l1), min(b0, b1) - max(t0, t1)
    common = 0 if w < 0 or h < 0 else w * h
    return w, h, common, a[2] * a[3] + b[2] * b[3] - common


def iou(a, b):
    _, _, common, joined = areas(a, b)
    return common / joined


def hull(a, b):
    l0, t0, r0, b0 = edges(a)
    l1, t1, r1, b1 = edges(b)
    return max(r0, r1) - min(l0, l1), max(b0, b1) - min(t0, t1)


def overlap(a, b, kind):
    plain = iou(a, b)
    if kind in ("mse", "iou"):
        return plain
    w, h = hull(a, b)
    if kind == "giou":
        return plain - (w * h - areas(a, b)[3]) / (w * h)
    distance = ((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2) / (w * w + h * h)
    if kind == "diou":
        return plain - distance**0.6
    aspect = 4 / math.pi**2 * (math.atan(b[2] / b[3]) - math.atan(a[2] / a[3])) ** 2
    return plain - distance - aspect / (1 - plain + aspect + 1e-6) * aspect


def overlap_slope(box, truth, kind):
    """By automatic differentiation; darknet moves w and h by both edges, so their plain part counts twice."""
    p = torch.tensor(box, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(truth, dtype=torch.float64)

    def derivative(y):
        return torch.autograd.grad(y, p, retain_graph=True)[0].numpy()

    low = torch.maximum(p[:2] - p[2:] / 2, t[:2] - t[2:] / 2)
    high = torch.minimum(p[:2] + p[2:] / 2, t[:2] + t[2:] / 2)
    inner = high - low
    common = inner[0] * inner[1]
    joined = p[2] * p[3] + t[2] * t[3] - common
    outer = torch.maximum(p[:2] + p[2:] / 2, t[:2] + t[2:] / 2) - torch.minimum(p[:2] - p[2:] / 2, t[:2] - t[2:] / 2)
    apart = bool((inner <= 0).any())
    twice = np.array([1, 1, 2, 2])
    slope = derivative(common / joined) * twice
    if kind == "giou":
        more = derivative(joined / (outer[0] * outer[1])) * twice
        return more if apart else slope + more
    if kind == "iou":
        return slope
    diagonal = (outer * outer).sum()
    distance = float(((p[:2] - t[:2]) ** 2).sum().detach())
    c = float(diagonal.detach())
    spread = derivative(diagonal) * distance / c**2
    # The sign that darknet gives the diagonal's part differs between the centre and the size.
    more = np.concatenate([2 * (np.array(truth[:2]) - np.array(box[:2])) / c - spread[:2], spread[2:]])
    if kind == "ciou":
        angle = math.atan(truth[2] / truth[3]) - math.atan(box[2] / box[3])
        aspect = 4 / math.pi**2 * angle**2
        alpha = aspect / (1 - float((common / joined).detach()) + aspect + 1e-6)
        more = more + alpha * 8 / math.pi**2 * angle * np.array([0, 0, box[3], -box[2]])
    return more if apart else slope + more


def cells(x, anchors):
    """[N,A*L,H,W] as [N,H,W,A,L]."""
    n, c, h, w = x.shape
    return x.reshape(n, anchors, c // anchors, h, w).transpose(0, 3, 4, 1, 2)


def planes(y):
    """[N,H,W,A,L] as [N,A*L,H,W]."""
    n, h, w, a, length = y.shape
    return y.transpose(0, 3, 4, 1, 2).reshape(n, a * length, h, w)


def lists(objects, places):
    """Objects (label, x, y, w, h) of each image, padded with zeros."""
    out = np.zeros((len(objects), places * 5))
    for i, of_image in enumerate(objects):
        for j, o in enumerate(of_image):
            out[i, 5 * j:5 * j + 5] = o
    return out


def rows(objects, padding):
    """Intel's form [1,1,M,8]."""
    out = [[i, o[0] + 1, 0, o[1] - o[3] / 2, o[2] - o[4] / 2, o[1] + o[3] / 2, o[2] + o[4] / 2, 0]
           for i, of_image in enumerate(objects) for o in of_image]
    out += [[-1] * 8] * padding
    return np.array(out, dtype=float).reshape(1, 1, -1, 8)


# All numbers are multiples of 1/1024.
OBJECTS = [[(1, 0.375, 0.3125, 0.25, 0.5), (0, 0.75, 0.6875, 0.5, 0.25), (2, 0.125, 0.875, 0.1875, 0.125)],
           [(2, 0.5625, 0.4375, 0.625, 0.5625)]]


def region_rule(x, objects, anchors, p, intel):
    n, h, w = x.shape[0], x.shape[2], x.shape[3]
    v = cells(x, len(anchors))
    slope = np.zeros_like(v)

    def box(i, r, c, a):
        e = v[i, r, c, a]
        return ((c + sigmoid(e[0])) / w, (r + sigmoid(e[1])) / h, math.exp(e[2]) * anchors[a][0] / w,
                math.exp(e[3]) * anchors[a][1] / h)

    for i, r, c, a in np.ndindex(n, h, w, len(anchors)):
        o = sigmoid(v[i, r, c, a, 4])
        best = max([iou(box(i, r, c, a), t[1:]) for t in objects[i]], default=0)
        slope[i, r, c, a, 4] = 0 if best > p["thresh"] else p["noobject"] * o * o * (1 - o)
    for i, of_image in enumerate(objects):
        for label, bx, by, bw, bh in of_image:
            c, r = int(bx * w), int(by * h)
            sizes = [(anchors[k][0] / w, anchors[k][1] / h) if p["bias_match"] else box(i, r, c, k)[2:]
                     for k in range(len(anchors))]
            a = int(np.argmax([iou((0, 0, *s), (0, 0, bw, bh)) for s in sizes]))
            e, s = v[i, r, c, a], slope[i, r, c, a]
            scale = p["coord"] if intel or p["rescore"] else p["coord"] * (2 - bw * bh)
            goals = [bx * w - c, by * h - r, math.log(bw * w / anchors[a][0]), math.log(bh * h / anchors[a][1])]
            for k in range(4):
                now = sigmoid(e[k]) if k < 2 else e[k]
                gap = goals[k] - now
                gap = max(-1, min(1, gap)) if intel else gap
                s[k] = -scale * gap * (now * (1 - now) if k < 2 else 1)
            o = sigmoid(e[4])
            goal = iou(box(i, r, c, a), (bx, by, bw, bh)) if p["rescore"] else 1
            pull = 2 * (1 - o) ** 3 if intel else goal - o
            s[4] = -p["object"] * pull * o * (1 - o)
            s[5:] = -p["class"] * (np.eye(len(e) - 5)[label] - softmax(e[5:]))
    total = (slope**2).sum()
    return total if intel else total / n, planes(slope) / n


def region_losses(r):
    anchors = [(1.0, 1.5), (2.5, 1.0)]
    biases = "biases: 1 biases: 1.5 biases: 2.5 biases: 1"

    def record(name, fields, label, intel, **changes):
        p = {"thresh": 0.5, "noobject": 0.5, "object": 5, "class": 1, "coord": 2, "bias_match": True, "rescore": True}
        p |= changes
        x = values(f"{name}/x", (2, 16, 4, 4))
        loss, slope = region_rule(x, OBJECTS, anchors, p, intel)
        r.case(name, "RegionLoss", f"region_loss_param {{ side: 4 num_class: 3 num: 2 {biases} thresh: 0.5 "
               f"noobject_scale: 0.5 object_scale: 5 class_scale: 1 coord_scale: 2 {fields} }}", [x, label],
               lambda *_: [torch.tensor(loss)], no_gradient=[1], slopes={0: slope})

    record("region_loss_rows", "", rows(OBJECTS, 2), True)
    record("region_loss_lists", "", lists(OBJECTS, 4), False)
    record("region_loss_lists_plain", "rescore: 0 bias_match: 0", lists(OBJECTS, 4), False, bias_match=False,
           rescore=False)


def yolov3_rule(x, objects, anchors, mask, p):
    n, h, w = x.shape[0], x.shape[2], x.shape[3]
    kind, cell = p["kind"], p["cell"]
    v = cells(x, len(mask)).copy()
    for k in range(v.shape[-1]):
        if k not in (2, 3):
            v[..., k] = sigmoid(v[..., k])
    slope = np.zeros_like(v)
    parts = [(a[0] / (w * cell), a[1] / (h * cell)) for a in anchors]

    def box(i, r, c, k):
        e, size = v[i, r, c, k], parts[mask[k]]
        return (c + e[0]) / w, (r + e[1]) / h, math.exp(e[2]) * size[0], math.exp(e[3]) * size[1]

    for i, r, c, k in np.ndindex(n, h, w, len(mask)):
        best = max([overlap(box(i, r, c, k), t[1:], kind) for t in objects[i]], default=0)
        slope[i, r, c, k, 4] = 0 if best > p["thresh"] else v[i, r, c, k, 4]
    misses = []

    def rule(i, r, c, k, label, truth):
        e, s = v[i, r, c, k], slope[i, r, c, k]
        b = box(i, r, c, k)
        if kind == "mse":
            scale = p["coord"] * (2 - truth[2] * truth[3])
            size = parts[mask[k]]
            goals = [truth[0] * w - c, truth[1] * h - r, math.log(truth[2] / size[0]), math.log(truth[3] / size[1])]
            s[:4] = -scale * (np.array(goals) - e[:4])
        else:
            d = overlap_slope(b, truth, kind) * np.array([1, 1, math.exp(e[2]), math.exp(e[3])])
            step = np.clip(d * p["normalizer"], -p["max_delta"], p["max_delta"])
            s[:4] = (s[:4] if p["accumulate"] else 0) - step
        misses.append(1 - overlap(b, truth, "diou" if kind == "iou" else kind))
        s[4] = -(1 - e[4]) * (p["object"] if p["logic"] else 1)
        smooth = p["smooth"]
        if s[5 + label] != 0:
            s[5 + label] = -p["class"] * (1 - smooth / 2 - e[5 + label])
        elif p["focal"]:
            pt = e[5 + label] + 1e-15
            grad = -(1 - pt) * (2 * pt * math.log(pt) + pt - 1)
            s[5:] = -p["class"] * (np.eye(len(e) - 5)[label] - e[5:]) * 0.5 * grad
        else:
            s[5:] = -p["class"] * (np.eye(len(e) - 5)[label] * (1 - smooth) + smooth / 2 - e[5:])

    for i, of_image in enumerate(objects):
        for label, *truth in of_image:
            c, r = int(truth[0] * w), int(truth[1] * h)
            fits = [overlap((0, 0, *s), (0, 0, *truth[2:]), kind) for s in parts]
            best = int(np.argmax(fits))
            done = best
            if best in mask:
                done = mask.index(best)
                rule(i, r, c, done, label, truth)
            for a, fit in enumerate(fits):
                if a in mask and a != done and p["iou_thresh"] < 1 and fit > p["iou_thresh"]:
                    rule(i, r, c, mask.index(a), label, truth)
    counted = slope if kind == "mse" else slope[..., 4:]
    loss = (counted**2).sum()
    if kind != "mse" and misses:
        loss += p["normalizer"] * np.mean(misses)
    if p["logic"]:
        for k in range(v.shape[-1]):
            if k not in (2, 3):
                slope[..., k] *= v[..., k] * (1 - v[..., k])
    return loss / n, planes(slope) / n


def yolov3_losses(r):
    anchors = [(8.0, 16.0), (24.0, 20.0), (40.0, 64.0), (72.0, 48.0)]
    biases = " ".join(f"biases: {side:g}" for a in anchors for side in a)

    def record(name, fields, mask=(1, 3), **changes):
        p = {"kind": "mse", "cell": 32, "thresh": 0.5, "object": 5, "class": 1, "coord": 2, "iou_thresh": 0.5,
             "normalizer": 0.25, "max_delta": 10, "accumulate": True, "smooth": f32(0.1), "focal": False, "logic": False}
        p |= changes
        x = values(f"{name}/x", (2, 16, 4, 4))
        loss, slope = yolov3_rule(x, OBJECTS, anchors, list(mask), p)
        masks = " ".join(f"mask: {m}" for m in mask)
        r.case(name, "Yolov3", f"yolov3_param {{ num_class: 3 num: 2 {biases} {masks} thresh: 0.5 object_scale: 5 "
               f"class_scale: 1 coord_scale: 2 {fields} }}", [x, lists(OBJECTS, 5)], lambda *_: [torch.tensor(loss)],
               no_gradient=[1], slopes={0: slope})

    record("yolov3_mse", "")
    record("yolov3_first_map", "iou_thresh: 1", (0, 1), iou_thresh=1)
    record("yolov3_focal", "use_focal_loss: true use_logic_gradient: true", (2, 3), focal=True, logic=True)
    record("yolov3_iou", "iou_loss: IOU label_smooth_eps: 0", kind="iou", smooth=0)
    record("yolov3_giou", "iou_loss: GIOU iou_normalizer: 0.5 max_delta: 0.125", (2, 3), kind="giou", normalizer=0.5,
           max_delta=0.125)
    record("yolov3_diou", "iou_loss: DIOU accumulate: false", (2, 3), kind="diou", accumulate=False)
    record("yolov3_ciou", "iou_loss: CIOU", (2, 3), kind="ciou")


def reorgs(r):
    def reorg(x, stride, reverse):
        """darknet's loop: one side is [C,H,W], the other is written as [C/s^2,H s,W s]."""
        n, c, h, w = x.shape
        t = c // stride**2
        flat = np.zeros(x.size)
        source = x.reshape(-1)
        for b, k, j, i in np.ndindex(n, c, h, w):
            small = i + w * (j + h * (k + c * b))
            offset, channel = divmod(k, t)
            large = i * stride + offset % stride + w * stride * (j * stride + offset // stride + h * stride *
                                                                 (channel + t * b))
            if reverse:
                flat[large] = source[small]
            else:
                flat[small] = source[large]
        shape = (n, t, h * stride, w * stride) if reverse else (n, c * stride**2, h // stride, w // stride)
        return flat.reshape(shape)

    def record(name, shape, stride, reverse):
        x = values(f"{name}/x", shape)
        y = reorg(x, stride, reverse)
        weight = values(f"{name}/weight0", y.shape)
        # It is a permutation: follow numbers through it.
        order = reorg(np.arange(x.size, dtype=float).reshape(shape), stride, reverse).reshape(-1).astype(int)
        slope = np.zeros(x.size)
        slope[order] = weight.reshape(-1)
        text = f"reorg_param {{ stride: {stride} {'reverse: true' if reverse else ''} }}"
        r.case(name, "Reorg", text, [x], lambda *_: [torch.tensor(y)], slopes={0: slope})

    record("reorg", (2, 8, 4, 6), 2, False)
    record("reorg_three", (1, 9, 3, 6), 3, False)
    record("reorg_reverse", (2, 8, 2, 3), 2, True)


def kept(found, threshold):
    """Best first, without what a better one overlaps."""
    out = []
    for d in sorted(found, key=lambda d: -d[2]):
        if all(iou(k[3], d[3]) < threshold for k in out):
            out.append(d)
    return out


def as_rows(found, threshold, count):
    out = np.full((count, 7), -1.0)
    at = 0
    for of_image in found:
        for image, label, score, box in kept(of_image, threshold):
            out[at] = [image, label + 1, score, *edges(box)]
            at += 1
    return out.reshape(1, 1, count, 7)


def detections(r):
    anchors = [(1.0, 1.5), (2.5, 1.0)]

    def v2(name, shapes, threshold, nms):
        maps = [values(f"{name}/x{i}", s, -2.0, 2.0) for i, s in enumerate(shapes)]
        found = [[] for _ in range(shapes[0][0])]
        for x in maps:
            v = cells(x, 2)
            n, h, w = v.shape[:3]
            for i, row, c, a in np.ndindex(n, h, w, 2):
                e = v[i, row, c, a]
                p = softmax(e[5:])
                score = sigmoid(e[4]) * p.max()
                if score >= threshold:
                    box = ((c + sigmoid(e[0])) / w, (row + sigmoid(e[1])) / h, math.exp(e[2]) * anchors[a][0] / w,
                           math.exp(e[3]) * anchors[a][1] / h)
                    found[i].append((i, int(p.argmax()), score, box))
        count = sum(s[0] * 2 * s[2] * s[3] for s in shapes)
        top = as_rows(found, nms, count)
        r.case(name, "YoloDetectionOutput",
               "yolo_detection_output_param { num_classes: 3 num_box: 2 biases: 1 biases: 1.5 biases: 2.5 biases: 1 "
               f"confidence_threshold: {threshold} nms_threshold: {nms} }}", maps, lambda *_: [torch.tensor(top)],
               no_gradient=range(len(maps)), silent=[0], phase="TEST")

    v2("yolo_detections", [(2, 16, 3, 4)], 0.25, 0.5)
    v2("yolo_detections_two_maps", [(1, 16, 2, 2), (1, 16, 4, 4)], 0.125, 0.375)
    v2("yolo_detections_none", [(1, 16, 2, 2)], 0.999, 0.5)

    pixels = [(8.0, 16.0), (24.0, 20.0), (40.0, 64.0), (72.0, 48.0)]
    biases = " ".join(f"biases: {side:g}" for a in pixels for side in a)

    def v3(name, shapes, scales, masks, threshold, nms, gaussian=False):
        maps = [values(f"{name}/x{i}", s, -2.0, 2.0) for i, s in enumerate(shapes)]
        found = [[] for _ in range(shapes[0][0])]
        for x, scale, mask in zip(maps, scales, masks):
            v = cells(x, 2)
            n, h, w = v.shape[:3]
            for i, row, c, k in np.ndindex(n, h, w, 2):
                e = v[i, row, c, k]
                b = e[[0, 2, 4, 6]] if gaussian else e[:4]
                first = 8 if gaussian else 4
                objectness = sigmoid(e[first])
                if gaussian:
                    objectness *= 1 - sigmoid(e[[1, 3, 5, 7]]).mean()
                size = pixels[mask[k]]
                box = ((c + sigmoid(b[0])) / w, (row + sigmoid(b[1])) / h, math.exp(b[2]) * size[0] / (w * scale),
                       math.exp(b[3]) * size[1] / (h * scale))
                for label, score in enumerate(sigmoid(e[first + 1:]) * objectness):
                    if score > threshold:
                        found[i].append((i, label, score, box))
        count = sum(s[0] * 2 * s[2] * s[3] for s in shapes)
        top = as_rows(found, nms, count)
        text = f"num_classes: 3 num_box: 2 {biases} confidence_threshold: {threshold} nms_threshold: {nms} "
        text += f"mask_group_num: {len(maps)} " + " ".join(f"mask: {m}" for mask in masks for m in mask)
        text += "".join(f" anchors_scale: {s}" for s in scales) + (" gaussian_box: true" if gaussian else "")
        r.case(name, "Yolov3DetectionOutput", f"yolov3_detection_output_param {{ {text} }}", maps,
               lambda *_: [torch.tensor(top)], no_gradient=range(len(maps)), silent=[0], phase="TEST")

    v3("yolov3_detections", [(2, 16, 2, 3), (2, 16, 4, 6)], [32, 16], [(2, 3), (0, 1)], 0.375, 0.5)
    v3("yolov3_detections_gaussian", [(1, 24, 3, 3)], [16], [(1, 2)], 0.25, 0.5, True)


def evaluations(r):
    anchors = [(1.0, 1.5), (2.5, 1.0)]

    def record(name, score_type, threshold):
        x = values(f"{name}/x", (2, 16, 4, 4), -2.0, 2.0)
        v = cells(x, 2)
        top = np.zeros((2, 3 + 4 * 4 * 2 * 4))
        for i in range(2):
            found = []
            for row, c, a in np.ndindex(4, 4, 2):
                e = v[i, row, c, a]
                p, o = softmax(e[5:]), sigmoid(e[4])
                score = {"OBJ": o, "PROB": p.max(), "MULTIPLY": o * p.max()}[score_type]
                box = ((c + sigmoid(e[0])) / 4, (row + sigmoid(e[1])) / 4, math.exp(e[2]) * anchors[a][0] / 4,
                       math.exp(e[3]) * anchors[a][1] / 4)
                found.append((i, int(p.argmax()), score, box))
            for label, *_ in OBJECTS[i]:
                top[i, label] += 1
            at = 3
            boxes = kept(found, 0.5)
            for label in range(3):
                truths = [t[1:] for t in OBJECTS[i] if t[0] == label]
                taken = set()
                for _, own, score, box in boxes:
                    if own != label or score < 0.005:
                        continue
                    hit, miss = 0, 0
                    if truths:
                        overlaps = [iou(box, t) for t in truths]
                        best = int(np.argmax(overlaps))
                        if overlaps[best] >= threshold:
                            hit, miss = (0, 1) if best in taken else (1, 0)
                            taken.add(best)
                    else:
                        miss = 1
                    top[i, at:at + 4] = [label, score, hit, miss]
                    at += 4
        r.case(name, "EvalDetection",
               f"eval_detection_param {{ side: 4 num_class: 3 num_object: 2 score_type: {score_type} nms: 0.5 "
               f"threshold: {threshold} biases: 1 biases: 1.5 biases: 2.5 biases: 1 }}", [x, rows(OBJECTS, 1)],
               lambda *_: [torch.tensor(top)], no_gradient=[0, 1], silent=[0], phase="TEST")

    record("eval_detection", "MULTIPLY", 0.25)
    record("eval_detection_objectness", "OBJ", 0.125)
    record("eval_detection_probability", "PROB", 0.5)


def segmentations(r):
    def record(name, fields, scale, counts=None):
        x = values(f"{name}/x", (2, 2, 3, 4), -2.0, 2.0)
        label = (values(f"{name}/label", x.shape) > 0.25).astype(float)
        factor = np.full(x.shape, float(scale))
        bottoms = [x, label]
        if counts is not None:
            bottoms.append(np.array(counts, dtype=float))
            for c in range(2):
                positives = sum(of_image[c] for of_image in counts)
                factor[:, c][label[:, c] > 0.5] *= 2 - positives / (2 * 12 - positives)
        rule = factor * (sigmoid(x) - label)
        r.case(name, "YoloSeg", fields, bottoms, lambda *_: [torch.tensor((rule**2).sum() / 2)],
               no_gradient=range(1, len(bottoms)), slopes={0: rule / 2})

    record("yolo_seg", "", 5)
    record("yolo_seg_weighted", "yolo_seg_param { object_scale: 2 }", 2, [[3, 5], [4, 1]])


def main():
    r = Recorder()
    for record in (region_losses, yolov3_losses, reorgs, detections, evaluations, segmentations):
        record(r)
    r.write("layers_yolo.json")


if __name__ == "__main__":
    main()
