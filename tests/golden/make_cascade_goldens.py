"""Records the layers of MS-CNN and Cascade R-CNN on small inputs: outputs, and gradients of a weighted sum of them.

Usage: python3 make_cascade_goldens.py      writes layers_cascade.json, in the format that make_layer_goldens.py describes

cascade_reference.py has the layers. Random choices are avoided (every candidate fits, or the hardest are taken); their
invariants are tested in tests/layers/cascade_test.cpp.
"""

import json
import os

import numpy as np
import torch

import make_roi_goldens
from cascade_reference import (balanced, branch_accuracy, branch_loss, corners, decoded, detections, hardest, proposals,
                               region_overlaps, targets)
from make_layer_goldens import values
from make_roi_goldens import case
from moka_random import named_units
from roi_reference import roi_pool

STD = (0.125, 0.125, 0.25, 0.25)
MEAN = (0.0, 0.0625, -0.125, 0.0)
SCALING = "bbox_reg_param { " + "".join(f"bbox_mean: {m} " for m in MEAN) + "".join(f"bbox_std: {s} " for s in STD) + "} "
FIELD = [(24, 20), (40, 48)]
FIELDS = "".join(f"field_w: {w} field_h: {h} " for w, h in FIELD)


def numbers(name, shape, low, high, step=1 / 64):
    units = named_units(name, tuple(shape))
    return np.round((low + (high - low) * units) / step) * step


def label_maps(name, items, classes, height, width, stride):
    """Class (a third above 0), centre, sides and overlap at each position."""
    cls = np.maximum(numbers(name + "/class", (items, height, width), -2 * classes, classes, 1), 0)
    cls = np.minimum(cls, classes - 1)
    rows, columns = np.mgrid[0:height, 0:width]
    x = (columns + 0.5) * stride + numbers(name + "/x", cls.shape, -9, 9)
    y = (rows + 0.5) * stride + numbers(name + "/y", cls.shape, -9, 9)
    w, h = numbers(name + "/w", cls.shape, 12, 60), numbers(name + "/h", cls.shape, 12, 60)
    overlap = np.where(cls > 0, numbers(name + "/o", cls.shape, 0.5, 1), numbers(name + "/b", cls.shape, 0, 0.45))
    return np.stack([cls, x, y, w, h, overlap], axis=1)


def boxes(name, images, count, size, least=6):
    """Rows of image and a box inside."""
    image = np.sort(np.floor(numbers(name + "/n", (count,), 0, images - 1 / 64)))
    x1, y1 = numbers(name + "/x", (count,), 0, size / 2), numbers(name + "/y", (count,), 0, size / 2)
    x2 = x1 + numbers(name + "/w", (count,), least, size / 2)
    y2 = y1 + numbers(name + "/h", (count,), least, size / 2)
    return np.stack([image, x1, y1, x2, y2], axis=1)


def proposal_cases():
    for name, scaling, iou, post in (("box_output", SCALING, 0.5, 0), ("box_output_post", "", 0.35, 5)):
        a, b = numbers(name + "/a", (2, 7, 5, 6), -2, 2), numbers(name + "/b", (2, 7, 3, 3), -2, 2)
        means, stds = (MEAN, STD) if scaling else ((0,) * 4, (1,) * 4)
        branches = [(x[:, :3], x[:, 3:], [w], [h], s) for x, (w, h), s in zip((a, b), FIELD, (8, 16))]
        tops = proposals(branches, 2, 0.25, iou, 9, 24, post, 2, 2, 0, means, stds)
        text = (f'type: "BoxOutput" {scaling}box_output_param {{ fg_thr: 0.25 iou_thr: {iou} min_size: 9 max_nms_num: 24 '
                f"max_post_nms_num: {post} {FIELDS} downsample_rate: 8 downsample_rate: 16 }}")
        case(name, text, [a, b], lambda *_, tops=tops: [torch.tensor(t) for t in tops])
    for name, post in (("box_group_output", 6), ("box_group_output_all", 0)):
        p, q = numbers(name + "/p", (4, 2, 4, 5), 0, 1), numbers(name + "/q", (2, 2, 2, 2), 0, 1)
        t, u = numbers(name + "/t", (4, 4, 4, 5), -2, 2), numbers(name + "/u", (2, 4, 2, 2), -2, 2)
        branches = [(p, t, [24, 40], [20, 48], 16), (q, u, [64], [64], 32)]
        tops = proposals(branches, 2, 0.3, 0.5, 12, 0, post, 1, 8, 1, MEAN, STD)
        text = (f'type: "BoxGroupOutput" {SCALING}box_group_output_param {{ fg_thr: 0.3 iou_thr: 0.5 min_size: 12 '
                f"field_xyr: 1 field_whr: 8 max_post_nms_num: {post} box_group_param {{ {FIELDS} stride: 16 }} "
                "box_group_param { field_w: 64 field_h: 64 stride: 32 } }")
        case(name, text, [p, t, q, u], lambda *_, tops=tops: [torch.tensor(v) for v in tops])


def loss_cases():
    x, labels = values("detection_loss/x", (2, 7, 4, 5), -3, 3), label_maps("detection_loss", 2, 3, 4, 5, 8)
    cls, free = labels[:, 0], (labels[:, 0] == 0) & (labels[:, 5] < 0.375)
    common = "cls_num: 3 field_w: 24 field_h: 20 downsample_rate: 8 bg_threshold: 0.375 bg_multiple: 2 "
    hard = np.zeros_like(free)
    for n in range(2):
        for k in (1, 2):
            count = max(4, 2 * int((cls[n] == k).sum()))
            hard[n] |= hardest(free[n], x[n, k], count)
    weight = balanced(np.ones_like(cls), cls > 0, hard, 2)

    def loss(keep, w, smooth=True, scaling=(MEAN, STD), lam=0.5, xyr=2, whr=2):
        return lambda a, _: [branch_loss(a[:, :3], a[:, 3:], labels, keep, FIELD[:1], 8, xyr, whr, lam, *scaling, w,
                                         smooth)]

    case("detection_loss", f'type: "DetectionLoss" {SCALING}detection_loss_param {{ {common} lambda: 0.5 field_xyr: 2 '
         'field_whr: 2 sample_mode: "bootstrap" pos_neg_weighted: true }', [x, labels], loss(hard, weight), gradients=(0,))
    weight = np.where(cls > 0, labels[:, 5], 1.0)
    case("detection_loss_all", f'type: "DetectionLoss" detection_loss_param {{ {common} sample_mode: "all" bb_smooth: '
         "false iou_weighted: true field_xyr: 1 field_whr: 4 }", [x, labels],
         loss(free, weight, False, ((0,) * 4, (1,) * 4), 1, 1, 4), gradients=(0,))
    s, t = values("group_loss/s", (4, 2, 4, 5), -3, 3), values("group_loss/t", (4, 4, 4, 5), -3, 3)
    labels2 = label_maps("group_loss", 4, 2, 4, 5, 16)
    cls2 = labels2[:, 0]
    free2 = (cls2 == 0) & (labels2[:, 5] < 0.375)
    chance = torch.softmax(torch.tensor(s), dim=1)[:, 0].numpy()
    hard2 = np.zeros_like(free2)
    common = f"cls_num: 2 {FIELDS} stride: 16 bg_threshold: 0.375 objectness: true "
    # Half of the 32 positions may be positive; what they leave is filled with negatives.
    for n in range(2):
        part, positives = slice(2 * n, 2 * n + 2), int((cls2[2 * n:2 * n + 2] > 0).sum())
        assert positives <= 16
        hard2[part] = hardest(free2[part], -chance[part], 32 - positives)
    weight2 = balanced(np.ones_like(cls2), cls2 > 0, hard2, 1)
    case("detection_group_loss", f'type: "DetectionGroupLoss" {SCALING}detection_group_loss_param {{ {common} '
         'batch_size: 32 bg_multiple: 1 neg_mining_type: "bootstrap" pos_neg_weighted: true field_xyr: 1 field_whr: 8 }',
         [s, t, labels2], lambda a, b, _: [branch_loss(a, b, labels2, hard2, FIELD, 16, 1, 8, 1, MEAN, STD, weight2)],
         gradients=(0, 1))
    ones = np.ones_like(cls2)
    case("detection_group_loss_free", f'type: "DetectionGroupLoss" detection_group_loss_param {{ {common} bg_multiple: '
         '100 lambda: 2 bbox_loss_type: "Euclidean_L2" }', [s, t, labels2],
         lambda a, b, _: [branch_loss(a, b, labels2, free2, FIELD, 16, None, None, 2, (0,) * 4, (1,) * 4, ones, False)],
         gradients=(0, 1))
    tops = branch_accuracy(x[:, :3], x[:, 3:], labels, FIELD[:1], 8, 4, 2, 0.375, 0, MEAN, STD)
    case("detection_accuracy", f'type: "DetectionAccuracy" {SCALING}detection_accuracy_param {{ cls_num: 3 field_w: 24 '
         "field_h: 20 downsample_rate: 8 bg_threshold: 0.375 }", [x, labels],
         lambda *_: [torch.tensor(v) for v in tops])
    group = branch_accuracy(s, t, labels2, FIELD, 16, 1, 8, 0.5, 1, (0,) * 4, (1,) * 4)
    case("detection_group_accuracy", f'type: "DetectionGroupAccuracy" detection_group_accuracy_param {{ cls_num: 2 '
         f"{FIELDS} stride: 16 field_xyr: 1 field_whr: 8 }}", [s, t, labels2],
         lambda *_: [torch.tensor(v) for v in group])


def region_cases():
    objects = np.concatenate([boxes("objects", 2, 3, 60, 20), [[1.0, 0, 0], [2, 1, 1], [1, 0, 1]]], axis=1)
    objects = np.concatenate([objects, np.full((1, 8), -1.0)])
    near = objects[np.array([0, 1, 2, 0, 2, 1]), :5] + numbers("near", (6, 5), -5, 5) * [0, 1, 1, 1, 1]
    rois = np.concatenate([near, boxes("rois", 2, 9, 60), np.full((1, 5), -1.0)])
    ready = [rois, objects]
    rule = "proposal_target_param { cls_num: 3 num_img_per_batch: 2 fg_thr: 0.5 bg_thr_hg: 0.45 bg_thr_lw: 0.05 "
    for name, text, columns, options in (
            ("proposal_target_all", "batch_size: -1 fg_fraction: 0.25 }", 7, (-1, True, True, True, (0, 10), 0.25)),
            ("proposal_target_rows", "batch_size: 60 fg_fraction: 0.75 bbox_thr_lw: 0.6 } ", 8,
             (60, True, True, True, (0.6, 10), 0.75)),
            ("proposal_target_agnostic", "batch_size: 60 fg_fraction: 0.75 append_gtbox: false pickup_discard: false }", 8,
             (60, False, False, False, (0, 10), 0.75))):
        rows, aware, append, pickup, span, fraction = options
        scaling = SCALING.replace("}", "cls_aware: " + ("true" if aware else "false") + " }")
        tops = targets(rois, objects[:, :columns], rows, 3, 0.5, 0.05, 0.45, aware, append, pickup, MEAN, STD, span,
                       fraction)
        case(name, f'type: "ProposalTarget" {scaling}{rule}{text}', [rois, objects[:, :columns]],
             lambda *_, tops=tops: [torch.tensor(t) for t in tops])
    found = np.concatenate([np.zeros((16, 5)), numbers("found", (16, 1), 0.5, 1)], axis=1)
    offsets = numbers("decode", (16, 8), -2, 2)
    case("decode_bbox", f'type: "DecodeBBox" {SCALING} decode_bbox_param {{ gt_iou_thr: 0.9 }}', [offsets, rois, found],
         lambda *_: [torch.tensor(decoded(offsets, rois, found, True, MEAN, STD, 0.9))])
    case("decode_bbox_test", f'type: "DecodeBBox" {SCALING}', [offsets, rois],
         lambda *_: [torch.tensor(decoded(offsets, rois, None, False, MEAN, STD))], phase="TEST")
    match = np.concatenate([numbers("match/c", (16, 1), -1, 2, 1), rois[:, 1:] + 2, numbers("match/o", (16, 1), 0.5, 1)],
                           axis=1)
    wide = numbers("wide", (16, 12), -2, 2)
    case("bbox_accuracy", f'type: "BboxAccuracy" {SCALING}', [wide, rois, match],
         lambda *_: [torch.tensor(v) for v in region_overlaps(wide, rois, match, True, MEAN, STD)])
    case("bbox_accuracy_agnostic", f'type: "BboxAccuracy" {SCALING.replace("}", "cls_aware: false }")}',
         [offsets, rois, match],
         lambda *_: [torch.tensor(v) for v in region_overlaps(offsets, rois, match, False, MEAN, STD)])
    size = np.sqrt((rois[:, 3] - rois[:, 1] + 1) * (rois[:, 4] - rois[:, 2] + 1))
    real = rois[:, 0] >= 0

    def route(name, low, high, fields):
        taken = [r for r in range(16) if real[r] and low <= size[r] < high]
        if not taken:
            middle = np.sqrt(low * high)
            taken = [min((r for r in range(16) if real[r]), key=lambda r: abs(np.log2(size[r] / middle)))]
        tops = []
        for x in (rois, wide):
            y = np.full_like(x, -1.0)
            y[:len(taken)] = x[taken]
            tops.append(y)
        case(name, f'type: "ScaleRoute" scale_route_param {{ {fields} }}', [rois, wide],
             lambda *_: [torch.tensor(t) for t in tops])

    route("scale_route", 20, 32, "low_scale: 20 high_scale: 32")
    route("scale_route_small", 0, 26, "high_scale: 26")
    route("scale_route_none", 400, 900, "low_scale: 400 high_scale: 900")
    score = numbers("hard/score", (16,), 0, 4)
    taken = []
    for n in (0, 1):
        own = [r for r in range(16) if rois[r, 0] == n]
        taken += sorted(own, key=lambda r: -score[r])[:4]
    assert len(taken) == 8
    rows = sorted(taken)
    case("hard_mining", 'type: "HardMining" hard_mining_param { num_image: 2 num_roi_per_image: 4 }', [score, rois, wide],
         lambda *_: [torch.tensor(rois[rows]), torch.tensor(wide[rows])])
    one = np.where(rois[:, :1] == 1, -1.0, rois[:, :1])
    single = np.concatenate([one, rois[:, 1:]], axis=1)
    prob, image = numbers("prob", (16, 3), 0, 1), np.array([[48.0, 56.0]])
    for name, aware, most in (("frcnn_output", True, 6), ("frcnn_output_agnostic", False, 0)):
        t = wide if aware else offsets
        scaling = SCALING.replace("}", "cls_aware: " + ("true" if aware else "false") + " }")
        top = detections(prob, t, single, image[0], 0.25, 0.4, most, aware, MEAN, STD)
        case(name, f'type: "FrcnnOutput" {scaling}frcnn_output_param {{ conf_thr: 0.25 iou_thr: 0.4 max_det_num: {most} }}',
             [prob, t, single, image], lambda *_, top=top: [torch.tensor(top)])
    return ready


def pool_cases(rois):
    x = values("corners/x", (2, 3, 6, 7))
    flat = np.concatenate([rois[:8], [[0, 9, 9, 5, 30]]])
    for name, pad in (("roi_align_corners", 0), ("roi_align_corners_padded", 0.25)):
        case(name, f'type: "ROIAlign" roi_pooling_param {{ pooled_h: 3 pooled_w: 2 spatial_scale: 0.125 pad_ratio: {pad} }}',
             [x, flat], lambda a, _, pad=pad: [corners(a, flat, 3, 2, 0.125, pad)], gradients=(0,))
    grown = flat[:8].copy()
    for k in (1, 2):
        pad = 0.25 * (flat[:8, k + 2] - flat[:8, k] + 1)
        grown[:, k], grown[:, k + 2] = grown[:, k] - pad, grown[:, k + 2] + pad
    case("roi_pooling_padded", 'type: "ROIPooling" roi_pooling_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.125 '
         "pad_ratio: 0.25 }", [x, flat[:8]], lambda a, _: [roi_pool(a, torch.tensor(grown), 3, 2, 0.125)], gradients=(0,))


def main():
    make_roi_goldens.CASES.clear()
    proposal_cases()
    loss_cases()
    pool_cases(region_cases()[0])
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_cascade.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in make_roi_goldens.CASES)
                + "\n]}\n")


if __name__ == "__main__":
    main()
