"""Records the layers of two-stage detection over pyramids on small inputs, with torchvision's ops and detectors as engine.

Usage: python3 make_pyramid_goldens.py      writes layers_pyramid.json, in the format that make_layer_goldens.py describes

Needs torchvision beside what the other scripts need. Samples take every candidate, as torchvision draws others; what
the samplers promise is tested in tests/layers/pyramid_test.cpp.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torchvision.models.detection import rpn, roi_heads
from torchvision.models.detection._utils import BoxCoder
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import MultiScaleRoIAlign

from make_roi_goldens import case, record

HEIGHT, WIDTH = 40, 48
STRIDES, SIZES, RATIOS = (4, 8), ((8.0, 11.0), (16.0, 22.0)), (0.5, 1.0, 2.0)
# The place in Moka's numbering, size by size, of each of torchvision's anchors of a cell, ratio by ratio.
PLACES = torch.arange(len(SIZES[0]) * len(RATIOS)).reshape(len(SIZES[0]), len(RATIOS)).T.reshape(-1)
FIELDS = "stride: 4 stride: 8 size: 8 size: 11 size: 16 size: 22 "


def numbers(seed, shape, low=-1.0, high=1.0, digits=4):
    return np.round(np.random.RandomState(seed).uniform(low, high, shape), digits)


def map_shapes():
    return [(HEIGHT // s, WIDTH // s) for s in STRIDES]


def anchors():
    """All anchors in torchvision's order (level, row, column, anchor), and for each the place in Moka's (level, anchor,
    row, column)."""
    generator = AnchorGenerator(SIZES, (RATIOS,) * 2)
    images = ImageList(torch.zeros(1, 1, HEIGHT, WIDTH), [(HEIGHT, WIDTH)])
    boxes = generator(images, [torch.zeros(1, 1, h, w) for h, w in map_shapes()])[0].double()
    order, first = [], 0
    for h, w in map_shapes():
        a = len(SIZES[0]) * len(RATIOS)
        order.append(first + torch.arange(a * h * w).reshape(a, h, w)[PLACES].permute(1, 2, 0).reshape(-1))
        first += a * h * w
    return boxes, torch.cat(order)


def network(**given):
    settings = dict(fg_iou_thresh=0.7, bg_iou_thresh=0.3, batch_size_per_image=256, positive_fraction=0.5,
                    pre_nms_top_n={"training": 30, "testing": 30}, post_nms_top_n={"training": 20, "testing": 20},
                    nms_thresh=0.7)
    settings.update(given)
    return rpn.RegionProposalNetwork(None, None, **settings)


def rows_of(pictures, width, count, padding):
    """The rows of each picture, filled up to `count` with rows of padding."""
    rows = np.zeros((len(pictures) * count, width))
    rows[:] = padding
    for n, some in enumerate(pictures):
        rows[n * count:n * count + len(some)] = some
    return rows


def proposals():
    boxes, order = anchors()
    scores = [numbers(1 + i, (2, 6, h, w), -3, 3) for i, (h, w) in enumerate(map_shapes())]
    deltas = [numbers(3 + i, (2, 24, h, w), -0.6, 0.6) for i, (h, w) in enumerate(map_shapes())]
    for name, pre, post in (("pyramid_proposal", 30, 20), ("pyramid_proposal_all", 4000, 60)):
        net = network(pre_nms_top_n={"training": pre, "testing": pre},
                      post_nms_top_n={"training": post, "testing": post}).double()
        net.min_size = 2.0

        def run(data, *maps):
            flat = torch.cat([m.reshape(2, -1) for m in maps[:2]], 1)
            moved = torch.cat([m.reshape(2, 6, 4, -1).permute(0, 1, 3, 2).reshape(2, -1, 4) for m in maps[2:]], 1)
            decoded = BoxCoder((1.0, 1.0, 1.0, 1.0)).decode(moved[:, order].reshape(-1, 4), [boxes, boxes])
            counts = [6 * h * w for h, w in map_shapes()]
            found, probabilities = net.filter_proposals(decoded.reshape(2, -1, 4), flat[:, order],
                                                        [(HEIGHT, WIDTH)] * 2, counts)
            rois = [np.hstack([np.full((len(b), 1), n), b.numpy()]) for n, b in enumerate(found)]
            logits = [torch.logit(p).numpy()[:, None] for p in probabilities]
            return [torch.tensor(rows_of(rois, 5, post, [-1, 0, 0, 0, 0])),
                    torch.tensor(rows_of(logits, 1, post, 0)[:, 0])]

        case(name, f'type: "PyramidProposal" pyramid_param {{ {FIELDS}pre_nms: {pre} post_nms: {post} min_side: 2 }}',
             [np.zeros((2, 1, HEIGHT, WIDTH)), *scores, *deltas], run)


TRUTH = [[(1, 4, 6, 15, 17, 0), (2, 20, 3, 41, 30, 0), (1, 30, 28, 37, 35, 0)], [(2, 2, 2, 11, 9, 0)]]


def truth_rows(count=4):
    rows = np.full((1, 1, 2 * count, 8), -1.0)
    for n, objects in enumerate(TRUTH):
        for i, (label, x1, y1, x2, y2, difficult) in enumerate(objects):
            rows[0, 0, n * count + i] = [n, label, i + 1, x1 / WIDTH, y1 / HEIGHT, x2 / WIDTH, y2 / HEIGHT, difficult]
    return rows


def targets_of(picture):
    return {"boxes": torch.tensor([o[1:5] for o in TRUTH[picture]], dtype=torch.float64),
            "labels": torch.tensor([o[0] for o in TRUTH[picture]])}


def anchor_targets():
    boxes, order = anchors()
    total = len(boxes)

    def run(data, rows, *maps):
        labels, matched = network().assign_targets_to_anchors([boxes, boxes], [targets_of(0), targets_of(1)])
        codes = BoxCoder((1.0, 1.0, 1.0, 1.0)).encode(matched, [boxes, boxes])
        sampled = sum(int((l >= 0).sum()) for l in labels)
        tops = [torch.zeros(2, total, dtype=torch.float64)] + [torch.zeros(2, 4 * total, dtype=torch.float64)
                                                               for _ in range(3)]
        for n in range(2):
            tops[0][n, order] = labels[n].double()
            first = 0
            for h, w in map_shapes():
                count = 6 * h * w
                places = torch.arange(count).reshape(h, w, 6).permute(2, 0, 1)[PLACES.argsort()].reshape(-1) + first
                positive = (labels[n][places] == 1).double()[:, None]
                parts = (codes[n][places] * positive, positive.expand(-1, 4), positive.expand(-1, 4) * 2 / sampled)
                for top, part in zip(tops[1:], parts):
                    top[n, 4 * first:4 * (first + count)] = part.reshape(6, h * w, 4).permute(0, 2, 1).reshape(-1)
                first += count
        return tops

    case("pyramid_anchor_target", f'type: "PyramidAnchorTarget" pyramid_param {{ {FIELDS}batch: 20000 }}',
         [np.zeros((2, 1, HEIGHT, WIDTH)), truth_rows(), *[np.zeros((2, 6, h, w)) for h, w in map_shapes()]], run)


ROIS = np.array([[0, 3, 5, 16, 18], [1, 1, 1, 12, 10], [0, 22, 5, 40, 28], [0, 0, 0, 6, 6], [1, 20, 20, 30, 33],
                 [0, 29.5, 27, 38.25, 35.5], [-1, 0, 0, 0, 0], [1, 2, 3, 47, 39], [0, 28, 25, 38, 36],
                 [0, 19, 1, 47, 33]], dtype=np.float64)


def roi_align():
    maps = [numbers(11, (2, 2, 10, 12)), numbers(12, (2, 2, 5, 6))]
    rois = ROIS[[0, 1, 2, 3, 4, 5, 7, 8, 9]]

    def run(r, *x):
        pool = MultiScaleRoIAlign(["a", "b"], (3, 2), 2, canonical_scale=16, canonical_level=3)
        pool.scales, pool.map_levels = None, None
        boxes = [r[r[:, 0] == n][:, 1:] for n in range(2)]
        pooled = pool({"a": x[0], "b": x[1]}, boxes, [(HEIGHT, WIDTH)] * 2)
        place = torch.cat([torch.where(r[:, 0] == n)[0] for n in range(2)])
        y = torch.zeros_like(pooled)
        return [y.index_copy(0, place, pooled)]

    case("pyramid_roi_align", 'type: "PyramidRoiAlign" pyramid_roi_align_param { pooled_h: 3 pooled_w: 2 stride: 4 '
         'stride: 8 canonical_size: 16 canonical_stride: 8 }', [rois, *maps], run, gradients=(1, 2))


class Heads(roi_heads.RoIHeads):
    """Those of a second stage, without nets; samples take every candidate."""

    def __init__(self, **given):
        settings = dict(fg_iou_thresh=0.5, bg_iou_thresh=0.5, batch_size_per_image=1000, positive_fraction=0.5,
                        bbox_reg_weights=None, score_thresh=0.3, nms_thresh=0.3, detections_per_img=8)
        settings.update(given)
        super().__init__(None, None, None, **settings)


def region_targets():
    rows, mask_rows, classes = 16, 3, 3

    def run(data, rois, truth):
        heads = Heads()
        lists = [rois[rois[:, 0] == n][:, 1:] for n in range(2)]
        found, matched, labels, codes = heads.select_training_samples(lists, [targets_of(0), targets_of(1)])
        tops = [np.zeros((2 * rows, 5)), np.full(2 * rows, -1.0)] + [np.zeros((2 * rows, 4 * classes))
                                                                     for _ in range(3)]
        masks = [np.zeros((2 * mask_rows, 5)), np.full(2 * mask_rows, -1.0), np.full(2 * mask_rows, -1.0)]
        tops[0][:, 0] = masks[0][:, 0] = -1
        sampled = sum(len(l) for l in labels)
        for n in range(2):
            order = torch.cat([torch.where(labels[n] > 0)[0], torch.where(labels[n] == 0)[0]]).tolist()
            cut = 0
            for place, i in enumerate(order):
                at, label = n * rows + place, int(labels[n][i])
                tops[0][at] = [n, *found[n][i].tolist()]
                tops[1][at] = label
                if label == 0:
                    continue
                four = slice(4 * label, 4 * label + 4)
                tops[2][at, four] = codes[n][i]
                tops[3][at, four] = 1
                tops[4][at, four] = 2 * rows / sampled
                if cut < mask_rows:
                    masks[0][n * mask_rows + cut] = tops[0][at]
                    masks[1][n * mask_rows + cut] = label
                    masks[2][n * mask_rows + cut] = int(matched[n][i]) + 1
                    cut += 1
        return [torch.tensor(t) for t in tops + masks]

    case("region_target", f'type: "RegionTarget" region_target_param {{ classes: {classes} rows: {rows} '
         f'foreground_fraction: 0.75 mask_rows: {mask_rows} }}',
         [np.zeros((2, 1, HEIGHT, WIDTH)), ROIS, truth_rows()], run)


def region_outputs():
    most = 8
    rois = np.vstack([ROIS, ROIS[[0, 2, 5, 7]] + [0, 1, 1, 1, 1]])
    logits = numbers(21, (len(rois), 3), -2, 2)
    prob = np.round(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), 6)
    codes = numbers(22, (len(rois), 12), -1, 1)

    def run(data, r, p, c):
        heads = Heads()
        keep = [torch.where(r[:, 0] == n)[0] for n in range(2)]
        both = torch.cat(keep)
        found, scores, labels = heads.postprocess_detections(torch.log(p[both]), c[both],
                                                             [r[k][:, 1:] for k in keep], [(HEIGHT, WIDTH)] * 2)
        out, regions, classes = [], [], []
        for n in range(2):
            b = found[n].numpy()
            head = np.stack([np.full(len(b), n), labels[n].numpy(), scores[n].numpy()], 1)
            out.append(np.hstack([head, b / [WIDTH, HEIGHT, WIDTH, HEIGHT]]))
            regions.append(np.hstack([np.full((len(b), 1), n), b]))
            classes.append(labels[n].numpy()[:, None])
        return [torch.tensor(rows_of(out, 7, most, -1).reshape(1, 1, 2 * most, 7)),
                torch.tensor(rows_of(regions, 5, most, [-1, 0, 0, 0, 0])),
                torch.tensor(rows_of(classes, 1, most, -1)[:, 0])]

    # Probabilities whose rows do not sum to 1 would be normalised by torchvision's softmax.
    prob[:, 0] = 1 - prob[:, 1] - prob[:, 2]
    case("region_output", f'type: "RegionOutput" region_output_param {{ max_detections: {most} '
         'confidence_threshold: 0.3 nms_threshold: 0.3 }',
         [np.zeros((2, 1, HEIGHT, WIDTH)), rois, prob, codes], run, phase="TEST")


def instances():
    """Discs of the objects' numbers in two pictures."""
    pictures = np.zeros((2, 1, HEIGHT, WIDTH))
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    for n, objects in enumerate(TRUTH):
        for i, (_, x1, y1, x2, y2, _) in enumerate(objects):
            inside = ((x + 0.5 - (x1 + x2) / 2) / (x2 - x1)) ** 2 + ((y + 0.5 - (y1 + y2) / 2) / (y2 - y1)) ** 2 < 0.25
            pictures[n, 0][inside] = i + 1
    return pictures


def mask_targets():
    rois = ROIS[[0, 1, 2, 5, 6, 8]]
    objects = np.array([1, 1, 2, 3, -1, 2], dtype=np.float64)

    def run(r, o, pictures):
        y = torch.full((len(rois), 1, 7, 7), -1.0, dtype=torch.float64)
        for m in range(len(rois)):
            if r[m, 0] < 0:
                continue
            mask = (pictures[int(r[m, 0]), 0] == o[m])[None]
            y[m, 0] = roi_heads.project_masks_on_boxes(mask.double(), r[m:m + 1, 1:], torch.zeros(1, dtype=torch.int64),
                                                       7)[0]
        return [y]

    case("mask_target", 'type: "MaskTarget" mask_param { size: 7 }', [rois, objects, instances()], run)


def class_masks():
    x = numbers(31, (4, 3, 2, 2))
    classes = np.array([2, -1, 0, 1], dtype=np.float64)
    case("class_mask", 'type: "ClassMask"', [x, classes],
         lambda a, c: [torch.stack([a[m, int(k)] if k >= 0 else a[m, 0] * 0 for m, k in enumerate(c)])[:, None]],
         gradients=(0,))
    case("class_mask_of_all", 'type: "ClassMask"', [x[:, :1], classes],
         lambda a, c: [torch.stack([a[m, 0] if k >= 0 else a[m, 0] * 0 for m, k in enumerate(c)])[:, None]],
         gradients=(0,))


def pasted(mask, box):
    """Detectron2's: the mask sampled at the pixels' centres, zeros around it."""
    x = (torch.arange(WIDTH, dtype=torch.float64) + 0.5 - box[0]) / (box[2] - box[0]) * 2 - 1
    y = (torch.arange(HEIGHT, dtype=torch.float64) + 0.5 - box[1]) / (box[3] - box[1]) * 2 - 1
    grid = torch.stack([x[None].expand(HEIGHT, WIDTH), y[:, None].expand(HEIGHT, WIDTH)], 2)[None]
    return F.grid_sample(mask[None, None], grid, align_corners=False)[0, 0] >= 0.5


def evaluations():
    detections = np.full((1, 1, 8, 7), -1.0)
    boxes = [(0, 1, 0.9, 4, 6, 15, 17), (0, 2, 0.8, 21.5, 4, 40, 31), (0, 1, 0.3, 28, 27, 38.5, 36),
             (1, 2, 0.7, 2.25, 1.5, 11, 9.5), (1, 1, 0.6, -3, 20, 60, 44)]
    for place, box in zip((0, 1, 2, 4, 5), boxes):
        detections[0, 0, place] = [*box[:3], box[3] / WIDTH, box[4] / HEIGHT, box[5] / WIDTH, box[6] / HEIGHT]
    masks = numbers(41, (8, 1, 5, 5), 0, 1)
    masks[:, :, 1:4, 1:4] = np.maximum(masks[:, :, 1:4, 1:4], 0.6)
    marks = [[0, 2, 1], [0]]  # the first picture's second object is a crowd, its third one difficult
    truth = truth_rows()
    for n, some in enumerate(marks):
        for i, mark in enumerate(some):
            truth[0, 0, 4 * n + i, 7] = mark

    def run(d, m, truth, pictures):
        y = torch.full((2, 8, 7), -1.0, dtype=torch.float64)
        for n in range(2):
            y[n, 0, 0], y[n, 0, 1] = 4, 4
            areas = torch.tensor([float((pictures[n, 0] == g).sum()) for g in range(1, 5)], dtype=torch.float64)
            for i, (label, *_) in enumerate(TRUTH[n]):
                y[n, 5, 3 + i], y[n, 6, 3 + i], y[n, 7, 3 + i] = label, areas[i], marks[n][i]
            for k in range(4):
                row = d[0, 0, 4 * n + k]
                if row[0] != n:
                    continue
                box = row[3:] * torch.tensor([WIDTH, HEIGHT, WIDTH, HEIGHT], dtype=torch.float64)
                found = pasted(m[4 * n + k, 0], box)
                y[n, k + 1, :3] = torch.tensor([row[1], row[2], float(found.sum())])
                for g in range(4):
                    common = float((found & (pictures[n, 0] == g + 1)).sum())
                    crowd = g < len(marks[n]) and marks[n][g] == 2
                    y[n, k + 1, 3 + g] = common / (float(found.sum()) + (0 if crowd else areas[g] - common))
        return [y]

    case("mask_evaluate", 'type: "MaskEvaluate"', [detections, masks, truth, instances()], run, phase="TEST")


if __name__ == "__main__":
    record((proposals, anchor_targets, roi_align, region_targets, region_outputs, mask_targets, class_masks,
            evaluations), "layers_pyramid.json")
