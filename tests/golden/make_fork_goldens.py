"""Records layers of forks: nets translated from TensorFlow, Greentea, NormFace, L-Softmax, hashing, network surgery.

Usage: python3 make_fork_goldens.py      writes layers_fork.json, in the format of make_layer_goldens.py
"""

import itertools
import math

import numpy as np
import torch
import torch.nn.functional as F

from make_layer_goldens import labels, values
from single_layers import case, write


def translated():
    case("squeeze_named", "Squeeze", "squeeze_param { axis: 2 axis: -1 }", [(2, 3, 1, 1)],
         lambda x, p: [x[0].squeeze(3).squeeze(2)])
    case("squeeze_all", "Squeeze", "", [(1, 3, 1, 2)], lambda x, p: [x[0].squeeze()])
    case("pad", "Pad", "pad_param { paddings: 0 paddings: 1 paddings: 0 paddings: 0 paddings: 2 paddings: 1 paddings: 0 "
         "paddings: 3 constant_values: -0.5 }", [(1, 2, 3, 2)],
         lambda x, p: [F.pad(x[0], (0, 3, 2, 1, 0, 0, 0, 1), value=-0.5)])
    case("add_broadcast", "Add", "", [(2, 3, 4), (3, 1)], lambda x, p: [x[0] + x[1]])
    case("mul_broadcast", "Mul", "", [(3, 4), (2, 3, 1)], lambda x, p: [x[0] * x[1]])
    case("mul_blob", "Mul", "mul_param { mul_shape: 3 mul_shape: 1 }", [(2, 3, 4)], lambda x, p: [x[0] * p[0]],
         params=[(3, 1)])
    case("hard_swish", "HardSwish", "", [8 * values("hard_swish/x", (3, 7))], lambda x, p: [F.hardswish(x[0])])
    case("selu", "SeLu", "", [(3, 5)], lambda x, p: [torch.where(
        x[0] > 0, x[0], 1.67326324 * torch.expm1(x[0])) * 1.050700987])
    case("selu_dropout_test", "SeLuDropout", "", [(2, 3)], lambda x, p: [x[0] * 1], phase="TEST")

    def spread(x, r, order):
        """Pixel by pixel."""
        n, c, h, w = x.shape
        depth = c // (r * r)
        rows = []
        for d in range(depth):
            plane = torch.stack([torch.stack([
                x[:, (i % r * r + j % r) * depth + d if order == "DCR" else d * r * r + i % r * r + j % r, i // r, j // r]
                for j in range(w * r)], 1) for i in range(h * r)], 1)
            rows.append(plane)
        return torch.stack(rows, 1)

    case("depth_to_space_nchw", "DepthToSpace", 'depth_to_space_param { block_size: 2 data_format: "NCHW" }',
         [(2, 8, 2, 3)], lambda x, p: [spread(x[0], 2, "DCR")])
    case("depth_to_space_crd", "DepthToSpace", 'depth_to_space_param { block_size: 2 data_format: "CRD" }',
         [(1, 8, 2, 3)], lambda x, p: [spread(x[0], 2, "CRD")])
    case("depth_to_space_nhwc", "DepthToSpace", "depth_to_space_param { block_size: 2 }", [(1, 2, 3, 8)],
         lambda x, p: [spread(x[0].permute(0, 3, 1, 2), 2, "DCR").permute(0, 2, 3, 1)])
    case("pixelshuffler", "Reshape", "reshape_param { pixelshuffler: 3 }", [(1, 18, 2, 2)],
         lambda x, p: [F.pixel_shuffle(x[0], 3)])

    def to_batch(x, block, pads):
        """Item by item: the places of a block are the slow part of the batch."""
        x = F.pad(x, (0, 0, pads[2], pads[3], pads[0], pads[1]))
        return torch.cat([x[:, i::block[0], j::block[1]] for i, j in itertools.product(*map(range, block))], 0)

    def to_space(x, block, crops):
        n = x.shape[0] // (block[0] * block[1])
        y = torch.zeros(n, x.shape[1] * block[0], x.shape[2] * block[1], x.shape[3]).double()
        for k, (i, j) in enumerate(itertools.product(*map(range, block))):
            y[:, i::block[0], j::block[1]] = x[k * n:(k + 1) * n]
        return y[:, crops[0]:y.shape[1] - crops[1], crops[2]:y.shape[2] - crops[3]]

    case("space_to_batch", "SpaceToBatchND",
         "space_to_batch_nd_param { block_shape: 2 block_shape: 3 paddings: 1 paddings: 0 paddings: 0 paddings: 2 }",
         [(2, 5, 4, 2)], lambda x, p: [to_batch(x[0], (2, 3), (1, 0, 0, 2))])
    case("batch_to_space", "BatchToSpaceND",
         "batch_to_space_nd_param { block_shape: 2 block_shape: 3 crops: 1 crops: 0 crops: 0 crops: 2 }", [(12, 3, 2, 2)],
         lambda x, p: [to_space(x[0], (2, 3), (1, 0, 0, 2))])


def resizing():
    def places(size, out, mode):
        if mode == "corners":
            return [i * (size - 1) / max(out - 1, 1) for i in range(out)]
        return [(i + 0.5) * size / out - (0.5 if mode == "half" else 0) if mode.startswith("half") else i * size / out
                for i in range(out)]

    def bilinear(x, out, mode):
        for axis in (2, 3):
            lines = x.unbind(axis)
            made = []
            for at in places(len(lines), out[axis - 2], mode):
                low, high = max(math.floor(at), 0), min(math.ceil(at), len(lines) - 1)
                share = at - math.floor(at)
                made.append(lines[low] * (1 - share) + lines[high] * share)
            x = torch.stack(made, axis)
        return x

    def nearest(x, out, mode):
        for axis in (2, 3):
            lines = x.unbind(axis)
            at = places(len(lines), out[axis - 2], mode + "_near" if mode == "half" else mode)
            take = [min(math.floor(a + 0.5) if mode == "corners" else math.floor(a), len(lines) - 1) for a in at]
            x = torch.stack([lines[t] for t in take], axis)
        return x

    flags = {"plain": "", "half": "half_pixel_centers: true", "corners": "align_corners: true"}
    for mode, flag in flags.items():
        case(f"resize_bilinear_{mode}", "ResizeBilinear", "resize_bilinear_param { output_height: 8 output_width: 3 "
             f'data_format: "NCHW" {flag} }}', [(1, 2, 4, 5)], lambda x, p, m=mode: [bilinear(x[0], (8, 3), m)])
        case(f"resize_nearest_{mode}", "ResizeNearestNeighbor", "resize_nearest_neighbor_param { output_height: 8 "
             f'output_width: 7 data_format: "NCHW" {flag} }}', [(1, 2, 4, 5)],
             lambda x, p, m=mode: [nearest(x[0], (8, 7), m)])
    case("resize_nearest_scale", "ResizeNearestNeighbor",
         "resize_nearest_neighbor_param { scale_height: 2 scale_width: 3 }", [(1, 2, 3, 2)],
         lambda x, p: [x[0].repeat_interleave(2, 1).repeat_interleave(3, 2)])


def pooling():
    def dilated(x, kernel, stride, dilation, method):
        n, c, *size = x.shape
        out = [(s - d * (k - 1) - 1) // t + 1 for s, k, t, d in zip(size, kernel, stride, dilation)]
        cells = []
        for place in itertools.product(*map(range, out)):
            window = [x[(slice(None), slice(None), *[o * t + q * d for o, t, q, d in zip(place, stride, at, dilation)])]
                      for at in itertools.product(*map(range, kernel))]
            window = torch.stack(window, -1)
            cells.append(window.max(-1).values if method == "MAX" else window.mean(-1))
        return torch.stack(cells, -1).reshape(n, c, *out)

    case("pool_dilated", "Pooling", "pooling_param { pool: MAX kernel_size: 2 dilation: 2 stride: 1 }", [(2, 2, 5, 6)],
         lambda x, p: [dilated(x[0], (2, 2), (1, 1), (2, 2), "MAX")])
    case("pool_dilated_stride", "Pooling",
         "pooling_param { pool: MAX kernel_size: 3 kernel_size: 2 dilation: 1 dilation: 3 stride: 2 stride: 1 }",
         [(1, 2, 7, 6)], lambda x, p: [dilated(x[0], (3, 2), (2, 1), (1, 3), "MAX")])
    case("pool_dilated_three_axes", "Pooling", "pooling_param { pool: AVE kernel_size: 2 dilation: 2 stride: 1 }",
         [(1, 2, 4, 3, 5)], lambda x, p: [dilated(x[0], (2, 2, 2), (1, 1, 1), (2, 2, 2), "AVE")])
    case("sum_pooling", "SumPooling", "sum_pooling_param { pool: SUM kernel_h: 2 kernel_w: 3 stride: 2 }", [(1, 2, 4, 5)],
         lambda x, p: [F.avg_pool2d(x[0], (2, 3), 2) * 6])
    case("signed_sqrt", "SignedSqrt", "", [(3, 4)], lambda x, p: [x[0].sign() * x[0].abs().sqrt()],
         own=lambda x, p, dy: {"x0": dy[0] * 0.5 / (x[0].abs().sqrt() + 0.03)})
    case("l2_normalize", "L2Normalize", "", [(2, 3, 2)],
         lambda x, p: [x[0] / ((x[0]**2).sum((1, 2), keepdim=True) + 1e-7).sqrt()])
    case("pool_same", "Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 1 pad_type: 1 }", [(1, 2, 3, 4)],
         lambda x, p: [F.max_pool2d(F.pad(x[0], (0, 1, 0, 1), value=-9), 2, 1)])
    case("pool_ave_tf", "Pooling", "pooling_param { pool: AVE_TF kernel_size: 3 stride: 2 pad: 1 }", [(1, 2, 5, 5)],
         lambda x, p: [F.avg_pool2d(x[0], 3, 2, 1, count_include_pad=False)])


def segmentation():
    def merged(x, z, forward=(1, 1), backward=(1, 0), add=False):
        offset = [(b - a) // 2 for a, b in zip(x.shape[2:], z.shape[2:])]
        for i, (o, s) in enumerate(zip(offset, x.shape[2:])):
            z = z.narrow(i + 2, o, s)
        parts = [t * f for t, f in zip((x if backward[0] else x.detach(), z if backward[1] else z.detach()), forward)]
        return parts[0] + parts[1] if add else torch.cat(parts, 1)

    case("euclidean_scaled", "EuclideanLoss", "", [(2, 3, 2), (2, 3, 2), (2, 3, 2)],
         lambda x, p: [((x[0] - x[1])**2 * x[2]**2).sum() / 24], no_gradient=[2],
         own=lambda x, p, dy: {"x0": dy[0] * (x[0] - x[1]) * x[2] / 12, "x1": dy[0] * (x[1] - x[0]) * x[2] / 12})
    case("merge_crop", "MergeCrop", "", [(1, 2, 3, 4), (1, 3, 6, 4)], lambda x, p: [merged(*x)])
    case("merge_crop_both", "MergeCrop", "mergecrop_param { backward: 1 backward: 1 }", [(1, 2, 3, 4), (1, 3, 6, 5)],
         lambda x, p: [merged(*x, backward=(1, 1))])
    case("merge_crop_first_out", "MergeCrop", "mergecrop_param { forward: 0 forward: 1 backward: 0 backward: 1 }",
         [(1, 2, 3, 3), (1, 1, 3, 5)], lambda x, p: [merged(*x, forward=(0, 1), backward=(0, 1))])
    case("merge_crop_add", "MergeCrop", "mergecrop_param { operation: ADD backward: 1 backward: 1 }",
         [(1, 2, 2, 3, 2), (1, 2, 4, 3, 5)], lambda x, p: [merged(*x, backward=(1, 1), add=True)])
    case("padding", "Padding", "padding_param { pad_beg: 1 pad_end: 2 }", [(1, 2, 3, 2)],
         lambda x, p: [F.pad(x[0], (1, 2, 1, 2))])
    case("padding_crop", "Padding", "padding_param { pad_beg: -1 pad_end: -2 }", [(1, 2, 5, 6)],
         lambda x, p: [x[0][:, :, 1:-2, 1:-2]])
    marks = labels("eltwise_accuracy/l", (2, 1, 3, 2), 4, 9)

    def accuracy(top_k):
        def run(x, p):
            hits = counted = 0
            for n, i, j in itertools.product(range(2), range(3), range(2)):
                label = int(x[1][n, 0, i, j])
                if label == 9:
                    continue
                counted += 1
                hits += label in x[0][n, :, i, j].topk(top_k).indices
            return [torch.full((1, 1, 1, 1), hits / counted).double()]
        return run

    for top_k in (1, 2):
        case(f"eltwise_accuracy_top{top_k}", "EltwiseAccuracy",
             f"eltwise_accuracy_param {{ top_k: {top_k} ignore_label: 9 }}", [(2, 4, 3, 2), marks], accuracy(top_k),
             no_gradient=[0, 1], silent_tops=[0])


def faces():
    label = labels("faces/l", (5,), 4)

    def unit(x, kind):
        norm = (x**2).sum(1, keepdim=True).add(1e-6).sqrt() if kind == "L2" else x.abs().sum(1, keepdim=True) + 1e-6
        return norm

    case("unit_l2", "Normalize", "normalize_param { }", [(2, 3, 2, 2)], lambda x, p: [x[0] / unit(x[0], "L2")])
    case("unit_l1_two_tops", "Normalize", 'normalize_param { normalize_type: "L1" bp_norm: true }', [(3, 4)],
         lambda x, p: [x[0] / unit(x[0], "L1"), unit(x[0], "L1")], tops=2)
    case("unit_norm_stopped", "Normalize", "normalize_param { fix_gradient: true }", [(3, 4)],
         lambda x, p: [x[0] / unit(x[0], "L2").detach(), unit(x[0], "L2").detach()], tops=2)
    case("product_given_weights", "InnerProduct", "inner_product_param { bias_term: false }", [(3, 4), (5, 4)],
         lambda x, p: [x[0] @ x[1].T])

    def distance(x, w, power):
        return ((x[:, None] - w[None]).abs()**power).sum(2)

    case("inner_distance", "InnerDistance", "inner_distance_param { num_output: 4 }", [(3, 2, 3)],
         lambda x, p: [distance(x[0].flatten(1), p[0], 2)], params=[(4, 6)])
    case("inner_distance_unit", "InnerDistance", "inner_distance_param { num_output: 4 normalize: true transpose: true }",
         [(3, 5)], lambda x, p: [distance(x[0], p[0].T / (p[0]**2).sum(0).add(1e-6).sqrt()[:, None], 2)],
         params=[(5, 4)])
    case("inner_distance_l1_given", "InnerDistance", 'inner_distance_param { distance_type: "L1" }', [(3, 5), (2, 5)],
         lambda x, p: [distance(x[0], x[1], 1)])
    case("channel_scale", "ChannelScale", "", [(2, 3, 2, 2), (2, 1, 2, 2)], lambda x, p: [x[0] * x[1]])
    case("channel_scale_stopped", "ChannelScale",
         "channel_scale_param { do_backward_feature: false do_backward_scale: false }", [(2, 3), (2, 1)],
         lambda x, p: [x[0] * x[1]], own=lambda x, p, dy: {"x0": dy[0], "x1": torch.zeros(2, 1)})

    def moved(bias):
        def run(x, p):
            y = x[0].clone()
            for i, c in enumerate(x[1].long()):
                if float(x[0][i, c].detach()) > -bias:
                    y[i, c] = x[0][i, c] + bias
            return [y]
        return run

    case("label_add", "LabelSpecificAdd", "label_specific_add_param { bias: -0.35 }", [(5, 4), label], moved(-0.35),
         no_gradient=[1])
    case("label_add_test", "LabelSpecificAdd", "label_specific_add_param { bias: -0.35 }", [(5, 4), label],
         lambda x, p: [x[0] * 1], no_gradient=[1], phase="TEST")
    case("label_add_annealed", "LabelSpecificAdd", "label_specific_add_param { bias_base: -0.5 bias_gamma: 0.25 "
         "bias_power: 1 bias_min: -2 bias_max: 2 iteration: 3 }", [(5, 4), label], moved(-0.5 + 1.75 - 1),
         no_gradient=[1])
    case("label_rescale", "LabelSpecificRescale", "label_specific_rescale_param { positive_weight: 0.5 negative_weight: "
         "1.5 }", [(5, 4), label], lambda x, p: [x[0] * torch.where(F.one_hot(x[1].long(), 4) > 0, 0.5, 1.5)],
         no_gradient=[1])
    case("label_rescale_ip", "LabelSpecificRescale", "label_specific_rescale_param { positive_weight: 0.5 for_ip: true }",
         [(5, 4), label],
         lambda x, p: [x[0] * torch.where((F.one_hot(x[1].long(), 4) > 0) & (x[0] > 0), 0.5, 1.0)], no_gradient=[1])


def center_losses():
    label = labels("centers/l", (5,), 4)

    def contrastive(near=0.0, margin=1.0, far=4.0, up=1.0, down=1.0, exp=False, hardest=False, bound=None):
        def run(x, p):
            loss, own, others = 0, 0, 0
            for row, c in zip(x[0], x[1].long()):
                first = (row[c] - near).clamp(0, far)
                loss, own = loss + up * first, own + first
                terms = []
                for j in range(4):
                    if j == c:
                        continue
                    gap = (margin - row[j]).clamp(min=0)
                    others = others + gap
                    terms.append(torch.exp(-row[j]) * (float(row[j].detach()) < margin) if exp else gap)
                if bound is not None and float(row[c].detach()) > bound:
                    continue
                loss = loss + down * (torch.stack(terms).max() if hardest else sum(terms))
            return [loss / 5, torch.stack([own / 5, others / 15]).detach()]
        return run

    fields = "general_contrastive_loss_param { %s }"
    for name, text, more in (
            ("default", "", {}),
            ("weights", "positive_margin: 0.25 negative_margin: 0.75 positive_weight: 2 negative_weight: 0.5 "
             "positive_outlier_thresh: 0.5", dict(near=0.25, margin=0.75, up=2, down=0.5, far=0.5)),
            ("exp", "exp_negative_weight: true", dict(exp=True)),
            ("hardest", "max_negative_only: true", dict(hardest=True)),
            ("bound", "positive_first: true positive_upper_bound: 0.5", dict(bound=0.5))):
        case("contrastive_centers_" + name, "GeneralContrastiveLoss", fields % text, [(5, 4), label],
             contrastive(**more), no_gradient=[1], tops=2, silent_tops=[1], low=0)

    def triplet(margin=0.2, center=True, hardest=False, up=1.0, down=1.0, bound=None):
        def terms(row, c):
            if bound is not None and row[c] > bound:
                return {}
            gaps = {j: row[c] + margin - row[j] for j in range(4) if j != c and row[c] + margin > row[j]}
            if hardest and gaps:
                best = max(gaps, key=lambda j: (gaps[j], -j))
                gaps = {best: gaps[best]}
            return gaps

        def run(x, p):
            rows = x[0].detach().tolist()
            loss = sum(sum(terms(r, int(c)).values()) for r, c in zip(rows, x[1])) * down / 5
            own = sum(r[int(c)] for r, c in zip(rows, x[1]))
            others = sum(sum(r) for r in rows) - own
            return [x[0].sum() * 0 + loss, torch.tensor([own / 5, others / 15]).double()]

        def gradient(x, p, dy):
            dx = torch.zeros_like(x[0])
            for i, (row, c) in enumerate(zip(x[0].tolist(), x[1].long())):
                gaps = terms(row, int(c))
                for j in gaps:
                    dx[i, j] = -down / 5
                if center or gaps or (bound is not None and row[c] > bound):
                    dx[i, c] = up / 5
            return {"x0": dy[0] * dx}
        return dict(function=run, own=gradient)

    fields = "general_triplet_loss_param { %s }"
    for name, text, more in (
            ("default", "", {}),
            ("hardest", "margin: 0.5 hardest_only: true add_center_loss: false", dict(margin=0.5, hardest=True,
                                                                                       center=False)),
            ("bound", "positive_first: true positive_upper_bound: 0.5 add_center_loss: false positive_weight: 2 "
             "negative_weight: 0.5", dict(bound=0.5, center=False, up=2, down=0.5))):
        case("triplet_centers_" + name, "GeneralTripletLoss", fields % text, [(5, 4), label], no_gradient=[1], tops=2,
             silent_tops=[1], low=0, **triplet(**more))


def margins():
    label = labels("lsoftmax/l", (4,), 5)

    def psi(theta, m):
        k = math.floor(float(theta.detach()) * m / math.pi)
        return (-1)**k * torch.cos(m * theta) - 2 * k

    def run(m, weight):
        def f(x, p):
            y = x[0] @ p[0].T
            rows = []
            for i, row in enumerate(y):
                c = int(x[1][i])
                size = x[0][i].norm() * p[0][c].norm()
                value = (size * psi(torch.acos(row[c] / size), m) + weight * row[c]) / (1 + weight) if m > 1 else row[c]
                rows.append(torch.stack([value if j == c else row[j] for j in range(5)]))
            return [torch.stack(rows)]
        return f

    for m, kind in ((1, "SINGLE"), (2, "DOUBLE"), (3, "TRIPLE"), (4, "QUADRUPLE")):
        # The first TRAIN run is number 8: lambda = 3 / (1 + 0.5 * 8).
        case(f"large_margin_{m}", "LargeMarginInnerProduct", f"largemargin_inner_product_param {{ num_output: 5 type: "
             f"{kind} base: 3 gamma: 0.5 power: 1 }}", [(4, 6), label], run(m, 3 / 5), params=[(5, 6), np.array(7.0)],
             no_gradient=[1], after={1: np.array(8.0)})


def hashing():
    def run(margin, tradeoff):
        def pair(x, label, scale):
            total = 0
            for i, j in itertools.combinations(range(len(x)), 2):
                square = ((x[i] - x[j])**2).sum()
                like = label[i] == label[j] if label.dim() == 1 else (label[i] * label[j]).sum() > 0
                total = total + (square if like else (margin - square).clamp(min=0))
            return total * scale / (len(x) * (len(x) - 1))

        def f(x, p):
            return [pair(x[0], x[1], 1) + tradeoff * (x[0].abs() - 1).abs().sum() / len(x[0])]

        def gradient(x, p, dy):
            t = x[0].clone().requires_grad_()
            (pair(t, x[1], 0.5) + tradeoff * (t.abs() - 1).abs().sum() / len(t)).backward()
            return {"x0": dy[0] * t.grad}
        return dict(function=f, own=gradient)

    x = 2 * values("hashing/x", (5, 3))
    case("hashing", "HashingLoss", "hashing_loss_param { bi_margin: 4 tradeoff: 0.25 }",
         [x, labels("hashing/l", (5,), 2)], no_gradient=[1], **run(4, 0.25))
    marks = np.array([[1.0, 0, 0], [0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1]])
    case("hashing_marks", "HashingLoss", "hashing_loss_param { bi_margin: 2 tradeoff: 0.5 }", [x, marks],
         no_gradient=[1], **run(2, 0.5))

    def units(x, p):
        total = 0
        for a, t in zip(x[0].flatten(), x[1].flatten()):
            if float(t) != 0:
                total = total + F.softplus(-a if float(t) > 0 else a)
        return [total / len(x[0])]

    case("multi_sigmoid", "MultiSigmoidCrossEntropyLoss", "",
         [4 * values("units/x", (3, 4)), np.array([[1.0, 0, -1, 1], [-1, -1, 0, 0], [1, 1, 1, -1]])], units,
         no_gradient=[1])

    def balanced(x, p):
        total = 0
        for scores, targets in zip(x[0].flatten(1), x[1].flatten(1)):
            yes, no = scores[targets == 1], scores[targets == 0]
            marked = max(len(yes) + len(no), 1)
            total = total + F.softplus(-yes).sum() * len(no) / marked + F.softplus(no).sum() * len(yes) / marked
        return [total / len(x[0])]

    edges = np.array([[1.0, 0, 0, 0, 0, 0], [0, 1, 255, 1, 1, 0], [255] * 6, [0] * 6]).reshape(4, 1, 2, 3)
    case("balanced_sigmoid", "SigmoidCrossEntropyBalanceLoss", "", [30 * values("balanced/x", (4, 1, 2, 3)), edges],
         balanced, no_gradient=[1])


def surgery():
    def masked(x, w, b, mw, mb):
        return F.conv2d(x, w * mw, b * mb)

    def bits(name, shape):
        return (values(name, shape) > 0).astype(np.float64)

    shapes = [(3, 2, 2, 2), (3,)]

    def through(x, p, dy, y):
        """The weights' gradients are those of the masked weights."""
        w = (p[0] * p[2]).requires_grad_()
        b = (p[1] * p[3]).requires_grad_()
        (y(x[0], w, b) * dy[0]).sum().backward()
        return {"p0": w.grad, "p1": b.grad}

    masks = [bits("surgery/mw", shapes[0]), bits("surgery/mb", shapes[1])]
    case("surgery_test", "DNSConvolution", "convolution_param { num_output: 3 kernel_size: 2 }",
         [(1, 2, 3, 4)], lambda x, p: [masked(x[0], *p)], params=[*shapes, *masks], phase="TEST",
         own=lambda x, p, dy: through(x, p, dy, F.conv2d), after={2: masks[0], 3: masks[1]})

    # Run 0 of TRAIN: gamma 0 always moves the masks.
    weight, bias = values("surgery/w", (4, 6)), values("surgery/b", (4,))
    masks = [bits("surgery/m0", (4, 6)), bits("surgery/m1", (4,))]
    kept = np.concatenate([(weight * masks[0]).ravel(), (bias * masks[1]).ravel()])
    kept = np.abs(kept[kept != 0])
    limit = max(kept.mean() + 0.1 * math.sqrt((kept**2).mean() - kept.mean()**2), 0)
    moved = [np.where(m > 0, np.abs(v) > 0.95 * limit, np.abs(v) > 1.05 * limit).astype(np.float64)
             for v, m in zip((weight, bias), masks)]

    def inner(x, w, b):
        return x @ w.T + b

    def train(x, p):
        return [inner(x[0], p[0] * torch.tensor(moved[0]), p[1] * torch.tensor(moved[1]))]

    case("surgery_train", "DNSInnerProduct", "inner_product_param { num_output: 4 } dns_inner_product_param { gamma: 0 "
         "c_rate: 0.1 }", [(3, 6)], train, params=[weight, bias, *masks],
         own=lambda x, p, dy: through(x, [p[0], p[1], torch.tensor(moved[0]), torch.tensor(moved[1])], dy, inner),
         after={2: moved[0], 3: moved[1]})
    case("quantized", "INQConvolution", "convolution_param { num_output: 3 kernel_size: 2 } inq_convolution_param { "
         "portion: 0 portion: 0.5 }", [(1, 2, 3, 4)], lambda x, p: [F.conv2d(x[0], p[0], p[1])],
         params=[*shapes, np.ones(shapes[0]), np.ones(shapes[1])],
         after={2: np.ones(shapes[0]), 3: np.ones(shapes[1])})


def norms():
    one = np.ones(3)

    def running(x, p):
        shape = (1, 3, 1, 1)
        mean, variance = p[2] / p[4], p[3] / p[4]
        y = (x[0] - mean.reshape(shape)) / (variance.reshape(shape) + 1e-4).sqrt()
        return [y * p[0].reshape(shape) + p[1].reshape(shape)]

    mean, variance = values("bn015/mean", (3,)), values("bn015/var", (3,), 0.25)
    case("batch_norm_nvidia_015", "BatchNorm", "param { lr_mult: 1 } param { lr_mult: 1 } param { lr_mult: 0 } param { "
         "lr_mult: 0 } batch_norm_param { eps: 0.0001 scale_filler { value: 1 } bias_filler { value: 0 } }",
         [(2, 3, 2, 2)], running, params=[(3,), (3,), mean, variance, np.ones(1)], phase="TEST",
         after={2: mean, 3: variance, 4: np.ones(1)})

    def batch(x, p):
        y = F.batch_norm(x[0], None, None, p[0].flatten(), p[1].flatten(), True, 0, 1e-5)
        return [y]

    blobs = [values("bn_still/mean", (1, 3, 1, 1)), values("bn_still/var", (1, 3, 1, 1), 0.25)]
    case("bn_without_averages", "BN", "bn_param { icnet: true moving_average: false }", [(2, 3, 2, 2)], batch,
         params=[(1, 3, 1, 1), (1, 3, 1, 1), *blobs], phase="TEST", after={2: blobs[0], 3: blobs[1]})
    del one


if __name__ == "__main__":
    translated()
    resizing()
    pooling()
    segmentation()
    faces()
    center_losses()
    margins()
    hashing()
    surgery()
    norms()
    write("layers_fork.json")
