"""Records the layers that forks of Faster R-CNN added, and MTCNN's, on small inputs: outputs and gradients.

Usage: python3 make_regions_goldens.py      writes layers_regions.json, in the format that make_layer_goldens.py describes

Windows in time are numbers on a line here, where the layers take them for boxes. Random choices are avoided: every
candidate fits the sample; samples of another size repeat their background in order.
"""

import math

import numpy as np
import torch

from make_layer_goldens import values
from make_roi_goldens import ROIS, SIZE, case, image, python, record
from roi_reference import anchors_of, bilinear, c_round, moved, overlaps, propose, regression

F64 = torch.float64


# Pooling --------------------------------------------------------------------------------------------------------------


def first_maximum(part):
    """[C,...] -> [C], with the gradient at the first maximum; zeros if there is nothing."""
    flat = part.reshape(part.shape[0], -1)
    if flat.shape[1] == 0:
        return torch.zeros(part.shape[0], dtype=part.dtype)
    return flat[torch.arange(part.shape[0]), torch.tensor(np.argmax(flat.detach().numpy(), axis=1))]


def bins(first, last, count, size):
    """Ends of the bins of a region of whole pixels."""
    step = np.float32(max(last - first + 1, 1)) / np.float32(count)
    ends = [(np.floor(np.float32(i) * step), np.ceil(np.float32(i + 1) * step)) for i in range(count)]
    return [tuple(int(min(max(v + first, 0), size)) for v in pair) for pair in ends]


def pool_in_time(x, windows, length, height, width, scale):
    out = []
    for n, a, b in windows.detach().numpy():
        times = bins(c_round(a * scale), c_round(b * scale), length, x.shape[2])
        rows, columns = bins(0, 6, height, x.shape[3]), bins(0, 6, width, x.shape[4])
        out += [first_maximum(x[int(n), :, t[0]:t[1], h[0]:h[1], w[0]:w[1]])
                for t in times for h in rows for w in columns]
    return torch.stack(out).reshape(len(windows), length, height, width, -1).permute(0, 4, 1, 2, 3)


def mask_pool(x, rois, height, width, scale, half, roi_scale):
    out = []
    for n, x1, y1, x2, y2 in rois.detach().numpy():
        xc, yc, w, h = (x1 + x2) / 2, (y1 + y2) / 2, (x2 - x1) * roi_scale / 2, (y2 - y1) * roi_scale / 2
        a, b, c, d = xc - w, yc - h, xc + w, yc + h
        c = xc if half == 1 else c
        a = xc if half == 2 else a
        d = yc if half == 3 else d
        b = yc if half == 4 else b
        a, b, c, d = (c_round(float(np.float32(v) * np.float32(scale))) for v in (a, b, c, d))
        rows, columns = bins(b, d, height, x.shape[2]), bins(a, c, width, x.shape[3])
        out += [first_maximum(x[int(n), :, i[0]:i[1], j[0]:j[1]]) for i in rows for j in columns]
    return torch.stack(out).reshape(len(rois), height, width, -1).permute(0, 3, 1, 2)


def alignment(x, rois, height, width, scale):
    def middle(a, b, i, count, size):
        extent = max(b * scale - a * scale + 1, 1)
        ends = [min(max(a * scale + k * extent / count, 0), size - 1) for k in (i, i + 1)]
        return sum(ends) / 2

    out = [bilinear(x[int(n)], middle(y1, y2, i, height, x.shape[2]), middle(x1, x2, j, width, x.shape[3]), 0.5)
           for n, x1, y1, x2, y2 in rois.detach().numpy() for i in range(height) for j in range(width)]
    return torch.stack(out).reshape(len(rois), height, width, -1).permute(0, 3, 1, 2)


def around_points(x, points, height, width, scale):
    tops = []
    for p in range(points.shape[1]):
        rows = []
        for n in range(len(x)):
            left = int(c_round(float(points[n, p, 0]) * scale - width // 2))
            up = int(c_round(float(points[n, p, 1]) * scale - height // 2))
            window = torch.zeros((x.shape[1], height, width), dtype=x.dtype)
            for i in range(max(0, -up), min(height, x.shape[2] - up)):
                for j in range(max(0, -left), min(width, x.shape[3] - left)):
                    window[:, i, j] = x[n, :, up + i, left + j]
            rows.append(window)
        tops.append(torch.stack(rows))
    return tops


def pooling():
    windows = np.array([[0, 0, 31], [1, 9, 22], [0, 12, 12], [1, -20, 6], [0, 25, 60], [1, 90, 99]], dtype=np.float64)
    for name, shape, l, h, w in (("frames", (2, 2, 4, 7, 7), 1, 4, 4), ("bins", (2, 1, 5, 8, 6), 3, 2, 3)):
        case(f"roi_pooling_in_time_{name}",
             f'type: "ROIPooling" roi_pooling_param {{ pooled_l: {l} pooled_h: {h} pooled_w: {w} '
             'spatial_scale: 0.0625 temporal_scale: 0.125 }',
             [image(f"time_{name}", shape), windows],
             lambda a, b, l=l, h=h, w=w: [pool_in_time(a, b, l, h, w, 0.125)], gradients=(0,))
    # Scales that floats hold: halves round one way.
    for half, roi_scale in ((0, 1.75), (1, 1), (2, 1.5), (3, 1), (4, 0.75)):
        fields = f"pooled_h: 3 pooled_w: 2 spatial_scale: 0.25 half_part: {half} roi_scale: {roi_scale}"
        case(f"roi_mask_pooling_{half}", f'type: "ROIMaskPooling" roi_mask_pooling_param {{ {fields} }}',
             [image(f"mask_pool_{half}", (2, 1, 9, 11)), ROIS],
             lambda a, b, half=half, s=roi_scale: [mask_pool(a, b, 3, 2, 0.25, half, s)],
             gradients=(0,))
    for h, w in ((3, 2), (2, 5)):
        case(f"roi_alignment_{h}",
             f'type: "ROIAlignment" roi_alignment_param {{ pooled_h: {h} pooled_w: {w} spatial_scale: 0.25 }}',
             [image(f"alignment_{h}", (2, 2, 9, 11)), ROIS],
             lambda a, b, h=h, w=w: [alignment(a, b, h, w, 0.25)], gradients=(0,))
    points = np.array([[[4, 4], [30, 2], [-9, 37], [17, 12]], [[21, 14], [0, 0], [43, 35], [12, 26]]], dtype=np.float64)
    for h, w in ((4, 4), (3, 5)):
        case(f"multi_roi_pooling_{h}",
             'type: "MultiROIPooling" multi_roi_pooling_param { '
             f'pooled_h: {h} pooled_w: {w} spatial_scale: 0.25 top_num: 4 }}',
             [image(f"multi_{h}", (2, 2, 9, 11)), points],
             lambda a, b, h=h, w=w: around_points(a, b, h, w, 0.25), gradients=(0,))


# Windows in time ------------------------------------------------------------------------------------------------------


def windows_of(scales, cells, stride):
    """[L*A,2], cell by cell."""
    reach = [(8 * s - 1) / 2 for s in scales]
    return np.array([[3.5 - r + t * stride, 3.5 + r + t * stride] for t in range(cells) for r in reach])


def overlap_in_time(a, b):
    both = np.minimum(a[:, None, 1], b[None, :, 1]) - np.maximum(a[:, None, 0], b[None, :, 0]) + 1
    both = np.clip(both, 0, None)
    length = [v[:, 1] - v[:, 0] + 1 for v in (a, b)]
    return both / (length[0][:, None] + length[1][None, :] - both)


def move_in_time(a, b):
    la, lb = a[:, 1] - a[:, 0] + 1, b[:, 1] - b[:, 0] + 1
    return np.stack([(b[:, 0] + lb / 2 - a[:, 0] - la / 2) / la, np.log(lb / la)], 1)


def by_cell(x, per):
    """[1,A*per,L,1,1] -> [L*A,per]."""
    return x[0, :, :, 0, 0].reshape(-1, per, x.shape[2]).permute(2, 0, 1).reshape(-1, per)


def propose_in_time(scores, deltas, scales, stride, least, most, threshold):
    cells = scores.shape[2]
    anchors = torch.tensor(windows_of(scales, cells, stride))
    length = anchors[:, 1] - anchors[:, 0] + 1
    move = by_cell(deltas, 2)
    middle = anchors[:, 0] + 0.5 * length + move[:, 0] * length
    half = 0.5 * torch.exp(move[:, 1]) * length
    found = torch.clamp(torch.stack([middle - half, middle + half], 1), 0, cells * stride - 1).numpy()
    score = by_cell(scores[:, len(scales):], 1)[:, 0].numpy()
    kept = []
    for i in np.argsort(-score, kind="stable"):
        if found[i, 1] - found[i, 0] + 1 < least:
            continue
        if all(overlap_in_time(found[[k]], found[[i]])[0, 0] <= threshold for k in kept):
            kept.append(i)
    rois, best = np.zeros((most, 3)), np.zeros((most, 1))
    kept = kept[:most]
    rois[:len(kept), 1:], best[:len(kept), 0] = found[kept], score[kept]
    return [rois, best]


TIMES = np.array([[6, 30, 2], [25, 44, 1], [50, 63, 3], [0, 0, 0]], dtype=np.float64)


def anchors_in_time(cells, scales, stride, frames, truth):
    everything = windows_of(scales, cells, stride)
    inside = np.where((everything[:, 0] >= 0) & (everything[:, 1] < frames))[0]
    share = overlap_in_time(everything[inside], truth)
    label = np.where(share.max(1) < 0.3, 0.0, -1.0)
    label[np.where(share == share.max(0))[0]] = 1
    label[share.max(1) >= 0.7] = 1
    tops = [np.full((len(everything), 1), -1.0)] + [np.zeros((len(everything), 2)) for _ in range(3)]
    tops[0][inside, 0] = label
    tops[1][inside] = move_in_time(everything[inside], truth[share.argmax(1), :2])
    tops[2][inside[label == 1]] = 1
    tops[3][inside[label >= 0]] = 1 / (label >= 0).sum()
    count = len(scales)
    shaped = [v.reshape(cells, count, -1).transpose(1, 2, 0) for v in tops]
    return [shaped[0].reshape(1, 1, -1, 1, 1)] + [v.reshape(1, -1, cells, 1, 1) for v in shaped[1:]]


def sample_in_time(rois, truth, rows, classes):
    everything = np.concatenate([rois[np.any(rois != 0, 1), 1:], truth[:, :2]])
    share = overlap_in_time(everything, truth[:, :2])
    order = list(np.where(share.max(1) >= 0.5)[0])
    foreground = len(order)
    background = list(np.where(share.max(1) < 0.5)[0])
    order += [background[i % len(background)] for i in range(rows - foreground)]
    match = share.argmax(1)[order]
    label = truth[match, 2].copy()
    label[foreground:] = 0
    targets, inside = np.zeros((rows, 2 * classes)), np.zeros((rows, 2 * classes))
    move = move_in_time(everything[order], truth[match, :2]) / np.array([0.1, 0.2])
    for m in range(foreground):
        c = int(label[m])
        targets[m, 2 * c:2 * c + 2], inside[m, 2 * c:2 * c + 2] = move[m], 1
    regions = np.concatenate([np.zeros((rows, 1)), everything[order]], 1)
    return [regions, label, targets, inside, (inside > 0).astype(np.float64)]


def in_time():
    scales, cells = (1, 2, 3.5), 8
    scores, deltas = values("time/scores", (1, 6, cells, 1, 1)), values("time/deltas", (1, 6, cells, 1, 1), -0.5, 0.5)
    fields = "'feat_stride': 8\\n'scales': !!python/tuple [1, 2, 3.5]"
    for name, phase, least, more in (("plain", "TEST", 8, "\\n'post_nms_topn': 7"),
                                     ("padded", "TRAIN", 0, "\\n'min_size': 0\\n'post_nms_topn': 30")):
        most = 7 if name == "plain" else 30
        case(f"proposal_in_time_{name}", python("rpn.proposal_layer", "ProposalLayer", fields + more),
             [scores, deltas],
             lambda a, b, least=least, most=most: propose_in_time(a, b, scales, 8, least, most, 0.7), phase=phase)
    case("anchor_target_in_time",
         python("rpn.anchor_target_layer", "AnchorTargetLayer", fields + "\\n'batch_size': 1000"),
         [scores, TIMES, np.zeros((1, 1, 64, 2, 2))],
         lambda a, b, c: anchors_in_time(cells, scales, 8, 64, TIMES[:3]))
    rois = np.array([[0, 4, 28], [0, 27, 47], [0, 49, 60], [0, 0, 63], [0, 12, 18], [0, 40, 52], [0, 0, 0]],
                    dtype=np.float64)
    case("proposal_target_in_time",
         python("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 4\\n'batch_size': 28"),
         [rois, TIMES], lambda a, b: sample_in_time(rois, TIMES[:3], 28, 4))


# Regions made of regions ----------------------------------------------------------------------------------------------


def hard_regions(probability, pred, rois, label, target, inside, outside, threshold, rows):
    loss = -np.log(np.maximum(probability[np.arange(len(label)), label.astype(int)], np.finfo(float).eps))
    d = np.abs(inside * (pred - target))
    loss += np.where(label > 0, (outside * np.where(d < 1, 0.5 * d * d, d - 0.5)).sum(1), 0)
    left = []
    for n in np.unique(rois[:, 0]):
        for c in np.unique(label):
            group = [i for i in np.argsort(-loss) if rois[i, 0] == n and label[i] == c]
            kept = []
            for i in group:
                if all(overlaps(rois[[k], 1:], rois[[i], 1:])[0, 0] <= threshold for k in kept):
                    kept.append(i)
            left += kept
    taken = sorted(left, key=lambda i: -loss[i])[:rows]
    taken = [taken[m % len(taken)] for m in range(rows)]
    return [v[taken] for v in (rois, label, target, inside, outside)]


def detected(rois, deltas, scores, most, rows):
    """Boxes of every class, thinned; the `most` best of all in `rows` rows."""
    height, width, scale = SIZE[0]
    found = []
    for c in range(1, scores.shape[1]):
        own = torch.tensor(rois[:, 1:] / scale)
        boxes = moved(own, torch.tensor(deltas[:, 4 * c:4 * c + 4])).numpy()
        limit = np.array([width, height, width, height]) / scale - 1
        boxes = np.maximum(np.minimum(boxes, limit), 0)
        kept = []
        for i in np.argsort(-scores[:, c], kind="stable"):
            if scores[i, c] > 0.125 and all(overlaps(boxes[[k]], boxes[[i]])[0, 0] <= 0.3 for k in kept):
                kept.append(i)
                found.append((scores[i, c], c, boxes[i]))
    if len(found) > most:
        least = sorted(f[0] for f in found)[-most]
        found = [f for f in found if f[0] >= least]
    tops = [np.zeros((rows, 5)), np.full((rows, 1), -1.0), np.full((rows, 1), -1.0), np.zeros((rows, 5))]
    for i, (score, c, box) in enumerate(found):
        tops[0][i, 1:], tops[1][i, 0], tops[2][i, 0], tops[3][i, 1:] = box * scale, score, c, box
    return tops


def regions():
    deltas = values("box_transform", (6, 4), -1, 1)
    means, stds = [0, -0.25, -0.75, -0.5], [0.1, 0.1, 0.2, 0.2]
    for columns in (4, 5):
        boxes = ROIS[:6, 5 - columns:]
        case(f"box_transform_{columns}",
             python("rpn.box_transform_layer", "BoxTransformLayer",
                    "{'bbox_normalize_means': [0.0, -0.25, -0.75, -0.5]}"), [boxes, deltas],
             lambda a, b: [torch.cat([torch.zeros((6, 1), dtype=F64),
                                      moved(a[:, -4:], b * torch.tensor(stds) + torch.tensor(means))], 1)])
    case("global_roi", python("rpn.global_roi_layer", "GlobalRoILayer", ""), [SIZE],
         lambda a: [np.array([[0, 0, 0, SIZE[0, 1] - 1, SIZE[0, 0] - 1]])])
    score = np.array([[0.5, 0.25, 0.125, 0.125], [0.25, 0.5, 0.25, 0], [0.375, 0.375, 0.125, 0.125],
                      [0.125, 0.625, 0.125, 0.125], [0.5, 0.0, 0.25, 0.25], [0.25, 0.125, 0.5, 0.125],
                      [0.75, 0, 0, 0.25]])

    def select(rois, scores):
        own, rows = scores.argmax(1), []
        for c in range(1, 4):
            group = np.where(own == c)[0]
            rows.append(scores[:, c].argmax() if len(group) == 0 else group[scores[group, c].argmax()])
        return [rois[rows]]

    case("roi_select", python("rpn.roi_select_layer", "RoISelectLayer", "'num_class': 4"), [ROIS, score],
         lambda a, b: select(ROIS, score))
    probability = np.exp(values("pred/score", (8, 4), 0, 3))
    probability /= probability.sum(1, keepdims=True)
    pred = values("pred/deltas", (8, 16), -0.25, 0.25)
    boxes = np.concatenate([ROIS[:5], ROIS[[0, 1]] + np.array([0, 2, 1, 2, 1]), np.zeros((1, 5))])
    boxes[:, 0] = 0
    for name, most in (("few", 5), ("padded", 40)):
        case(f"pred_to_proposal_{name}",
             python("rpn.pred_to_proposal_layer", "PredToProposalLayer", f"'max_per_image': {most}\\n'thresh': 0.125"),
             [boxes, pred, probability, SIZE],
             lambda *_, most=most: detected(boxes[:7], pred[:7], probability[:7], most, min(most, 8 * 3)))
    count = 9
    rois = np.concatenate([ROIS, ROIS[:2] + np.array([0, 1, 1, 1, 1])])
    rois[:, 1:] = np.abs(rois[:, 1:])
    raw = np.exp(values("ohem/score", (count, 3)))
    label = np.array([1, 0, 2, 0, 1, 1, 0, 1, 0], dtype=np.float64)
    inside = np.zeros((count, 12))
    for i, c in enumerate(label.astype(int)):
        inside[i, 4 * c:4 * c + 4] = 1 if c > 0 else 0
    inputs = [raw / raw.sum(1, keepdims=True), values("ohem/pred", (count, 12), -2, 2), rois, label,
              inside * values("ohem/target", (count, 12), -1, 1), inside, inside * 0.5]
    for name, fields, threshold, rows in (("most", "'batch_size': 4", 0.7, 4), ("all", "'ohem_nms_thresh': 0.5", 0.5, 9)):
        case(f"ohem_data_{name}", python("roi_data_layer.layer", "OHEMDataLayer", "'num_classes': 3\\n" + fields), inputs,
             lambda *a, t=threshold, rows=rows: hard_regions(*inputs, t, rows))


# mtnet ----------------------------------------------------------------------------------------------------------------


def people():
    scores, deltas = values("mtnet/scores", (1, 8, 5, 6)), values("mtnet/deltas", (1, 16, 5, 6), -0.25, 0.25)
    truth = np.array([[12, 10, 44, 47], [40, 8, 71, 60], [0, 0, 0, 0]], dtype=np.float64)
    anchors = anchors_of((0.5, 1), (2, 4))

    def matched(a, b, c, _):
        rois, _, index, *_ = propose(a, b, c, anchors, 16, 0, 12000, 60, 0.7)
        rois = np.asarray(rois)[np.asarray(index) >= 0]
        share = overlaps(rois[:, 1:], truth[:2])
        positive = np.where(share.max(1) > 0.5)[0]
        negative = np.where(share.max(1) < 0.5)[0]
        assert 0 < len(positive) <= 32 and len(negative) <= 96
        tops = [np.zeros((92, 5)), np.full(92, -1.0), np.full(92, -1.0)]  # 32 and at most 60
        for first, rows, label in ((0, positive, 1), (32, negative, 0)):
            tops[0][first:first + len(rows)], tops[1][first:first + len(rows)] = rois[rows], label
        tops[2][:len(positive)] = share.argmax(1)[positive]
        return tops

    case("mtnet_proposal",
         python("rpn.proposal_layer", "ProposalLayer",
                "{'feat_stride': 16, 'scales': [2, 4], 'ratios': [0.5, 1], 'post_nms_topn': 60}"),
         [scores, deltas, SIZE, truth], matched)
    labels = np.array([1, 0, 1, -1, 1, 0, 1], dtype=np.float64)
    numbers = np.array([2, -1, 0, -1, 1, -1, 3], dtype=np.float64)
    classes = np.array([[4], [2], [3], [1]], dtype=np.float64)
    case("mtnet_label_target", python("rpn.label_target_layer", "LabelTargetLayer", ""), [labels], lambda a: [labels])
    case("mtnet_class_target", python("rpn.label_target_layer", "LabelTargetLayer", ""), [labels, classes, numbers],
         lambda a, b, c: [np.where(labels == 1, classes[numbers.astype(int), 0], -1)])
    # Regions that pass the original's question, which mixes up their columns, and one that does not.
    rois = np.array([[0, 5, 40, 60, 70], [0, 1, 1, 9, 9], [0, 4, 50, 70, 80], [0, 0, 0, 0, 0], [0, 30, 8, 44, 20],
                     [0, 2, 2, 5, 5], [0, 3, 35, 50, 60]], dtype=np.float64)
    boxes = np.array([[10, 20, 30, 60], [28, 6, 50, 30], [12, 24, 38, 66], [0, 0, 0, 0]], dtype=np.float64)
    target, weight = np.zeros((7, 4)), np.zeros((7, 4))
    for m in np.where(labels == 1)[0]:
        box = boxes[int(numbers[m])]
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        if box.any() and rois[m, 0] < x < rois[m, 2] and rois[m, 1] < y < rois[m, 3]:
            move = regression(rois[m:m + 1, 1:], box[None])[0]
            target[m], weight[m] = (move - np.array([0, -0.25, -0.75, -0.5])) / np.array([0.1, 0.1, 0.2, 0.2]), 1
    assert 0 < weight[:, 0].sum() < 4
    case("mtnet_box_target",
         python("rpn.box_target_layer", "BoxTargetLayer", "{'bbox_normalize_means': [0.0, -0.25, -0.75, -0.5]}"),
         [labels, numbers, rois, boxes], lambda *_: [target, weight, weight])


# MTCNN ----------------------------------------------------------------------------------------------------------------


class Hardest(torch.autograd.Function):
    """The mean loss of all examples with a class; the gradient of that of the hardest 70 %."""

    @staticmethod
    def forward(ctx, x, label, mode):
        p = torch.softmax(x, 1)
        has = label >= 0
        loss = [-math.log(p[n, int(c)]) if c >= 0 else -1.0 for n, c in enumerate(label)]
        order = sorted((n for n in range(len(loss)) if has[n]), key=lambda n: -loss[n])[:int(has.sum()) * 7 // 10]
        ctx.save_for_backward(p, label)
        total = {"VALID": lambda k: max(k, 1), "FULL": lambda k: len(loss), "NONE": lambda k: 1}[mode]
        ctx.rest = (order, total(len(order)))
        return torch.tensor(sum(v for v in loss if v >= 0) / total(int(has.sum())), dtype=F64)

    @staticmethod
    def backward(ctx, dy):
        p, label = ctx.saved_tensors
        order, total = ctx.rest
        dx = torch.zeros_like(p)
        for n in order:
            dx[n] = p[n] / total
            dx[n, int(label[n])] -= 1 / total
        return dx * dy, None, None


def faces():
    label = np.array([1, -1, 0, 1, -2, 0, 1, 1, 0, -1, 0, 1], dtype=np.float64)
    plain = np.where(label < 0, -1, label)
    scores = values("faces/score", (12, 2))
    for name, shape in (("cls_Layer", (12, 2)), ("cls_Layer_fc", (12, 2, 1, 1))):

        def bridge(a, b, shape=shape):
            keep = [i for i in range(12) if plain[i] != -1]
            rest = torch.zeros((12 - len(keep), 2), dtype=F64)
            known = np.concatenate([plain[keep], np.zeros(12 - len(keep))])[:, None]
            return [torch.cat([a.reshape(12, 2)[keep], rest]).reshape(shape), torch.tensor(known)]

        case(f"mtcnn_{name.lower()}", python("pythonLayer", name, ""), [scores.reshape(shape), plain[:, None]], bridge,
             gradients=(0,), silent=(1,))
    text = 'type: "Python" loss_weight: 1 python_param { module: "pythonLayer" layer: "regression_Layer" }'
    box = values("faces/box", (5, 4, 1, 1))
    truth = values("faces/truth", (5, 4))
    truth[1:3] = -1
    case("mtcnn_regression", text, [box, truth],
         lambda a, b: [((a.reshape(5, 4) - b) ** 2).sum().reshape(1) / 10], gradients=(0,))
    case("mtcnn_regression_without", text, [box, np.full((5, 4), -1.0)], lambda a, b: [0 * a.sum().reshape(1)],
         gradients=(0,))

    case("often_class_bridge", 'type: "OftenMtcnnClassBridge"', [scores.reshape(12, 2, 1, 1), label[:, None]],
         lambda a, b: [a * torch.tensor((label >= 0).astype(np.float64)).reshape(12, 1, 1, 1), b[:, 0]],
         gradients=(0,), silent=(1,))
    for mode in ("VALID", "FULL", "NONE"):
        case(f"often_softmax_{mode.lower()}",
             f'type: "OftenMtcnnSoftmaxLoss" loss_param {{ normalization: {mode} }}', [scores, label],
             lambda a, b, mode=mode: [Hardest.apply(a, b, mode)], gradients=(0,))
    right = [float(scores[n, int(c)] > scores[n, 1 - int(c)]) for n, c in enumerate(label) if c >= 0]
    case("often_accuracy", 'type: "OftenMtcnnAccuracy"', [scores, label], lambda a, b: [np.array(np.mean(right))])
    for kind, counted in (("EuclideanLoss", (label != 0) & (label != -2)), ("LandMarkLoss", label == -2)):
        for name, mask in (("some", counted), ("none", np.zeros(12, dtype=bool))):
            labels = label if name == "some" else np.zeros(12)
            case(f"often_{kind.lower()}_{name}", f'type: "OftenMtcnn{kind}"',
                 [values(f"{kind}/0", (12, 4)), values(f"{kind}/1", (12, 4)), labels],
                 lambda a, b, c, mask=mask: [((a - b)[torch.tensor(mask)] ** 2).sum() / (2 * max(mask.sum(), 1))],
                 gradients=(0, 1))


# YOLO -----------------------------------------------------------------------------------------------------------------


class YoloLoss(torch.autograd.Function):
    """pycaffe-yolo's: the value is the sum of squared differences, the gradient the differences over the batch."""

    @staticmethod
    def forward(ctx, x, truth, side, classes, boxes):
        x, truth = x.detach().numpy(), truth.detach().numpy()
        difference = np.zeros_like(x)
        for n in range(len(x)):
            for cell in range(side * side):
                row, column = divmod(cell, side)
                score = side * side * classes + cell * boxes
                place = side * side * (classes + boxes) + cell * boxes * 4
                difference[n, score:score + boxes] = 0.5 * x[n, score:score + boxes]
                true = truth[n, row, column]
                if true[0] <= 0:
                    continue
                part = slice(cell * classes, (cell + 1) * classes)
                difference[n, part] = x[n, part] - true[5:]
                goal = np.array([true[1] - column / side, true[2] - row / side, true[3], true[4]])
                found = []
                for k in range(boxes):
                    u, v, w, h = x[n, place + 4 * k:place + 4 * k + 4]
                    box = np.array([u / side, v / side, w * w, h * h])
                    reach = [min(box[a] + box[a + 2] / 2, goal[a] + goal[a + 2] / 2)
                             - max(box[a] - box[a + 2] / 2, goal[a] - goal[a + 2] / 2) for a in (0, 1)]
                    both = reach[0] * reach[1] if min(reach) >= 0 else 0.0
                    found.append((both / (box[2] * box[3] + goal[2] * goal[3] - both), ((box - goal) ** 2).sum()))
                share = [f[0] for f in found]
                best = int(np.argmax(share)) if max(share) > 0 else int(np.argmin([f[1] for f in found]))
                difference[n, score + best] = x[n, score + best] - share[best]
                part = slice(place + 4 * best, place + 4 * best + 4)
                target = np.array([true[1], true[2], math.sqrt(true[3]), math.sqrt(true[4])])
                difference[n, part] = 5 * (x[n, part] - target)
        ctx.difference = difference / len(x)
        return torch.tensor([(difference ** 2).sum()])

    @staticmethod
    def backward(ctx, dy):
        return torch.tensor(ctx.difference) * dy, None, None, None, None


def yolo():
    side, classes, boxes = 3, 4, 2
    truth = np.zeros((2, side, side, 5 + classes))
    for n, row, column, w, h, c in ((0, 0, 1, 0.5, 0.25, 2), (0, 2, 2, 0.125, 0.25, 0), (1, 1, 0, 0.5, 0.75, 3)):
        truth[n, row, column, :5] = 1, (column + 0.5) / side, (row + 0.25) / side, w, h
        truth[n, row, column, 5 + c] = 1
    for module in ("yolo_loss_layer", "my_layers.yolo_loss_layer"):
        x = values(module, (2, side * side * (classes + 5 * boxes)), 0, 1)
        case(module.replace(".", "_"),
             python(module, "YoloLossLayer", "{\\'side\\': 3, \\'classes\\': 4}") + " loss_weight: 1", [x, truth],
             lambda a, b: [YoloLoss.apply(a, b, side, classes, boxes)], gradients=(0,))


if __name__ == "__main__":
    record((pooling, in_time, regions, people, faces, yolo), "layers_regions.json")
