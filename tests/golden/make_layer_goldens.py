"""Records single layers on small inputs in float64: outputs, and gradients of a fixed weighted sum of the outputs.

Usage: python3 make_layer_goldens.py      writes layers.json

layers.json is {"cases": [case, ...]}; a case is
  name        unique, letters, digits, - and _
  layer       prototxt of the one layer; its bottoms are x0, x1, ..., its tops y0, y1, ...
  phase       "TRAIN" or "TEST"
  bottoms     [{"shape", "data", "gradient"}]: gradient is absent for labels and other inputs that get none
  params      [{"shape", "data", "gradient"}] in Caffe's order; BatchNorm's have "after" (the values once the layer ran)
              in place of "gradient"
  tops        [{"shape", "data", "weight"}]: the objective is the sum over tops of sum(weight * data). weight is absent
              for tops without gradient (labels, counts, masks); a loss has the weight 1
Values are row-major. Inputs, parameters and weights are exact in float32; results are float64 with 12 digits.
"""

import json
import math
import os

import numpy as np
import torch

import caffe_torch
import moka_random
import prototxt

CASES = []


def values(stream, shape, low=-1.0, high=1.0):
    """Multiples of 1/1024, so exact in float32 and in the text; never zero, so that kinks are not hit."""
    steps = np.round(1024 * (low + (high - low) * moka_random.named_units(stream, tuple(shape))))
    return np.where(steps == 0, 512, steps) / 1024


def labels(name, shape, classes, ignore=None):
    chosen = moka_random.labels(math.prod(shape), classes, name).astype(np.float64)
    if ignore is not None:
        chosen[::3] = ignore
    return chosen.reshape(shape)


def rounded(array):
    return [float(f"{v:.12g}") for v in np.asarray(array, dtype=np.float64).reshape(-1)]


def exact(array):
    return [float(v) for v in np.asarray(array, dtype=np.float64).reshape(-1)]


def case(name, kind, fields, bottoms, params=(), phase="TRAIN", tops=1, no_gradient=(), silent_tops=(), low=-1.0):
    """Runs one layer. bottoms: shapes or arrays; params: shapes or arrays; no_gradient: bottoms that get none;
    silent_tops: tops left out of the objective."""
    arrays = [b if isinstance(b, np.ndarray) else values(f"{name}/bottom{i}", b, low) for i, b in enumerate(bottoms)]
    fixed = [p if isinstance(p, np.ndarray) else values(f"{name}/param{i}", p) for i, p in enumerate(params)]
    text = f'layer {{ name: "{name}" type: "{kind}" '
    text += "".join(f'bottom: "x{i}" ' for i in range(len(arrays)))
    text += "".join(f'top: "y{i}" ' for i in range(tops)) + fields + " }"
    net = caffe_torch.Net(prototxt.parse_net(text).layer, torch.float64, phase == "TRAIN",
                          {(name, i): p for i, p in enumerate(fixed)})
    x = [torch.tensor(a, requires_grad=i not in no_gradient) for i, a in enumerate(arrays)]
    net.forward({f"x{i}": t for i, t in enumerate(x)})
    assert list(net.params) == [f"{name}/{i}" for i in range(len(fixed))], (name, list(net.params))
    results, objective = [net.tops[f"{name}:y{i}"] for i in range(tops)], 0
    written = []
    for i, y in enumerate(results):
        top = {"shape": list(y.shape), "data": rounded(y.detach())}
        if i not in silent_tops:
            weight = np.ones(()) if kind.endswith("Loss") else values(f"{name}/weight{i}", y.shape)
            top["weight"] = exact(weight)
            objective = objective + (y * torch.tensor(weight)).sum()
        written.append(top)
    if isinstance(objective, torch.Tensor) and objective.requires_grad:
        objective.backward()
    entry = {"name": name, "layer": text, "phase": phase, "bottoms": [], "params": [], "tops": written}
    for array, tensor in zip(arrays, x):
        row = {"shape": list(array.shape), "data": exact(array)}
        if tensor.requires_grad and isinstance(objective, torch.Tensor):
            row["gradient"] = rounded(np.zeros_like(array) if tensor.grad is None else tensor.grad)
        entry["bottoms"].append(row)
    for array, tensor in zip(fixed, net.params.values()):
        row = {"shape": list(array.shape), "data": exact(array)}
        if tensor.requires_grad:
            row["gradient"] = rounded(tensor.grad)
        else:
            row["after"] = rounded(tensor)
        entry["params"].append(row)
    CASES.append(entry)


def convolutions():
    def conv(name, fields, x, w, out, deconvolve=False):
        kind = "Deconvolution" if deconvolve else "Convolution"
        params = [w] + ([] if "bias_term: false" in fields else [(out,)])
        case(name, kind, f"convolution_param {{ num_output: {out} {fields} }}", [x], params)

    conv("conv_3x3", "kernel_size: 3", (2, 3, 5, 6), (4, 3, 3, 3), 4)
    conv("conv_1x1", "kernel_size: 1", (2, 3, 4, 4), (5, 3, 1, 1), 5)
    conv("conv_pad_stride", "kernel_size: 3 pad: 1 stride: 2", (2, 3, 7, 6), (4, 3, 3, 3), 4)
    conv("conv_stride_drops_pixels", "kernel_size: 3 stride: 3", (1, 2, 8, 7), (3, 2, 3, 3), 3)
    conv("conv_groups", "kernel_size: 3 pad: 1 group: 2", (2, 4, 5, 5), (6, 2, 3, 3), 6)
    conv("conv_depthwise", "kernel_size: 3 pad: 1 group: 4 bias_term: false", (2, 4, 5, 5), (4, 1, 3, 3), 4)
    conv("conv_dilation", "kernel_size: 3 pad: 2 dilation: 2", (1, 2, 7, 7), (3, 2, 3, 3), 3)
    conv("conv_rectangle", "kernel_h: 3 kernel_w: 2 pad_h: 1 pad_w: 0 stride_h: 2 stride_w: 1", (2, 2, 6, 5),
         (3, 2, 3, 2), 3)
    conv("conv_repeated_fields", "kernel_size: 2 kernel_size: 3 stride: 1 stride: 2 pad: 0 pad: 1", (1, 2, 5, 6),
         (3, 2, 2, 3), 3)
    conv("conv_no_bias", "kernel_size: 5 bias_term: false", (1, 2, 6, 6), (2, 2, 5, 5), 2)
    conv("conv_pad_over_kernel", "kernel_size: 2 pad: 2", (1, 1, 3, 3), (2, 1, 2, 2), 2)
    conv("deconv_stride", "kernel_size: 4 stride: 2 pad: 1", (2, 3, 3, 4), (3, 2, 4, 4), 2, True)
    conv("deconv_groups", "kernel_size: 3 stride: 2 group: 2 bias_term: false", (1, 4, 3, 3), (4, 3, 3, 3), 6, True)
    conv("deconv_dilation", "kernel_size: 2 dilation: 2", (1, 2, 3, 4), (2, 3, 2, 2), 3, True)
    conv("deconv_rectangle", "kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2", (1, 2, 4, 3), (2, 2, 2, 3), 2, True)


def poolings():
    settings = {
        "3x3_2": ("kernel_size: 3 stride: 2", (7, 7)),
        "ceil_overhang": ("kernel_size: 3 stride: 2", (6, 8)),
        "2x2_2_odd": ("kernel_size: 2 stride: 2", (5, 7)),
        "pad": ("kernel_size: 3 stride: 2 pad: 1", (7, 6)),
        "pad_drops_last": ("kernel_size: 2 stride: 2 pad: 1", (5, 6)),
        "same": ("kernel_size: 3 stride: 1 pad: 1", (4, 5)),
        "rectangle": ("kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 0 pad_w: 1", (5, 6)),
        "global": ("global_pooling: true", (4, 3)),
        "floor": ("kernel_size: 3 stride: 2 round_mode: FLOOR", (6, 8)),
        "5x5_3": ("kernel_size: 5 stride: 3", (14, 14)),
        "1x1_2_floor": ("kernel_size: 1 stride: 2 round_mode: FLOOR", (6, 6)),
    }
    for name, (fields, size) in settings.items():
        for method in ("MAX", "AVE"):
            case(f"pool_{method.lower()}_{name}", "Pooling", f"pooling_param {{ pool: {method} {fields} }}",
                 [(2, 2, *size)])
    case("pool_max_mask", "Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }", [(1, 2, 6, 5)],
         tops=2, silent_tops=[1])


def normalisations():
    case("lrn_across", "LRN", "lrn_param { local_size: 5 alpha: 0.5 beta: 0.75 }", [(2, 7, 3, 3)])
    case("lrn_across_k", "LRN", "lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 k: 2 }", [(1, 4, 2, 3)])
    case("lrn_wider_than_channels", "LRN", "lrn_param { local_size: 9 alpha: 1 }", [(1, 3, 2, 2)])
    case("lrn_alexnet", "LRN", "lrn_param { local_size: 5 alpha: 0.0001 beta: 0.75 }", [(1, 6, 3, 3)])
    case("lrn_within", "LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }",
         [(2, 2, 5, 4)])
    case("lrn_within_5", "LRN", "lrn_param { local_size: 5 alpha: 0.9 beta: 0.5 norm_region: WITHIN_CHANNEL }",
         [(1, 2, 6, 6)])
    fresh = [np.zeros(3), np.zeros(3), np.zeros(1)]
    kept = [values("bn/mean", (3,)), values("bn/variance", (3,), 0.5, 2.0), np.array([1.5])]
    case("bn_train_fresh", "BatchNorm", "", [(4, 3, 2, 3)], fresh)
    case("bn_train_kept", "BatchNorm", "batch_norm_param { moving_average_fraction: 0.9 eps: 0.001 }", [(2, 3, 3, 3)],
         kept)
    case("bn_test", "BatchNorm", "", [(2, 3, 2, 2)], kept, phase="TEST")
    case("bn_test_no_statistics", "BatchNorm", "batch_norm_param { eps: 0.01 }", [(2, 3, 2, 2)], fresh, phase="TEST")
    case("bn_global_in_train", "BatchNorm", "batch_norm_param { use_global_stats: true }", [(2, 3, 2, 2)], kept)
    case("bn_batch_in_test", "BatchNorm", "batch_norm_param { use_global_stats: false }", [(2, 3, 2, 2)], kept,
         phase="TEST")
    case("bn_two_axes", "BatchNorm", "", [(5, 3)], fresh)
    case("scale_channels", "Scale", "", [(2, 3, 2, 2)], [(3,)])
    case("scale_bias", "Scale", "scale_param { bias_term: true }", [(2, 3, 2, 2)], [(3,), (3,)])
    case("scale_axis0_two_axes", "Scale", "scale_param { axis: 0 num_axes: 2 }", [(2, 3, 2, 2)], [(2, 3)])
    case("scale_all_following", "Scale", "scale_param { axis: 1 num_axes: -1 bias_term: true }", [(2, 3, 2, 2)],
         [(3, 2, 2), (3, 2, 2)])
    case("scale_negative_axis", "Scale", "scale_param { axis: -1 }", [(2, 3, 2, 4)], [(4,)])
    case("scale_one_number", "Scale", "scale_param { num_axes: 0 }", [(2, 3, 2)], [()])
    case("scale_two_bottoms", "Scale", "scale_param { axis: 0 }", [(2, 3, 2, 2), (2, 3)])
    case("scale_two_bottoms_bias", "Scale", "scale_param { axis: 1 bias_term: true }", [(2, 3, 2, 2), (3,)], [(3,)])
    case("bias_channels", "Bias", "", [(2, 3, 2, 2)], [(3,)])
    case("bias_axis2", "Bias", "bias_param { axis: 2 num_axes: 2 }", [(2, 3, 2, 2)], [(2, 2)])
    case("bias_two_bottoms", "Bias", "bias_param { axis: 0 }", [(2, 3, 2), (2, 3)])


def joins():
    three = [(2, 2, 2, 3)] * 3
    case("eltwise_sum", "Eltwise", "", three[:2])
    case("eltwise_sum_coeff", "Eltwise", "eltwise_param { operation: SUM coeff: 1 coeff: -2 coeff: 0.5 }", three)
    case("eltwise_prod", "Eltwise", "eltwise_param { operation: PROD }", three)
    case("eltwise_max", "Eltwise", "eltwise_param { operation: MAX }", three)
    case("concat_channels", "Concat", "", [(2, 1, 2, 2), (2, 3, 2, 2), (2, 2, 2, 2)])
    case("concat_axis0", "Concat", "concat_param { axis: 0 }", [(1, 2, 2), (3, 2, 2)])
    case("concat_last", "Concat", "concat_param { axis: -1 }", [(2, 2, 1), (2, 2, 3)])
    case("slice_equal", "Slice", "", [(2, 6, 2, 2)], tops=3)
    case("slice_points", "Slice", "slice_param { axis: 1 slice_point: 1 slice_point: 4 }", [(2, 6, 2, 2)], tops=3)
    case("slice_axis0", "Slice", "slice_param { axis: 0 slice_point: 1 }", [(3, 2, 2)], tops=2)
    case("split_three", "Split", "", [(2, 3, 2)], tops=3)
    case("flatten", "Flatten", "", [(2, 3, 2, 2)])
    case("flatten_part", "Flatten", "flatten_param { axis: 1 end_axis: 2 }", [(2, 3, 2, 2)])
    case("reshape", "Reshape", "reshape_param { shape { dim: 0 dim: 2 dim: -1 } }", [(2, 3, 4)])
    case("reshape_axes", "Reshape", "reshape_param { shape { dim: 4 } axis: 1 num_axes: 2 }", [(2, 2, 2, 3)])
    case("reshape_inserts_axis", "Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", [(2, 3)])
    case("ip", "InnerProduct", "inner_product_param { num_output: 4 }", [(3, 2, 2, 2)], [(4, 8), (4,)])
    case("ip_no_bias", "InnerProduct", "inner_product_param { num_output: 4 bias_term: false }", [(3, 5)], [(4, 5)])
    case("ip_axis2", "InnerProduct", "inner_product_param { num_output: 3 axis: 2 }", [(2, 3, 2, 2)], [(3, 4), (3,)])
    case("ip_negative_axis", "InnerProduct", "inner_product_param { num_output: 3 axis: -1 }", [(2, 3, 4)],
         [(3, 4), (3,)])
    case("ip_transpose", "InnerProduct", "inner_product_param { num_output: 4 transpose: true }", [(3, 6)],
         [(6, 4), (4,)])


def activations():
    shape = [(2, 3, 2, 2)]
    case("relu", "ReLU", "", shape)
    case("relu_slope", "ReLU", "relu_param { negative_slope: 0.1 }", shape)
    case("prelu", "PReLU", "", shape, [(3,)])
    case("prelu_shared", "PReLU", "prelu_param { channel_shared: true }", shape, [()])
    case("elu", "ELU", "elu_param { alpha: 0.7 }", shape)
    case("sigmoid", "Sigmoid", "", shape, low=-6)
    case("tanh", "TanH", "", shape, low=-3)
    case("bnll", "BNLL", "", shape, low=-4)
    case("absval", "AbsVal", "", shape)
    case("power", "Power", "power_param { power: 2 scale: 3 shift: 0.5 }", shape)
    case("power_root", "Power", "power_param { power: 0.5 scale: 1 shift: 2 }", shape)
    case("power_linear", "Power", "power_param { scale: -2 shift: 1 }", shape)
    case("power_zero_scale", "Power", "power_param { scale: 0 }", shape)
    case("exp", "Exp", "exp_param { scale: 0.5 shift: 0.1 }", shape)
    case("exp_base", "Exp", "exp_param { base: 2 scale: 2 }", shape)
    case("log", "Log", "log_param { shift: 3 }", shape)
    case("log_base", "Log", "log_param { base: 10 scale: 2 shift: 4 }", shape)
    case("clip", "Clip", "clip_param { min: -0.5 max: 0.3 }", shape)
    case("swish", "Swish", "swish_param { beta: 1.5 }", shape, low=-4)
    case("threshold", "Threshold", "threshold_param { threshold: 0.2 }", shape, no_gradient=[0], silent_tops=[0])
    case("softmax", "Softmax", "", [(2, 4, 2, 2)], low=-3)
    case("softmax_axis0", "Softmax", "softmax_param { axis: 0 }", [(4, 3)], low=-3)
    case("softmax_last", "Softmax", "softmax_param { axis: -1 }", [(2, 3, 4)], low=-3)
    case("dropout_test", "Dropout", "dropout_param { dropout_ratio: 0.3 }", shape, phase="TEST")
    case("dropout_zero", "Dropout", "dropout_param { dropout_ratio: 0 }", shape)


def losses():
    def softmax(name, fields, shape, label, low=-3):
        case("softmax_loss_" + name, "SoftmaxWithLoss", fields, [shape, label], no_gradient=[1], low=low)

    plain, spatial = labels("l0", (4,), 5), labels("l1", (2, 3, 2), 4)
    ignored = labels("l2", (2, 3, 2), 4, 255)
    softmax("plain", "", (4, 5), plain)
    softmax("spatial", "", (2, 4, 3, 2), spatial)
    softmax("label_with_channel", "", (2, 4, 3, 2), spatial.reshape(2, 1, 3, 2))
    softmax("axis2", "softmax_param { axis: 2 }", (2, 2, 3), labels("l3", (2, 2), 3))
    for mode in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        softmax("ignore_" + mode.lower(), f"loss_param {{ ignore_label: 255 normalization: {mode} }}", (2, 4, 3, 2),
                ignored)
    softmax("ignore_default", "loss_param { ignore_label: 255 }", (2, 4, 3, 2), ignored)
    softmax("all_ignored", "loss_param { ignore_label: 3 }", (2, 4), np.array([3.0, 3.0]))
    softmax("normalize_false", "loss_param { normalize: false }", (2, 4, 3, 2), spatial)
    softmax("normalize_true", "loss_param { normalize: true ignore_label: 255 }", (2, 4, 3, 2), ignored)
    softmax("clipped", "", np.array([[200.0, -200.0, 0.0], [1.0, 2.0, 3.0]]), np.array([1.0, 0.0]))
    case("softmax_loss_two_tops", "SoftmaxWithLoss", "loss_weight: 1 loss_weight: 0", [(4, 5), plain],
         no_gradient=[1], tops=2, silent_tops=[1], low=-3)

    target = np.round(moka_random.named_units("targets", (3, 4)))
    soft = values("soft", (3, 4), 0, 1)
    masked = target.copy()
    masked[0, 1] = masked[2, 3] = masked[1, 0] = -1
    case("sigmoid_loss", "SigmoidCrossEntropyLoss", "", [(3, 4), target], no_gradient=[1], low=-4)
    case("sigmoid_loss_soft", "SigmoidCrossEntropyLoss", "", [(3, 4), soft], no_gradient=[1], low=-4)
    for mode in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        case(f"sigmoid_loss_ignore_{mode.lower()}", "SigmoidCrossEntropyLoss",
             f"loss_param {{ ignore_label: -1 normalization: {mode} }}", [(3, 4), masked], no_gradient=[1], low=-4)
    case("sigmoid_loss_large", "SigmoidCrossEntropyLoss", "",
         [np.array([[90.0, -90.0, 40.0]]), np.array([[0.0, 1.0, 1.0]])], no_gradient=[1])
    case("euclidean_loss", "EuclideanLoss", "", [(3, 2, 2), (3, 2, 2)])

    score = [values("accuracy/x", (6, 5))]
    tied = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0], [3.0, 3.0, 3.0]])
    quiet = dict(no_gradient=[0, 1], silent_tops=[0, 1])
    chosen = labels("l4", (6,), 5)
    case("accuracy_top1", "Accuracy", "", score + [chosen], **quiet)
    case("accuracy_top3", "Accuracy", "accuracy_param { top_k: 3 }", score + [chosen], **quiet)
    case("accuracy_ties", "Accuracy", "", [tied, np.array([0.0, 1.0, 2.0])], **quiet)
    case("accuracy_ties_top2", "Accuracy", "accuracy_param { top_k: 2 }", [tied, np.array([0.0, 1.0, 2.0])], **quiet)
    case("accuracy_ignore", "Accuracy", "accuracy_param { ignore_label: 255 }", [(2, 4, 3, 2), ignored], **quiet)
    case("accuracy_per_class", "Accuracy", "", score + [chosen], tops=2, **quiet)
    case("argmax", "ArgMax", "", [(2, 3, 2, 2)], no_gradient=[0], silent_tops=[0])
    case("argmax_values", "ArgMax", "argmax_param { out_max_val: true top_k: 2 }", [(2, 6)], no_gradient=[0],
         silent_tops=[0])
    case("argmax_axis", "ArgMax", "argmax_param { axis: 1 }", [(2, 3, 2, 2)], no_gradient=[0], silent_tops=[0])


def main():
    torch.set_num_threads(1)
    for group in (convolutions, poolings, normalisations, joins, activations, losses):
        group()
    names = [entry["name"] for entry in CASES]
    assert len(set(names)) == len(names)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers.json")
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
