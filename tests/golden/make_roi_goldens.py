"""Records the layers of two-stage detection on small inputs: outputs, and gradients of a weighted sum of the outputs.

Usage: python3 make_roi_goldens.py      writes layers_roi.json, in the format that make_layer_goldens.py describes

roi_reference.py has the layers, written from the papers and from what their first authors' code does. Random choices
are avoided (every candidate fits the sample); their invariants are tested in tests/layers/roi_test.cpp.
"""

import json
import os

import numpy as np
import torch

import make_layer_goldens
from make_layer_goldens import values
from roi_reference import (RoiWarp, anchor_targets, anchors_of, cut, mask_label, mask_resize, mask_targets, moved,
                           propose, psroi_pool, roi_align, roi_pool, sample)

CASES = []


def short(numbers):
    """Whole numbers without their ".0": masks are long."""
    return [int(v) if v == int(v) else v for v in numbers]


def exact(array):
    return short(make_layer_goldens.exact(array))


def rounded(array):
    return short(make_layer_goldens.rounded(array))


def case(name, text, inputs, function, phase="TRAIN", gradients=(), silent=()):
    """inputs: arrays; function: tensors -> list of tensors; gradients: bottoms that get one; silent: tops left out of
    the objective."""
    x = [torch.tensor(a, requires_grad=i in gradients) for i, a in enumerate(inputs)]
    tops = function(*x)
    layer = f'layer {{ name: "{name}" ' + "".join(f'bottom: "x{i}" ' for i in range(len(inputs)))
    layer += "".join(f'top: "y{i}" ' for i in range(len(tops))) + text + " }"
    entry = {"name": name, "layer": layer, "phase": phase, "bottoms": [], "params": [], "tops": []}
    objective = torch.zeros((), dtype=torch.float64)
    for i, y in enumerate(tops):
        y = y if isinstance(y, torch.Tensor) else torch.tensor(np.asarray(y, dtype=np.float64))
        top = {"shape": list(y.shape), "data": rounded(y.detach().numpy())}
        if gradients and i not in silent:
            weight = np.ceil(values(f"{name}/weight{i}", y.shape) * 16) / 16  # short
            top["weight"] = exact(weight)
            objective = objective + (y * torch.tensor(weight)).sum()
        entry["tops"].append(top)
    if objective.requires_grad:
        objective.backward()
    for array, tensor in zip(inputs, x):
        row = {"shape": list(array.shape), "data": exact(array)}
        if tensor.requires_grad:
            row["gradient"] = rounded(np.zeros_like(array) if tensor.grad is None else tensor.grad.numpy())
        entry["bottoms"].append(row)
    CASES.append(entry)


def image(name, shape):
    """Values of few digits; some of them tie."""
    return np.ceil(values(name, shape) * 64) / 64


def python(module, layer, param):
    return f'type: "Python" python_param {{ module: "{module}" layer: "{layer}" param_str: "{param}" }}'


# Pooling of regions ---------------------------------------------------------------------------------------------------


ROIS = np.array([[0, 3, 2, 20, 17], [1, 0, 0, 31, 25], [0, 12.5, 7.25, 12.75, 8], [1, 20, 18, 44, 39.5],
                 [0, 25, 20, 5, 3], [1, -9, -4, 9, 14], [0, 100, 100, 120, 130]], dtype=np.float64)


def pooling():
    for name, (h, w, scale) in {"quarter": (3, 2, 0.25), "fives": (5, 5, 0.25), "half": (2, 5, 0.5)}.items():
        x = image(f"roi_pool_{name}", (2, 2, 9, 11))
        field = f"pooled_size: {h} pooled_size: {w}" if name == "half" else f"pooled_h: {h} pooled_w: {w}"
        case(f"roi_pooling_{name}", f'type: "ROIPooling" roi_pooling_param {{ {field} spatial_scale: {scale} }}',
             [x, ROIS], lambda a, b, h=h, w=w, s=scale: [roi_pool(a, b, h, w, s)], gradients=(0,))
    aligns = {"plain": ("pooled_h: 2 pooled_w: 3", (2, 3, 0.25, 2, False)),
              "aligned": ("pooled_h: 3 pooled_w: 2 aligned: true sampling_ratio: 1", (3, 2, 0.25, 1, True)),
              "adaptive": ("pooled_h: 2 pooled_w: 2 sampling_ratio: 0", (2, 2, 0.25, 0, False)),
              "padded": ("pooled_h: 2 pooled_w: 2 pad_ratio: 0.25", (2, 2, 0.25, 2, False, 0.25))}
    for name, (fields, arguments) in aligns.items():
        x = image(f"roi_align_{name}", (2, 1, 9, 11))
        # A region outside the map by more than a pixel and one upside down stay out of the adaptive case: their number
        # of samples differs between implementations.
        rois = ROIS[[0, 1, 2, 3]] if name == "adaptive" else ROIS
        case(f"roi_align_{name}", f'type: "ROIAlign" roi_align_param {{ {fields} spatial_scale: 0.25 }}', [x, rois],
             lambda a, b, arguments=arguments: [roi_align(a, b, *arguments)], gradients=(0,))
    for group, dim in ((3, 1), (1, 3), (2, 2)):
        x = image(f"psroi_{group}", (2, dim * group * group, 5, 6))
        case(f"psroi_pooling_{group}",
             f'type: "PSROIPooling" psroi_pooling_param {{ spatial_scale: 0.25 output_dim: {dim} '
             f'group_size: {group} }}',
             [x, ROIS[:5]], lambda a, b, d=dim, g=group: [psroi_pool(a, b, d, g, 0.25)], gradients=(0,))
    for kind, field in (("ROIWarping", "roi_warping_param"), ("ROIWarpingTest", "roi_warping_test_param")):
        x = image(kind, (2, 2, 9, 11))
        case(kind.lower(), f'type: "{kind}" {field} {{ pooled_h: 4 pooled_w: 3 spatial_scale: 0.25 }}', [x, ROIS],
             lambda a, b: [RoiWarp.apply(a, b, 4, 3, 0.25)], gradients=(0, 1))


def masks():
    x = image("mask_resize", (2, 1, 9, 6))
    case("mask_resize_smaller", 'type: "MaskResize" mask_resize_param { output_height: 6 output_width: 4 }', [x],
         lambda a: [mask_resize(a, 6, 4)], gradients=(0,))
    case("mask_resize_larger", 'type: "MaskResize" mask_resize_param { output_height: 14 output_width: 10 }', [x],
         lambda a: [mask_resize(a, 14, 10)], gradients=(0,))
    case("mask_pooling", 'type: "MaskPooling"',
         [image("mask_pooling/0", (2, 3, 4, 5)), image("mask_pooling/1", (2, 1, 4, 5))],
         lambda a, b: [a * b], gradients=(0, 1))


# Proposals and targets ------------------------------------------------------------------------------------------------


# The table in generate_anchors.py.
assert np.array_equal(anchors_of(), [[-84, -40, 99, 55], [-176, -88, 191, 103], [-360, -184, 375, 199],
                                     [-56, -56, 71, 71], [-120, -120, 135, 135], [-248, -248, 263, 263],
                                     [-36, -80, 51, 95], [-80, -168, 95, 183], [-168, -344, 183, 359]])


def proposals():
    anchors = anchors_of((0.5, 1), (2, 4))
    scores, deltas = values("proposal/scores", (1, 8, 5, 6)), values("proposal/deltas", (1, 16, 5, 6), -0.5, 0.5)
    info = np.array([[75.0, 90.0, 1.25]])
    for name, pre, post in (("few", 40, 8), ("padded", 500, 130)):
        case(f"proposal_{name}",
             'type: "Proposal" proposal_param { ratio: 0.5 ratio: 1 scale: 2 scale: 4 min_size: 12 nms_thresh: 0.6 '
             f'pre_nms_topn: {pre} post_nms_topn: {post} }}', [scores, deltas, info],
             lambda a, b, c, pre=pre, post=post: propose(a, b, c, anchors, 16, 12, pre, post, 0.6)[:2])
    case("python_proposal",
         python("rpn.proposal_layer", "ProposalLayer",
                "'feat_stride': 16\\n'scales': !!python/tuple [2, 4]\\n'ratios': [0.5, 1]\\n'post_nms_topn': 20"),
         [scores, deltas, info], lambda a, b, c: propose(a, b, c, anchors, 16, 16, 6000, 20, 0.7)[:1], phase="TEST")

    def mnc(a, b, c):
        rois, _, index, free, everywhere = propose(a, b, c, anchors, 16, 16, 12000, 12, 0.7)
        inside = [torch.equal(cut(v, info[0]), v) for v in free]
        anchor_inside = [torch.equal(cut(v, info[0]), v) for v in everywhere]
        rows = []
        for r, i in enumerate(index):
            pad = torch.zeros(1, dtype=torch.float64)
            row = torch.cat([pad, free[i]]) if i >= 0 and inside[i] and anchor_inside[i] else rois[r]
            rows.append(row)
        return [torch.stack(rows), index[None, :].astype(np.float64)]

    case("mnc_proposal",
         python("pylayer.proposal_layer", "ProposalLayer",
                "{'feat_stride': 16, 'scales': [2, 4], 'ratios': [0.5, 1], 'post_nms_topn': 12}"),
         [scores, values("mnc/deltas", (1, 16, 5, 6), -0.25, 0.25), info], mnc, gradients=(1,), silent=(1,))


TRUTH = np.array([[10, 12, 44, 47, 2], [40, 8, 71, 60, 1], [52, 40, 80, 66, 3], [0, 0, 0, 0, 0]], dtype=np.float64)
SIZE = np.array([[75.0, 90.0, 1.25]])


def candidates(name):
    base = np.array([[12, 10, 40, 50], [38, 10, 70, 55], [50, 42, 84, 70], [5, 40, 30, 70], [60, 2, 88, 30],
                     [20, 20, 60, 60], [1, 1, 20, 20], [30, 50, 60, 74]], dtype=np.float64)
    boxes = np.clip(base + values(name, base.shape, -3, 3), 0, 88)
    return np.concatenate([np.concatenate([np.zeros((8, 1)), boxes], 1), np.zeros((2, 5))])


def targets():
    anchors = anchors_of((0.5, 1), (1, 2))
    score = np.zeros((1, 8, 5, 6))
    fields = "'feat_stride': 16, 'scales': [1, 2], 'ratios': [0.5, 1], 'allowed_border': 4, 'batch_size': 1000"
    case("anchor_target", python("rpn.anchor_target_layer", "AnchorTargetLayer", "{" + fields + "}"),
         [score, TRUTH, SIZE], lambda a, b, c: anchor_targets(5, 6, anchors, 16, 4, TRUTH[:3], SIZE, [], []))
    positive, negative = np.array([-1.0, 20, 3, 41]), np.array([36.0, 41, 3, -1])
    case("mnc_anchor_target", python("pylayer.anchor_target_layer", "AnchorTargetLayer", "{" + fields + "}"),
         [score, TRUTH, SIZE, positive, negative],
         lambda a, b, c, d, e: anchor_targets(5, 6, anchors, 16, 4, TRUTH[:3], SIZE, positive, negative))
    rois = candidates("proposal_target")
    case("proposal_target",
         python("rpn.proposal_target_layer", "ProposalTargetLayer", "'num_classes': 4\\n'batch_size': 40"),
         [rois, TRUTH], lambda a, b: sample(rois, TRUTH, 40, 4, lambda v: v >= 0.5, lambda v: v < 0.5)[0])


# Masks of MNC ---------------------------------------------------------------------------------------------------------


def true_masks():
    """Ellipses in their boxes at the original scale."""
    gt_masks, info = np.zeros((4, 44, 30)), np.zeros((4, 3))
    for g in range(3):
        box = np.around(TRUTH[g, :4] / SIZE[0, 2])
        h, w = int(box[3] - box[1] + 1), int(box[2] - box[0] + 1)
        y, x = np.mgrid[0:h, 0:w]
        gt_masks[g, :h, :w] = ((y - h / 2) / h) ** 2 + ((x - w / 2) / w) ** 2 < 0.22
        info[g] = h, w, 0
    return gt_masks, info


def cascades():
    gt_masks, info = true_masks()
    rois = candidates("mnc_target")
    index = np.arange(10.0)[None] * 7
    low = lambda v: (v >= 0.1) & (v <= 0.5) | (v >= 0) & (v <= 0.1)

    def target(a, *_):
        tops, source, match = sample(rois, TRUTH, 24, 4, lambda v: v >= 0.5, low)
        taken = torch.stack([a[s] - a[s].detach() if s < 10 else torch.zeros(5, dtype=torch.float64) for s in source])
        anchors = np.array([index[0, s] if s < 10 else -1 for s in source])
        fg = match >= 0
        made = mask_targets(tops[0], tops[1], match, TRUTH, gt_masks, info, 1.25)
        return ([torch.tensor(tops[0]) + taken] + tops[1:] + made
                + [np.where(fg, anchors, -1), np.where(fg, -1, anchors)])

    text = python("pylayer.proposal_target_layer", "ProposalTargetLayer",
                  "{'num_classes': 4, 'bp_all': 1, 'batch_size': 24}")
    case("mnc_proposal_target", text, [rois, TRUTH, SIZE, gt_masks, info, index], target, gradients=(0,),
         silent=range(1, 10))

    regions, _, match = sample(rois, TRUTH, 24, 4, lambda v: v >= 0.5, low)
    goal = mask_targets(regions[0], regions[1], match, TRUTH, gt_masks, info, 1.25)
    goal = [array[[0, 1, 2, 15]] for array in goal]
    noise = values("mask_layer", (4, 441), -0.5, 0.5)
    predicted = goal[0].reshape(4, 441) * 0.7 + noise
    predicted[1] = values("mask_layer/wrong", (441,))
    predicted = np.clip(np.round(predicted * 16) / 16, 0.0625, 0.9375)
    label = mask_label(predicted, gt_masks, goal[2])
    assert 0 < (label > 0).sum() < (goal[2][:, 0] >= 0).sum(), label.reshape(-1)

    def mask_layer(a, *_):
        keep = torch.tensor(label > 0)
        return [torch.where(keep, a, a.detach()).reshape(-1, 1, 21, 21), label]

    case("mnc_mask_layer", python("pylayer.mask_layer", "MaskLayer", ""), [predicted, gt_masks, goal[2]], mask_layer,
         gradients=(0,), silent=(1,))

    deltas, scores = values("bridge/deltas", (10, 16), -0.5, 0.5), values("bridge/scores", (10, 4), 0.01, 0.99)

    def refined(a, b, first):
        best = scores[:, first:].argmax(1) + first
        picked = torch.stack([b[n, 4 * c:4 * c + 4] for n, c in enumerate(best)])
        boxes = cut(moved(a[:, 1:], picked), SIZE[0])
        return torch.cat([torch.zeros((10, 1), dtype=torch.float64), boxes], 1)

    real = candidates("bridge")[:8]
    rois10 = np.concatenate([real, real[:2] + [0, 5, 5, 3, 3]])
    case("mnc_stage_bridge_test", python("pylayer.stage_bridge_layer", "StageBridgeLayer", ""),
         [rois10, deltas, scores, SIZE], lambda a, b, c, d: [refined(a, b, 0)], phase="TEST")

    def bridge(a, b, *_):
        new = refined(a, b, 1)
        tops, source, match = sample(new.detach().numpy(), TRUTH, None, 4, lambda v: v >= 0.5, lambda v: v < 0.5)
        # Rows for the padding of gt_boxes, too: the background repeats.
        count = 14
        order = np.concatenate([np.arange(len(source)), (match >= 0).sum() + np.arange(count - len(source))])
        tops, source, match = [t[order] for t in tops], source[order], match[order]
        rows = torch.stack([new[s] if s < 10 else torch.tensor(tops[0][m]) for m, s in enumerate(source)])
        made = mask_targets(tops[0], tops[1], match, TRUTH, gt_masks, info, 1.25)
        return [rows, tops[1]] + made + tops[2:]

    case("mnc_stage_bridge", python("pylayer.stage_bridge_layer", "StageBridgeLayer", "{'num_classes': 4}"),
         [rois10, deltas, scores, TRUTH, gt_masks, SIZE, info], bridge, gradients=(0, 1), silent=range(1, 8))


def losses():
    text = python("pyloss", "EuclideanLossLayer", "")
    case("python_euclidean", text, [values("pyloss/0", (3, 4)), values("pyloss/1", (3, 4))],
         lambda a, b: [((a - b) ** 2).sum().reshape(1) / 6], gradients=(0, 1))


def record(groups, name):
    """Runs the groups of cases and writes them all to a file of this name."""
    torch.set_num_threads(1)
    for group in groups:
        group()
    names = [entry["name"] for entry in CASES]
    assert len(set(names)) == len(names)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    record((pooling, masks, proposals, targets, cascades, losses), "layers_roi.json")
