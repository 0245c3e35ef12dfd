"""The layers of two-stage detection written a second time, with numpy and PyTorch, for make_roi_goldens.py.

Pooling is explicit sums over pixels, one region and bin after another; proposals and targets are array formulas. Boxes
are (x1, y1, x2, y2) in pixels, the last one included; rois have the image before them, true boxes the class behind.
"""

import math

import numpy as np
import torch


def c_round(v):
    return math.copysign(math.floor(abs(v) + 0.5), v)


def roi_pool(x, rois, height, width, scale):
    n, channels, rows, columns = x.shape
    out = []
    for roi in rois.detach().numpy():
        x1, y1, x2, y2 = [c_round(float(np.float32(v) * np.float32(scale))) for v in roi[1:]]
        bin_h = np.float32(max(y2 - y1 + 1, 1)) / np.float32(height)
        bin_w = np.float32(max(x2 - x1 + 1, 1)) / np.float32(width)
        for i in range(height):
            for j in range(width):
                ends_h = np.floor(np.float32(i) * bin_h), np.ceil(np.float32(i + 1) * bin_h)
                ends_w = np.floor(np.float32(j) * bin_w), np.ceil(np.float32(j + 1) * bin_w)
                h = [int(min(max(v + y1, 0), rows)) for v in ends_h]
                w = [int(min(max(v + x1, 0), columns)) for v in ends_w]
                part = x[int(roi[0]), :, h[0]:h[1], w[0]:w[1]].reshape(channels, -1)
                if part.shape[1] == 0:
                    out.append(torch.zeros(channels, dtype=x.dtype))
                else:
                    first = np.argmax(part.detach().numpy(), axis=1)
                    out.append(part[torch.arange(channels), torch.tensor(first)])
    return torch.stack(out).reshape(len(rois), height, width, channels).permute(0, 3, 1, 2)


def bilinear(plane, y, x, margin):
    """plane [C,H,W] at one place; None outside."""
    rows, columns = plane.shape[1:]
    if y < -margin or y > rows - 1 + margin or x < -margin or x > columns - 1 + margin:
        return None
    y, x = min(max(y, 0.0), rows - 1.0), min(max(x, 0.0), columns - 1.0)
    i, j = int(math.floor(y)), int(math.floor(x))
    k, l = min(i + 1, rows - 1), min(j + 1, columns - 1)
    b, a = y - i, x - j
    return ((1 - b) * (1 - a) * plane[:, i, j] + (1 - b) * a * plane[:, i, l] + b * (1 - a) * plane[:, k, j]
            + b * a * plane[:, k, l])


def roi_align(x, rois, height, width, scale, ratio, aligned, pad=0.0):
    channels = x.shape[1]
    out = torch.zeros((len(rois), channels, height, width), dtype=x.dtype)
    for r, roi in enumerate(rois.detach().numpy()):
        px, py = (roi[3] - roi[1] + 1) * pad, (roi[4] - roi[2] + 1) * pad
        shift = 0.5 if aligned else 0.0
        x1, y1 = (roi[1] - px) * scale - shift, (roi[2] - py) * scale - shift
        w, h = (roi[3] + px) * scale - shift - x1, (roi[4] + py) * scale - shift - y1
        if not aligned:
            w, h = max(w, 1.0), max(h, 1.0)
        grid_h = ratio if ratio > 0 else max(0, math.ceil(h / height))
        grid_w = ratio if ratio > 0 else max(0, math.ceil(w / width))
        for i in range(height):
            for j in range(width):
                for a in range(grid_h):
                    for b in range(grid_w):
                        sample = bilinear(x[int(roi[0])], y1 + (i + (a + 0.5) / grid_h) * h / height,
                                          x1 + (j + (b + 0.5) / grid_w) * w / width, 1.0)
                        if sample is not None:
                            out[r, :, i, j] += sample / (grid_h * grid_w)
    return out


def psroi_pool(x, rois, dim, group, scale):
    rows, columns = x.shape[2:]
    out = torch.zeros((len(rois), dim, group, group), dtype=x.dtype)
    f = np.float32
    for r, roi in enumerate(rois.detach().numpy()):
        x1, y1 = f(c_round(roi[1])) * f(scale), f(c_round(roi[2])) * f(scale)
        x2, y2 = f(c_round(roi[3]) + 1) * f(scale), f(c_round(roi[4]) + 1) * f(scale)
        step_x, step_y = max(x2 - x1, f(0.1)) / f(group), max(y2 - y1, f(0.1)) / f(group)
        for i in range(group):
            for j in range(group):
                ends_h = np.floor(f(i) * step_y + y1), np.ceil(f(i + 1) * step_y + y1)
                ends_w = np.floor(f(j) * step_x + x1), np.ceil(f(j + 1) * step_x + x1)
                h = [int(min(max(v, 0), rows)) for v in ends_h]
                w = [int(min(max(v, 0), columns)) for v in ends_w]
                if h[1] <= h[0] or w[1] <= w[0]:
                    continue
                for c in range(dim):
                    out[r, c, i, j] = x[int(roi[0]), (c * group + i) * group + j, h[0]:h[1], w[0]:w[1]].mean()
    return out


class RoiWarp(torch.autograd.Function):
    """Samples at the bins' corners. For the regions' gradient a sample's slope is divided between both ends."""

    @staticmethod
    def forward(ctx, x, rois, height, width, scale):
        ctx.save_for_backward(x, rois)
        ctx.fields = (height, width, scale)
        return RoiWarp.sample(x, rois, height, width, scale)

    @staticmethod
    def places(rois, height, width, scale):
        for r, roi in enumerate(rois.detach().numpy()):
            x1, y1, x2, y2 = [c_round(float(np.float32(v) * np.float32(scale))) for v in roi[1:]]
            for i in range(height):
                for j in range(width):
                    yield r, int(roi[0]), i, j, y1 + i * max(y2 - y1, 0) / height, x1 + j * max(x2 - x1, 0) / width, (
                        x1, y1, x2, y2)

    @staticmethod
    def sample(x, rois, height, width, scale):
        out = torch.zeros((len(rois), x.shape[1], height, width), dtype=x.dtype)
        for r, n, i, j, y, z, _ in RoiWarp.places(rois, height, width, scale):
            found = bilinear(x[n], y, z, 0.5)
            if found is not None:
                out[r, :, i, j] = found
        return out

    @staticmethod
    def backward(ctx, dy):
        x, rois = ctx.saved_tensors
        height, width, scale = ctx.fields
        rows, columns = x.shape[2:]
        with torch.enable_grad():
            copy = x.detach().requires_grad_()
            (RoiWarp.sample(copy, rois, height, width, scale) * dy).sum().backward()
        drois = torch.zeros_like(rois)
        for r, n, i, j, y, z, (x1, y1, x2, y2) in RoiWarp.places(rois, height, width, scale):
            if y < -0.5 or y > rows - 0.5 or z < -0.5 or z > columns - 0.5:
                continue
            y, z = min(max(y, 0.0), rows - 1.0), min(max(z, 0.0), columns - 1.0)
            h, w = int(y), int(z)
            if h + 1 > rows - 1 or w + 1 > columns - 1:
                continue
            a, b, c, d = x[n, :, h, w], x[n, :, h, w + 1], x[n, :, h + 1, w], x[n, :, h + 1, w + 1]
            along_x = ((1 - (y - h)) * (b - a) + (y - h) * (d - c)) @ dy[r, :, i, j] * scale
            along_y = ((1 - (z - w)) * (c - a) + (z - w) * (d - b)) @ dy[r, :, i, j] * scale
            part_x, part_y = (z - x1) / max(x2 - x1 + 1, 1), (y - y1) / max(y2 - y1 + 1, 1)
            drois[r, 1:] += torch.tensor([(1 - part_x) * along_x, (1 - part_y) * along_y, part_x * along_x,
                                            part_y * along_y])
        return copy.grad, drois, None, None, None


def mask_resize(x, height, width):
    rows, columns = x.shape[2:]
    out = [[bilinear(x.reshape(-1, rows, columns), i * rows / height, j * columns / width, 1.0) for j in range(width)]
           for i in range(height)]
    return torch.stack([torch.stack(row, -1) for row in out], -2).reshape(*x.shape[:2], height, width)


def anchors_of(ratios=(0.5, 1, 2), scales=(8, 16, 32), base=16):
    out = []
    for ratio in ratios:
        w = np.round(np.sqrt(base * base / ratio))
        h = np.round(w * ratio)
        for scale in scales:
            center = (base - 1) / 2
            out.append([center - (w * scale - 1) / 2, center - (h * scale - 1) / 2,
                        center + (w * scale - 1) / 2, center + (h * scale - 1) / 2])
    return np.array(out)


def anchor_map(anchors, stride, rows, columns):
    """[H*W*A, 4], (h, w, a)."""
    y, x = np.mgrid[0:rows, 0:columns] * stride
    return (np.stack([x, y, x, y], -1)[:, :, None, :] + anchors).reshape(-1, 4).astype(np.float64)


def overlaps(a, b):
    w = np.minimum(a[:, None, 2], b[None, :, 2]) - np.maximum(a[:, None, 0], b[None, :, 0]) + 1
    h = np.minimum(a[:, None, 3], b[None, :, 3]) - np.maximum(a[:, None, 1], b[None, :, 1]) + 1
    both = np.clip(w, 0, None) * np.clip(h, 0, None)
    area = [(v[:, 2] - v[:, 0] + 1) * (v[:, 3] - v[:, 1] + 1) for v in (a, b)]
    return both / (area[0][:, None] + area[1][None, :] - both)


def moved(boxes, deltas):
    """Boxes and deltas [N,4], tensors."""
    w, h = boxes[:, 2] - boxes[:, 0] + 1, boxes[:, 3] - boxes[:, 1] + 1
    x, y = boxes[:, 0] + 0.5 * w + deltas[:, 0] * w, boxes[:, 1] + 0.5 * h + deltas[:, 1] * h
    pw, ph = torch.exp(deltas[:, 2]) * w, torch.exp(deltas[:, 3]) * h
    return torch.stack([x - 0.5 * pw, y - 0.5 * ph, x + 0.5 * pw, y + 0.5 * ph], 1)


def cut(boxes, info):
    limit = torch.tensor([info[1] - 1, info[0] - 1, info[1] - 1, info[0] - 1])
    return torch.clamp(torch.minimum(boxes, limit), min=0)


def regression(a, b):
    wa, ha = a[:, 2] - a[:, 0] + 1, a[:, 3] - a[:, 1] + 1
    wb, hb = b[:, 2] - b[:, 0] + 1, b[:, 3] - b[:, 1] + 1
    return np.stack([(b[:, 0] + wb / 2 - a[:, 0] - wa / 2) / wa, (b[:, 1] + hb / 2 - a[:, 1] - ha / 2) / ha,
                     np.log(wb / wa), np.log(hb / ha)], 1)


def nms(boxes, order, threshold):
    keep, order = [], list(order)
    while order:
        best = order.pop(0)
        keep.append(best)
        order = [i for i in order if overlaps(boxes[best:best + 1], boxes[i:i + 1])[0, 0] <= threshold]
    return keep


def propose(scores, deltas, info, anchors, stride, min_size, pre, post, threshold):
    """rois [post,5], scores, indices, and the moved boxes before they were cut."""
    count = len(anchors)
    rows, columns = scores.shape[2:]
    flat = deltas.permute(0, 2, 3, 1).reshape(-1, 4)
    score = scores[:, count:].permute(0, 2, 3, 1).reshape(-1).detach().numpy()
    everywhere = torch.tensor(anchor_map(anchors, stride, rows, columns))
    free = moved(everywhere, flat)
    boxes = cut(free, info.numpy()[0]).detach().numpy()
    least = min_size * info.numpy()[0, 2]
    large = np.where((boxes[:, 2] - boxes[:, 0] + 1 >= least) & (boxes[:, 3] - boxes[:, 1] + 1 >= least))[0]
    order = large[np.argsort(-score[large], kind="stable")][:pre]
    keep = nms(boxes, order, threshold)[:post]
    rois, out_scores, index = np.zeros((post, 5)), np.zeros((post, 1)), np.full(post, -1)
    rois[:len(keep), 1:], out_scores[:len(keep), 0], index[:len(keep)] = boxes[keep], score[keep], keep
    return torch.tensor(rois), out_scores, index, free, everywhere


def anchor_targets(rows, columns, anchors, stride, border, truth, info, positive, negative):
    boxes = anchor_map(anchors, stride, rows, columns)
    height, width = info[0, :2]
    inside = np.where((boxes[:, 0] >= -border) & (boxes[:, 1] >= -border) & (boxes[:, 2] < width + border)
                      & (boxes[:, 3] < height + border))[0]
    shared = overlaps(boxes[inside], truth[:, :4])
    labels = np.full(len(inside), -1.0)
    labels[shared.max(1) < 0.3] = 0
    labels[np.where((shared == shared.max(0)) & (shared > 0))[0]] = 1
    labels[shared.max(1) >= 0.7] = 1
    assert min((labels == 1).sum(), (labels == 0).sum()) > 0
    for place, value in ((negative, 0), (positive, 1)):
        labels[np.isin(inside, place)] = value
    count = len(anchors)

    def spread(data, fill):
        full = np.full((rows * columns * count, data.shape[1]), fill)
        full[inside] = data
        return full.reshape(1, rows, columns, count * data.shape[1]).transpose(0, 3, 1, 2)

    ones = np.ones((1, 4))
    move = regression(boxes[inside], truth[shared.argmax(1), :4])
    fg, any_label = (labels == 1)[:, None] * ones, (labels >= 0)[:, None] * ones
    return [spread(labels[:, None], -1.0).reshape(1, 1, count * rows, columns), spread(move, 0.0), spread(fg, 0.0),
            spread(any_label / (labels >= 0).sum(), 0.0)]


def spread_classes(labels, moves, classes):
    targets, weights = np.zeros((len(labels), 4 * classes)), np.zeros((len(labels), 4 * classes))
    for i, label in enumerate(labels.astype(int)):
        if label > 0:
            targets[i, 4 * label:4 * label + 4] = moves[i] / [0.1, 0.1, 0.2, 0.2]
            weights[i, 4 * label:4 * label + 4] = 1
    return targets, weights


def sample(rois, truth, rows, classes, in_foreground, in_background):
    """All candidates of each kind; the background repeats. The row of the candidate and of its true box too."""
    real = np.where(np.abs(rois).sum(1) > 0)[0]
    known = np.where(truth[:, 4] > 0)[0]
    boxes = np.concatenate([rois[real, 1:], truth[known, :4]])
    index = np.concatenate([real, len(rois) + known])
    shared = overlaps(boxes, truth[known, :4])
    best, match = shared.max(1), known[shared.argmax(1)]
    fg, bg = np.where(in_foreground(best))[0], np.where(in_background(best))[0]
    keep = np.concatenate([fg, bg] if rows is None else [fg, np.resize(bg, rows - len(fg))])
    is_fg = np.arange(len(keep)) < len(fg)
    labels = np.where(is_fg, truth[match[keep], 4], 0)
    targets, weights = spread_classes(labels, regression(boxes[keep], truth[match[keep], :4]), classes)
    regions = np.concatenate([np.zeros((len(keep), 1)), boxes[keep]], 1)
    return [regions, labels, targets, weights, weights], index[keep], np.where(is_fg, match[keep], -1)


def resized(image, height, width):
    """Bilinear at pixel centres, as OpenCV's resize."""
    plane = torch.tensor(image)[None]
    rows, columns = image.shape

    def places(inputs, outputs):
        return [min(max((i + 0.5) * inputs / outputs - 0.5, 0.0), inputs - 1.0) for i in range(outputs)]

    return np.array([[float(bilinear(plane, y, x, 1.0)) for x in places(columns, width)] for y in places(rows, height)])


def inside_of(box, truth_box, mask):
    """The true mask within a box."""
    out = np.zeros((box[3] - box[1] + 1, box[2] - box[0] + 1))
    for y in range(max(box[1], truth_box[1]), min(box[3], truth_box[3]) + 1):
        for x in range(max(box[0], truth_box[0]), min(box[2], truth_box[2]) + 1):
            out[y - box[1], x - box[0]] = mask[y - truth_box[1], x - truth_box[0]]
    return out


def mask_targets(regions, labels, match, truth, gt_masks, info, scale):
    count = len(regions)
    out, weight, rows = np.zeros((count, 1, 21, 21)), np.zeros((count, 1, 21, 21)), np.full((count, 12), -1.0)
    for m in range(count):
        if match[m] < 0:
            continue
        g = match[m]
        box, truth_box = np.around(regions[m, 1:] / scale).astype(int), np.around(truth[g, :4] / scale).astype(int)
        mask = gt_masks[g, :int(info[g, 0]), :int(info[g, 1])]
        out[m, 0] = resized(inside_of(box, truth_box, mask), 21, 21) >= 0.4
        weight[m] = 1
        rows[m] = np.concatenate([[g, info[g, 0], info[g, 1], labels[m]], box, truth_box])
    return [out, weight, rows]


def mask_label(predicted, gt_masks, rows):
    labels = np.zeros((len(rows), 1))
    for m, row in enumerate(rows):
        if row[0] == -1:
            continue
        box, truth_box = row[4:8].astype(int), row[8:12].astype(int)
        mask = gt_masks[int(row[0]), :int(row[1]), :int(row[2])]
        own = resized(predicted[m].reshape(21, 21), box[3] - box[1] + 1, box[2] - box[0] + 1) >= 0.4
        both = np.logical_and(inside_of(box, truth_box, mask) > 0, own).sum()
        labels[m] = row[3] if both / (own.sum() + mask.sum() - both) >= 0.5 else 0
    return labels
