"""Records the layers of segmentation nets and the forks' additions to common layers, each written here with PyTorch or
numpy from the layer's description.

Usage: python3 make_segmentation_goldens.py      writes layers_segmentation.json (format: make_layer_goldens.py)
"""

import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import moka_random
from make_layer_goldens import exact, rounded, values

FLT_MIN = float(np.finfo(np.float32).tiny)


def labels(stream, shape, classes, ignore=None):
    chosen = moka_random.labels(math.prod(shape), classes, stream).astype(np.float64)
    if ignore is not None:
        chosen[::3] = ignore
    return chosen.reshape(shape)


class Recorder:
    def __init__(self):
        self.cases = []

    def case(self, name, kind, fields, bottoms, compute, params=(), phase="TRAIN", no_gradient=(), silent=(), after=None,
             slopes=None):
        """compute(x tensors, parameter tensors) gives the tops. bottoms and params: shapes or arrays. after: values of
        statistics by index (they get no gradient). silent: tops left out of the objective. slopes: gradients by bottom
        where they are a rule of their own."""
        arrays = [b if isinstance(b, np.ndarray) else values(f"{name}/bottom{i}", b) for i, b in enumerate(bottoms)]
        fixed = [p if isinstance(p, np.ndarray) else values(f"{name}/param{i}", p) for i, p in enumerate(params)]
        after, slopes = after or {}, slopes or {}
        x = [torch.tensor(a, requires_grad=i not in no_gradient and i not in slopes) for i, a in enumerate(arrays)]
        w = [torch.tensor(a, requires_grad=i not in after) for i, a in enumerate(fixed)]
        tops = [torch.as_tensor(y, dtype=torch.float64) for y in compute(x, w)]
        text = f'layer {{ name: "{name}" type: "{kind}" '
        text += "".join(f'bottom: "x{i}" ' for i in range(len(arrays)))
        text += "".join(f'top: "y{i}" ' for i in range(len(tops))) + fields + " }"
        entry = {"name": name, "layer": text, "phase": phase, "bottoms": [], "params": [], "tops": []}
        objective = torch.zeros((), dtype=torch.float64)
        for i, y in enumerate(tops):
            top = {"shape": list(y.shape), "data": rounded(y.detach())}
            if i not in silent:
                weight = np.ones(()) if y.ndim == 0 else values(f"{name}/weight{i}", y.shape)
                top["weight"] = exact(weight)
                objective = objective + (y * torch.tensor(weight)).sum()
            entry["tops"].append(top)
        if objective.requires_grad:
            objective.backward()
        for i, (array, tensor) in enumerate(zip(arrays, x)):
            row = {"shape": list(array.shape), "data": exact(array)}
            if i in slopes:
                row["gradient"] = rounded(slopes[i])
            elif tensor.requires_grad and len(silent) < len(tops):
                row["gradient"] = rounded(np.zeros_like(array) if tensor.grad is None else tensor.grad)
            entry["bottoms"].append(row)
        for i, (array, tensor) in enumerate(zip(fixed, w)):
            row = {"shape": list(array.shape), "data": exact(array)}
            if i in after:
                row["after"] = rounded(torch.as_tensor(after[i]).detach())
            else:
                row["gradient"] = rounded(np.zeros_like(array) if tensor.grad is None else tensor.grad)
            entry["params"].append(row)
        self.cases.append(entry)

    def write(self, path):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), path), "w") as file:
            file.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]}\n")


def spread(v, rank):
    return v.reshape([1, -1] + [1] * (rank - 2))


def moments(x):
    axes = [0] + list(range(2, x.ndim))
    return x.mean(axes), x.var(axes, unbiased=False)


def standard(x, mean, variance, eps):
    return (x - spread(mean, x.ndim)) / torch.sqrt(spread(variance, x.ndim) + eps)


def affine(y, scale, shift):
    return y * spread(scale, y.ndim) + spread(shift, y.ndim)


def bn(r):
    shape, blob = (3, 4, 2, 3), (1, 4, 1, 1)

    def segnet(x, w):
        mean, variance = moments(x[0])
        y = affine(standard(x[0], mean, variance, 1e-9), *w)
        return [y, mean.reshape(blob), variance.reshape(blob)]

    fillers = "scale_filler { value: 1 } shift_filler { value: 0 }"
    r.case("bn_segnet", "BN", f"bn_param {{ {fillers} }}", [shape], lambda x, w: segnet(x, w)[:1], [blob, blob])
    r.case("bn_segnet_test", "BN", f"bn_param {{ {fillers} }}", [shape], lambda x, w: segnet(x, w)[:1], [blob, blob],
           phase="TEST")
    r.case("bn_segnet_statistics", "BN", f"bn_param {{ {fillers} }}", [shape], segnet, [blob, blob])
    r.case("bn_segnet_two_params", "BN", "param { lr_mult: 1 } param { lr_mult: 2 }", [shape],
           lambda x, w: segnet(x, w)[:1], [blob, blob])
    r.case("bn_segnet_inference", "BN", "bn_param { bn_mode: INFERENCE }", [shape], lambda x, w: [affine(x[0], *w)],
           [blob, blob], phase="TEST")

    def psp(name, fields, phase, momentum, eps, uses_running, trains=True):
        kept = [values(f"{name}/mean", blob), values(f"{name}/variance", blob, 0.5, 2.0)]
        params = [values(f"{name}/slope", blob), values(f"{name}/bias", blob)] + kept
        x = values(f"{name}/x", shape)
        mean, variance = moments(torch.tensor(x))
        after = {2: kept[0], 3: kept[1]}
        if not uses_running:
            after = {2: momentum * torch.tensor(kept[0]) + (1 - momentum) * mean.reshape(blob),
                     3: momentum * torch.tensor(kept[1]) + (1 - momentum) * variance.reshape(blob)}
        if not trains:
            after |= {0: params[0], 1: params[1]}

        def run(xs, w):
            m, v = (w[2], w[3]) if uses_running else moments(xs[0])
            return [affine(standard(xs[0], m, v, eps), w[0], w[1])]

        r.case(name, "BN", fields, [x], run, params, phase=phase, after=after)

    eps = float(np.float32(1e-5))
    psp("bn_psp", "bn_param { slope_filler { value: 1 } bias_filler { value: 0 } momentum: 0.75 }", "TRAIN", 0.75, eps,
        False)
    psp("bn_psp_test", "bn_param { momentum: 0.75 eps: 0.5 }", "TEST", 0.75, 0.5, True)
    psp("bn_psp_frozen", "param { lr_mult: 1 } param { lr_mult: 1 } bn_param { frozen: true }", "TRAIN", 0.9, eps, True,
        False)
    psp("bn_psp_four_params", "param { } param { } param { } param { }", "TRAIN", float(np.float32(0.9)), eps, False)


def batch_norm(r):
    shape, channels = (4, 3, 2, 3), 3
    count = 4 * 2 * 3

    def run(name, fields, phase, start, moved, relu=False, affine_blobs=2, eps=float(np.float32(1e-5))):
        kept = [values(f"{name}/mean", (3,)), values(f"{name}/variance", (3,), 0.5, 2.0), np.array([start])]
        if start == 0:
            kept[:2] = [np.zeros(3), np.zeros(3)]
        x = values(f"{name}/x", shape)
        mean, variance = moments(torch.tensor(x))
        after = dict(enumerate(kept))
        if phase == "TRAIN":
            after = dict(enumerate(moved(torch.tensor(kept[0]), torch.tensor(kept[1]), start, mean,
                                         variance * count / (count - 1))))

        def compute(xs, w):
            m, v = moments(xs[0]) if phase == "TRAIN" else (w[0] / start, w[1] / start)
            y = standard(xs[0], m, v, eps)
            y = y * spread(w[3], 4) if affine_blobs > 0 else y
            y = y + spread(w[4], 4) if affine_blobs > 1 else y
            return [F.relu(y) if relu else y]

        params = kept + [values(f"{name}/param{i}", (channels,)) for i in range(affine_blobs)]
        r.case(name, "BatchNorm", f"batch_norm_param {{ {fields} }}", [x], compute, params, phase=phase, after=after)

    def averages(m, v, start, mean, variance):
        return (mean, variance, [1.0]) if start == 0 else (0.5 * m + 0.5 * mean, 0.5 * v + 0.5 * variance, [1.0])

    def sums(m, v, start, mean, variance):
        return 0.5 * m + mean, 0.5 * v + variance, [0.5 * start + 1]

    run("batch_norm_nvidia_first", "scale_bias: true moving_average_fraction: 0.5", "TRAIN", 0.0, averages)
    run("batch_norm_nvidia", "scale_filler { value: 1 } moving_average_fraction: 0.5 eps: 1e-9", "TRAIN", 1.0, averages)
    run("batch_norm_nvidia_test", "scale_bias: true eps: 0.25 use_global_stats: false", "TEST", 1.0, None, eps=0.25)
    run("batch_norm_intel", "filler { value: 1 } bias_term: true moving_average_fraction: 0.5", "TRAIN", 1.5, sums)
    run("batch_norm_intel_scale_relu", "use_weight_bias: true bias_term: false relu: true", "TEST", 2.0, None, True, 1)
    run("batch_norm_intel_plain", "use_weight_bias: false relu: true moving_average_fraction: 0.5", "TRAIN", 1.5, sums,
        True, 0)


def unpoolings(r):
    def scatter(height, width):
        def compute(x, _):
            n, c, h, w = x[0].shape
            flat = torch.zeros((n, c, height * width), dtype=torch.float64)
            places = x[1].detach().reshape(n, c, h * w).long()
            return [flat.scatter(2, places, x[0].reshape(n, c, h * w)).reshape(n, c, height, width)]
        return compute

    def pooled(name, shape):
        _, places = F.max_pool2d(torch.tensor(values(name, shape)), 2, 2, ceil_mode=True, return_indices=True)
        return places.numpy().astype(np.float64)

    mask = pooled("upsample/x", (2, 3, 6, 4))
    r.case("upsample_mask", "Upsample", "upsample_param { scale: 2 }", [(2, 3, 3, 2), mask], scatter(6, 4),
           no_gradient=[1])
    odd = pooled("upsample/odd", (1, 2, 5, 7))
    r.case("upsample_mask_pad_out", "Upsample", "upsample_param { scale: 2 pad_out_h: true pad_out_w: true }",
           [(1, 2, 3, 4), odd], scatter(5, 7), no_gradient=[1])
    r.case("upsample_mask_size", "Upsample", "upsample_param { scale: 2 upsample_h: 5 upsample_w: 7 }",
           [(1, 2, 3, 4), odd], scatter(5, 7), no_gradient=[1])
    r.case("upsample_mask_scales", "Upsample", "upsample_param { scale_h: 2 scale_w: 3 }",
           [(1, 2, 2, 2), labels("upsample/places", (1, 2, 1, 1), 6) + np.arange(4).reshape(2, 2) * 6],
           scatter(4, 6), no_gradient=[1])

    def nearest(scale):
        return lambda x, _: [x[0].repeat_interleave(scale, 2).repeat_interleave(scale, 3)]

    r.case("upsample_nearest", "Upsample", "", [(2, 3, 2, 4)], nearest(2))
    r.case("upsample_nearest_stride", "Upsample", "upsample_param { stride: 3 }", [(1, 2, 2, 3)], nearest(3))
    r.case("unpooling_mask", "Unpooling", "unpooling_param { kernel_size: 2 stride: 2 unpool_size: 6 }",
           [(1, 2, 3, 3), pooled("unpooling/x", (1, 2, 6, 6))], scatter(6, 6), no_gradient=[1])

    def windows(kernel, stride, size, mean):
        def compute(x, _):
            n, c, h, w = x[0].shape
            y = torch.zeros((n, c, *size), dtype=torch.float64)
            for i in range(h):
                for j in range(w):
                    area = torch.zeros(size, dtype=torch.float64)
                    area[i * stride[0]:i * stride[0] + kernel[0], j * stride[1]:j * stride[1] + kernel[1]] = 1
                    y = y + x[0][:, :, i:i + 1, j:j + 1] * (area / area.sum() if mean else area)
            return [y]
        return compute

    r.case("unpooling_corners", "Unpooling", "unpooling_param { unpool: MAX kernel_size: 2 stride: 2 }", [(2, 2, 2, 3)],
           windows((1, 1), (2, 2), (5, 7), False))
    r.case("unpooling_ave", "Unpooling", "unpooling_param { unpool: AVE kernel_size: 3 stride: 2 unpool_h: 5 unpool_w: 6 }",
           [(1, 2, 2, 3)], windows((3, 3), (2, 2), (5, 6), True))
    r.case("unpooling_tile", "Unpooling",
           "unpooling_param { unpool: TILE kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 }", [(1, 2, 3, 2)],
           windows((2, 3), (1, 2), (4, 5), False))


def interps(r):
    def to(size, crop=(0, 0)):
        def compute(x, _):
            begin, end = crop
            part = x[0][:, :, begin:x[0].shape[2] - end, begin:x[0].shape[3] - end]
            return [F.interpolate(part, size, mode="bilinear", align_corners=True)]
        return compute

    shape = (2, 3, 4, 5)
    r.case("interp_zoom", "Interp", "interp_param { zoom_factor: 3 }", [shape], to((10, 13)))
    r.case("interp_shrink", "Interp", "interp_param { shrink_factor: 2 }", [(1, 2, 7, 6)], to((4, 3)))
    r.case("interp_both", "Interp", "interp_param { shrink_factor: 2 zoom_factor: 4 }", [(1, 2, 7, 6)], to((13, 9)))
    r.case("interp_size", "Interp", "interp_param { height: 3 width: 9 }", [shape], to((3, 9)))
    r.case("interp_pads", "Interp", "interp_param { height: 6 width: 5 pad_beg: -1 pad_end: -2 }", [(1, 2, 6, 7)],
           to((6, 5), (1, 2)))
    r.case("interp_one_pixel", "Interp", "interp_param { height: 2 width: 3 }", [(1, 2, 1, 1)], to((2, 3)))
    r.case("interp_same", "Interp", "interp_param { height: 4 width: 5 }", [shape], lambda x, _: [x[0] + 0])
    r.case("interp_second_bottom", "Interp", "", [shape, (1, 1, 6, 2)], to((6, 2)), no_gradient=[1])
    r.case("interp_use_blob_size", "Interp", "interp_param { use_blob_size: true }", [(1, 1, 2, 3), (1, 1, 4, 2)],
           to((4, 2)), no_gradient=[1])


def scores(counted):
    """Accuracy, recall and overlap of a confusion matrix (rows: labels)."""
    right, rows, columns = np.diag(counted), counted.sum(1), counted.sum(0)
    recalls = [right[c] / rows[c] for c in range(len(rows)) if rows[c] > 0]
    unions = rows + columns - right
    overlaps = [1 if unions[c] == right[c] else right[c] / unions[c] for c in range(len(rows))]
    return np.array([right.sum() / max(rows.sum(), 1), np.mean(recalls) if recalls else 0, np.mean(overlaps)])


def seg_accuracies(r):
    def record(name, fields, shape, label, ignored=(), before=None):
        x = values(f"{name}/x", shape)
        counted = np.zeros((shape[1], shape[1]))
        for at in np.ndindex(label.shape):
            if label[at] not in ignored:
                best = shape[1] - 1 - x[at[0], ::-1, at[2], at[3]].argmax()  # the last of equal scores
                counted[int(label[at]), best] += 1
        extra = {}
        if before is not None:
            sums = np.stack([np.diag(counted), counted.sum(1), counted.sum(0)]) + np.array(before, dtype=float)
            accuracy = sums[0].sum() / sums[1].sum()
            recall = np.mean([sums[0, c] / sums[1, c] for c in range(shape[1]) if sums[1, c] > 0])
            overlap = np.mean(sums[0] / (sums[1] + sums[2] - sums[0]))
            result = np.array([accuracy, recall, overlap])
            extra = {"params": [np.array(before, dtype=float)], "after": {0: sums}}
        else:
            result = scores(counted)
        r.case(name, "SegAccuracy", fields, [x, label], lambda *_: [torch.tensor(result.reshape(1, 1, 1, 3))],
               no_gradient=[0, 1], silent=[0], phase="TEST", **extra)

    record("seg_accuracy", "", (2, 4, 3, 4), labels("seg_accuracy/label", (2, 1, 3, 4), 4))
    record("seg_accuracy_ignore", "seg_accuracy_param { ignore_label: 255 ignore_label: 2 }", (2, 6, 4, 4),
           labels("seg_accuracy/ignored", (2, 1, 4, 4), 4, 255), (255, 2))
    record("seg_accuracy_nothing", "seg_accuracy_param { ignore_label: 1 }", (1, 3, 2, 2), np.ones((1, 1, 2, 2)), (1,))
    record("seg_accuracy_all_passes", "seg_accuracy_param { reset: false }", (1, 3, 2, 4),
           labels("seg_accuracy/more", (1, 1, 2, 4), 3), (), [[1, 2, 3], [2, 4, 3], [3, 3, 3]])


def softmax_losses(r):
    def loss(weigh, divide, ignore=None, smoothing=0.0):
        def compute(x, _):
            label = x[1].reshape(x[0].shape[0], *x[0].shape[2:]).long()
            valid = torch.ones_like(label, dtype=torch.float64) if ignore is None else (label != ignore).double()
            target = torch.where(valid > 0, label, torch.zeros_like(label))
            each = F.cross_entropy(x[0], target, reduction="none", label_smoothing=smoothing) * valid
            weight = weigh(x, target) * valid
            return [(each * weight).sum() / divide(x, valid, weight)]
        return compute

    shape = (2, 3, 2, 4)
    label = labels("softmax_weighted/label", (2, 1, 2, 4), 3)
    ignoring = labels("softmax_weighted/ignoring", (2, 1, 2, 4), 3, 255)
    table = torch.tensor([0.25, 1.5, 3.0], dtype=torch.float64)
    weighting = "weight_by_label_freqs: true class_weighting: 0.25 class_weighting: 1.5 class_weighting: 3"

    def by_class(x, target):
        return table[target]

    def ones(x, target):
        return torch.ones_like(target, dtype=torch.float64)

    def by_bottom(x, target):
        return x[2].reshape(target.shape)

    r.case("softmax_class_weighting", "SoftmaxWithLoss", f"loss_param {{ {weighting} }}", [shape, label],
           loss(by_class, lambda x, valid, weight: valid.sum()), no_gradient=[1])
    r.case("softmax_class_weighting_ignore", "SoftmaxWithLoss", f"loss_param {{ {weighting} ignore_label: 255 }}",
           [shape, ignoring], loss(by_class, lambda x, valid, weight: valid.sum(), 255), no_gradient=[1])
    r.case("softmax_class_weighting_batch", "SoftmaxWithLoss", f"loss_param {{ {weighting} normalize: false }}",
           [shape, label], loss(by_class, lambda x, valid, weight: 2), no_gradient=[1])
    weights = values("softmax_weighted/weights", (2, 1, 2, 4), 0.1, 2.0)
    r.case("softmax_weights", "SoftmaxWithLoss", "", [shape, label, weights],
           loss(by_bottom, lambda x, valid, weight: weight.sum()), no_gradient=[1, 2])
    r.case("softmax_weights_ignore", "SoftmaxWithLoss", "loss_param { ignore_label: 255 }", [shape, ignoring, weights],
           loss(by_bottom, lambda x, valid, weight: weight.sum(), 255), no_gradient=[1, 2])
    r.case("softmax_weights_full", "SoftmaxWithLoss", "loss_param { normalization: FULL }", [shape, label, weights],
           loss(by_bottom, lambda x, valid, weight: valid.numel()), no_gradient=[1, 2])
    r.case("softmax_smoothing", "SoftmaxWithLoss", "loss_param { label_smoothing: 0.25 }",
           [(5, 4), labels("softmax_smoothing/label", (5,), 4)],
           loss(ones, lambda x, valid, weight: 5, smoothing=0.25), no_gradient=[1])
    r.case("softmax_smoothing_weighting", "SoftmaxWithLoss",
           f"loss_param {{ {weighting} label_smoothing: 0.5 ignore_label: 255 }}", [shape, ignoring],
           loss(by_class, lambda x, valid, weight: valid.sum(), 255, 0.5), no_gradient=[1])

    # Mixed labels: each class's part.
    def parts(smoothing, divide):
        def compute(x, _):
            target = x[1] * (1 - smoothing) + smoothing / x[0].shape[1]
            return [-(target * F.log_softmax(x[0], 1)).sum() / divide]
        return compute

    def shares(name, dims):
        drawn = values(name, dims, 0.1, 1.0)
        return drawn / drawn.sum(1, keepdims=True)

    r.case("softmax_parts", "SoftmaxWithLoss", "", [(5, 4), shares("softmax_parts/target", (5, 4))], parts(0, 5),
           no_gradient=[1])
    r.case("softmax_parts_of_pixels", "SoftmaxWithLoss", "loss_param { label_smoothing: 0.2 normalization: BATCH_SIZE }",
           [shape, shares("softmax_parts/pixels", shape)], parts(0.2, 2), no_gradient=[1])
    r.case("softmax_parts_unscaled", "SoftmaxWithLoss", "loss_param { normalization: NONE }",
           [(3, 6), values("softmax_parts/any", (3, 6), 0.0, 2.0)], parts(0, 1), no_gradient=[1])


def common(r):
    """The forks' fields and names of Convolution, Pooling, InnerProduct, Accuracy."""
    def conv(relu=None, **options):
        def compute(x, w):
            run = F.conv2d if x[0].ndim == 4 else F.conv3d
            y = run(x[0], w[0], w[1] if len(w) > 1 else None, **options)
            return [y if relu is None else F.leaky_relu(y, relu)]
        return compute

    r.case("conv_relu", "Convolution", "convolution_param { num_output: 3 kernel_size: 3 relu: true }", [(1, 2, 5, 5)],
           conv(0.0), [(3, 2, 3, 3), (3,)])
    r.case("conv_leaky_relu", "Convolution",
           "convolution_param { num_output: 2 kernel_size: 2 relu: true negative_slope: 0.25 }", [(1, 2, 4, 4)],
           conv(0.25), [(2, 2, 2, 2), (2,)])
    r.case("conv_depthwise_group", "DepthwiseConvolution",
           "convolution_param { num_output: 6 group: 3 kernel_size: 3 pad: 1 bias_term: false }", [(2, 3, 4, 4)],
           conv(padding=1, groups=3), [(6, 1, 3, 3)])
    r.case("conv_depthwise_implied", "ConvolutionDepthwise", "convolution_param { kernel_size: 3 stride: 2 pad: 1 }",
           [(2, 3, 5, 5)], conv(padding=1, stride=2, groups=3), [(3, 1, 3, 3), (3,)])
    r.case("conv_nd", "NdConvolution",
           "convolution_param { num_output: 2 kernel_shape { dim: 2 dim: 3 dim: 2 } stride_shape { dim: 1 dim: 2 dim: 1 } "
           "pad_shape { dim: 1 dim: 1 dim: 0 } }", [(1, 2, 3, 4, 4)], conv(stride=(1, 2, 1), padding=(1, 1, 0)),
           [(2, 2, 2, 3, 2), (2,)])
    r.case("conv_3d", "Convolution3D",
           "convolution_param { num_output: 2 kernel_size: 3 kernel_depth: 2 pad: 1 temporal_pad: 1 stride: 2 }",
           [(1, 2, 3, 4, 5)], conv(stride=(1, 2, 2), padding=(1, 1, 1)), [(2, 2, 2, 3, 3), (2,)])

    def pool(kernel, stride):
        return lambda x, _: [F.max_pool3d(x[0], kernel, stride, ceil_mode=True)]

    r.case("pool_nd", "NdPooling",
           "pooling_param { pool: MAX kernel_shape { dim: 1 dim: 2 dim: 2 } stride_shape { dim: 1 dim: 2 dim: 2 } }",
           [(1, 2, 3, 5, 4)], pool((1, 2, 2), (1, 2, 2)))
    r.case("pool_3d", "Pooling3D",
           "pooling_param { pool: MAX kernel_size: 2 kernel_depth: 2 stride: 2 temporal_stride: 2 }", [(1, 2, 3, 4, 5)],
           pool(2, 2))

    def unit(w):
        return w / torch.sqrt((w * w).sum(1, keepdim=True) + 1e-6)

    r.case("ip_relu", "InnerProduct", "inner_product_param { num_output: 4 relu: true negative_slope: 0.5 }", [(3, 5)],
           lambda x, w: [F.leaky_relu(x[0] @ w[0].T + w[1], 0.5)], [(4, 5), (4,)])
    r.case("ip_normalize", "InnerProduct", "inner_product_param { num_output: 4 normalize: true bias_term: false }",
           [(3, 2, 3)], lambda x, w: [x[0].reshape(3, 6) @ unit(w[0]).T], [(4, 6)])
    r.case("ip_normalize_transposed", "InnerProduct",
           "inner_product_param { num_output: 4 normalize: true transpose: true bias_term: false }", [(3, 5)],
           lambda x, w: [x[0] @ unit(w[0].T).T], [(5, 4)])
    worst = labels("accuracy_min/label", (6,), 3)
    r.case("accuracy_min_is_better", "Accuracy", "accuracy_param { min_is_better: true }", [(6, 3), worst],
           lambda x, _: [(x[0].argmin(1).double() == x[1]).double().mean()], no_gradient=[0, 1], silent=[0], phase="TEST")


def main():
    r = Recorder()
    for record in (bn, batch_norm, unpoolings, interps, seg_accuracies, softmax_losses, common):
        record(r)
    r.write("layers_segmentation.json")


if __name__ == "__main__":
    main()
