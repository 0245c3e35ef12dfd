"""The layers of MS-CNN and Cascade R-CNN in NumPy and PyTorch, written from what their first authors' code does and
independently of Moka's. Results are padded with rows of -1 to the sizes that Moka's blobs have."""

import math

import numpy as np
import torch


def padded(rows, count, columns):
    out = np.full((count, columns), -1.0)
    if len(rows):
        out[:len(rows)] = np.asarray(rows, dtype=np.float64).reshape(-1, columns)
    return out.reshape(count, columns, 1, 1)


def iou(a, b, pixel):
    """Boxes as x1, y1, x2, y2; pixel: 1 where a box holds its last pixel."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    if wide < 0 or high < 0:
        return 0.0
    both = (wide + pixel) * (high + pixel)
    area = [(c[2] - c[0] + pixel) * (c[3] - c[1] + pixel) for c in (a, b)]
    return both / (sum(area) - both) if min(area) > 0 else 0.0


def suppressed(boxes, scores, threshold, pixel):
    """Indices that greedy suppression keeps, best first."""
    order = sorted(range(len(boxes)), key=lambda i: -scores[i])
    kept = []
    while order:
        best = order.pop(0)
        kept.append(best)
        order = [i for i in order if iou(boxes[best], boxes[i], pixel) <= threshold]
    return kept


def on_anchor(raw, row, column, width, height, stride, xyr, whr, means=(0, 0, 0, 0), stds=(1, 1, 1, 1)):
    """Corner and sides of the box that raw offsets give."""
    t = np.asarray(raw) * np.asarray(stds) + np.asarray(means)
    t[:2] = np.clip(t[:2], -1 / xyr, 1 / xyr)
    t[2:] = np.clip(t[2:], -math.log(whr), math.log(whr))
    w, h = width * math.exp(t[2]), height * math.exp(t[3])
    return (column + 0.5) * stride + t[0] * width - w / 2, (row + 0.5) * stride + t[1] * height - h / 2, w, h


def proposals(branches, images, fg_thr, iou_thr, min_size, pre, post, xyr, whr, pixel, means, stds):
    """branches: (scores [images*A,K,H,W], offsets, widths, heights, stride). Rows with scores."""
    rows, total = [], 0
    for scores, _, widths, _, _ in branches:
        total += len(widths) * scores.shape[2] * scores.shape[3]
    for n in range(images):
        boxes, values = [], []
        for scores, offsets, widths, heights, stride in branches:
            count, limit_x, limit_y = len(widths), scores.shape[3] * stride, scores.shape[2] * stride
            for a in range(count):
                s, t = scores[n * count + a], offsets[n * count + a]
                value = 1 - s[0] if pixel else s[1:].max(axis=0) - s[0]
                for r, c in zip(*np.nonzero(value >= fg_thr)):
                    x, y, w, h = on_anchor(t[:, r, c], r, c, widths[a], heights[a], stride, xyr, whr, means, stds)
                    if pixel:
                        box = [max(x, 0), max(y, 0), min(x + w - 1, limit_x), min(y + h - 1, limit_y)]
                        sides = box[2] - box[0] + 1, box[3] - box[1] + 1
                    else:
                        x, y = max(x, 0), max(y, 0)
                        sides = min(w, limit_x - x), min(h, limit_y - y)
                        box = [x, y, x + sides[0], y + sides[1]]
                    if min(sides) >= min_size:
                        boxes.append(box)
                        values.append(value[r, c])
        best = sorted(range(len(boxes)), key=lambda i: -values[i])[:pre or None]
        boxes, values = [boxes[i] for i in best], [values[i] for i in best]
        kept = suppressed(boxes, values, iou_thr, pixel)[:post or None]
        rows += [[n, *boxes[i], values[i]] for i in kept]
    count = images * min(v for v in (total, pre, post) if v)
    return padded([r[:5] for r in rows], count, 5), padded(rows, count, 6)


def branch_loss(scores, offsets, labels, keep_negatives, field, stride, xyr, whr, lam, means, stds, weights, smooth=True,
                positives=None):
    """scores [M,K,H,W], offsets [M,4,H,W] tensors; keep_negatives and positives: masks [M,H,W]; field: (w, h) of each of
    the A anchors; weights: [M,H,W]. xyr None: no bounds."""
    cls = labels[:, 0].astype(int)
    positives = cls > 0 if positives is None else positives
    taken = positives | keep_negatives
    logs = torch.log_softmax(scores, dim=1)
    chosen = torch.gather(logs, 1, torch.tensor(cls)[:, None])[:, 0]
    class_loss = -(chosen * torch.tensor(weights * taken)).sum() / max(taken.sum(), 1)
    height, width = cls.shape[1:]
    w = np.array([f[0] for f in field], dtype=np.float64)[np.arange(len(cls)) % len(field)][:, None, None]
    h = np.array([f[1] for f in field], dtype=np.float64)[np.arange(len(cls)) % len(field)][:, None, None]
    goal = np.stack([(labels[:, 1] - (np.arange(width) + 0.5) * stride) / w,
                     (labels[:, 2] - (np.arange(height)[:, None] + 0.5) * stride) / h,
                     np.log(np.maximum(labels[:, 3], 2) / w), np.log(np.maximum(labels[:, 4], 2) / h)], axis=1)
    means, stds = np.asarray(means, dtype=np.float64), np.asarray(stds, dtype=np.float64)
    goal = (goal - means[None, :, None, None]) / stds[None, :, None, None]
    t = offsets
    if xyr is not None:
        parts = []
        for k, bound in ((0, 1 / xyr), (2, math.log(whr))):
            mean, std = means[k:k + 2].mean(), math.sqrt(stds[k] * stds[k + 1])
            parts.append(t[:, k:k + 2].detach().clamp((-bound - mean) / std, (bound - mean) / std))
        t = t + (torch.cat(parts, dim=1) - t).detach()
    d = (t - torch.tensor(goal))[torch.tensor(np.repeat(positives[:, None], 4, axis=1))]
    e = torch.where(d.abs() < 1, d * d / 2, d.abs() - 0.5) if smooth else d * d / 2
    boxes = lam * e.sum() / max(d.numel(), 1)
    return torch.stack([class_loss + boxes, boxes.detach()]).reshape(1, 1, 1, 2)


def balanced(weights, positives, negatives, multiple):
    """Groups scaled to 1 : multiple of the positions taken."""
    out, count, share = weights.copy(), positives.sum() + negatives.sum(), 1 / (1 + multiple)
    if positives.any():
        out[positives] *= share * count / weights[positives].sum()
        out[negatives] *= (1 - share) * count / weights[negatives].sum()
    return out


def hardest(mask, values, count):
    """The `count` places of the mask with the highest values."""
    places = sorted(zip(*np.nonzero(mask)), key=lambda p: -values[p])[:count]
    out = np.zeros_like(mask)
    for p in places:
        out[p] = True
    return out


def branch_accuracy(scores, offsets, labels, field, stride, xyr, whr, bg, pixel, means, stds):
    cls, best = labels[:, 0].astype(int), scores.argmax(axis=1)
    counts = (cls > 0) | (labels[:, 5] < bg)
    overlaps = []
    for m, r, c in zip(*np.nonzero(cls > 0)):
        width, height = field[m % len(field)]
        x, y, w, h = on_anchor(offsets[m, :, r, c], r, c, width, height, stride, xyr, whr, means, stds)
        gx, gy, gw, gh = labels[m, 1:5, r, c]
        gx, gy = gx - gw / 2, gy - gh / 2
        overlaps.append(iou((x, y, x + w - pixel, y + h - pixel), (gx, gy, gx + gw - pixel, gy + gh - pixel), pixel))
    hits = best == cls
    return (np.array([hits[counts].mean(), hits[cls > 0].mean()]).reshape(1, 1, 1, 2),
            np.array(np.mean(overlaps)).reshape(1, 1, 1, 1))


def moved(box, t):
    """A pixel box moved by offsets, as a box that holds its last pixel."""
    w, h = box[2] - box[0] + 1, box[3] - box[1] + 1
    v, u = w * math.exp(t[2]), h * math.exp(t[3])
    x, y = (box[0] + box[2]) / 2 + t[0] * w, (box[1] + box[3]) / 2 + t[1] * h
    return [x - (v - 1) / 2, y - (u - 1) / 2, x + (v - 1) / 2, y + (u - 1) / 2]


def targets(rois, objects, rows, classes, fg, low, high, aware, append, pickup, means, stds, box_range=(0, 10), fraction=1):
    """Every foreground and background fits: nothing is drawn. Seven tops."""
    objects = [o for o in objects if o[0] >= 0]
    regions = [list(r) for r in rois if r[0] >= 0] + ([list(o[:5]) for o in objects] if append else [])
    matched = []
    for region in regions:
        own = [(iou(region[1:], o[1:5], 1), -g) for g, o in enumerate(objects) if o[0] == region[0]]
        overlap, g = max(own) if own else (0.0, 1)
        matched.append((overlap, None if not own else objects[-g]))
    foreground = [i for i, (o, g) in enumerate(matched) if g is not None and o >= fg and not g[6]]
    background = [i for i, (o, g) in enumerate(matched) if o < fg and low <= o < high]
    others = [i for i, (o, g) in enumerate(matched) if o < fg and not low <= o < high]
    if rows > 0 and pickup:
        background += others[:rows - len(foreground) - len(background)]
    columns, out = 4 * classes if aware else 8, [[] for _ in range(7)]
    sums = len(foreground), len(background)
    for i in foreground + background:
        overlap, g = matched[i]
        label = int(g[5]) if i in foreground else 0
        t, inside, match = np.zeros(columns), np.zeros(columns), np.zeros(6)
        if label > 0:
            at = 4 * (label if aware else 1)
            a, b = regions[i][1:], g[1:5]
            wa, ha, wb, hb = a[2] - a[0] + 1, a[3] - a[1] + 1, b[2] - b[0] + 1, b[3] - b[1] + 1
            d = np.array([(b[0] + wb / 2 - a[0] - wa / 2) / wa, (b[1] + hb / 2 - a[1] - ha / 2) / ha,
                          math.log(wb / wa), math.log(hb / ha)])
            t[at:at + 4] = (d - np.asarray(means)) / np.asarray(stds)
            inside[at:at + 4] = box_range[0] <= overlap <= box_range[1]
            match = np.array([label, *b, overlap])
        share = fraction / sums[0] if label > 0 else (1 - fraction) / max(sums[1], 1)
        for k, value in enumerate((regions[i], [label], t, inside, inside, match, [share * sum(sums)])):
            out[k].append(value)
    count = rows if rows > 0 else len(rois) + (OBJECT_ROWS if append else 0)
    return [padded(out[k], count, c) for k, c in enumerate((5, 1, columns, columns, columns, 6, 1))]


OBJECT_ROWS = 4  # rows of the objects' bottom in these cases


def decoded(offsets, rois, objects, drop, means, stds, found=0.95):
    rows, places = [], []
    for r, roi in enumerate(rois):
        if roi[0] < 0:
            continue
        box = moved(roi[1:], offsets[r, 4:8] * np.asarray(stds) + np.asarray(means))
        bad = box[0] > box[2] or box[1] > box[3] or (objects is not None and objects[r, 5] >= found)
        if drop and bad:
            continue
        rows.append([roi[0], *box])
        places.append(len(places) if drop else r)
    out = np.full((len(rois), 5, 1, 1), -1.0)
    for place, row in zip(places, rows):
        out[place, :, 0, 0] = row
    return out


def region_overlaps(offsets, rois, objects, aware, means, stds):
    after, before = [], []
    for r, o in enumerate(objects):
        if o[0] < 1 or o[5] > 0.975:
            continue
        at = 4 * (int(o[0]) if aware else 1)
        t = offsets[r, at:at + 4] * np.asarray(stds) + np.asarray(means)
        after.append(iou(moved(rois[r, 1:], t), o[1:5], 1))
        before.append(iou(rois[r, 1:], o[1:5], 1))
    return [np.array(np.mean(v) if v else -1.0).reshape(1, 1, 1, 1) for v in (after, before)]


def detections(prob, offsets, rois, size, threshold, nms, most, aware, means, stds):
    found = []
    for c in range(1, prob.shape[1]):
        rows = [r for r in range(len(prob)) if rois[r, 0] == 0 and prob[r, c] >= threshold]
        at = 4 * (c if aware else 1)
        boxes = [moved(rois[r, 1:5], offsets[r, at:at + 4] * np.asarray(stds) + np.asarray(means)) for r in rows]
        boxes = [[max(b[0], 0), max(b[1], 0), min(b[2], size[1]), min(b[3], size[0])] for b in boxes]
        scores = [prob[r, c] for r in rows]
        found += [[0, *boxes[i], c, scores[i]] for i in suppressed(boxes, scores, nms, 1)]
    best = sorted(found, key=lambda d: -d[6])[:most or None]
    rows = [[0, -1, -1, -1, -1, -1, -1]] + [d for d in found if d in best]
    total = prob.shape[0] * (prob.shape[1] - 1)
    return padded(rows, min(total, most or total) + 1, 7)


def corners(x, rois, pooled_h, pooled_w, scale, pad):
    """ROIAlign of these forks: bilinear values at the corners of the bins. x [N,C,H,W] tensor."""
    height, width = x.shape[2:]
    out = []
    for n, x1, y1, x2, y2 in rois:
        pw, ph = (x2 - x1 + 1) * pad, (y2 - y1 + 1) * pad
        x1, x2, y1, y2 = ((x1 - pw) * scale - 0.5, (x2 + pw) * scale - 0.5, (y1 - ph) * scale - 0.5,
                          (y2 + ph) * scale - 0.5)
        rows = []
        for i in range(pooled_h + 1):
            for j in range(pooled_w + 1):
                y, c = y1 + (y2 - y1) / pooled_h * i, x1 + (x2 - x1) / pooled_w * j
                outside = not (-0.5 <= y <= height - 0.5 and -0.5 <= c <= width - 0.5)
                if outside or x2 <= x1 or y2 <= y1:
                    rows.append(torch.zeros(x.shape[1], dtype=x.dtype))
                    continue
                y, c = min(max(y, 0), height - 1), min(max(c, 0), width - 1)
                y0, c0 = int(y), int(c)
                y3, c3 = min(y0 + 1, height - 1), min(c0 + 1, width - 1)
                f, g, m = y - y0, c - c0, x[int(n)]
                rows.append((1 - f) * ((1 - g) * m[:, y0, c0] + g * m[:, y0, c3])
                            + f * ((1 - g) * m[:, y3, c0] + g * m[:, y3, c3]))
        out.append(torch.stack(rows, dim=1).reshape(-1, pooled_h + 1, pooled_w + 1))
    return torch.stack(out)
