"""Records FlowNet's layers on small inputs in float64, from their definitions, in PyTorch and plain loops.

Usage: python3 make_flow_goldens.py      writes layers_flow.json (the format of make_layer_goldens.py)
"""

import json
import math
import os

import numpy as np
import torch
import torch.nn.functional as F

import make_sequence_goldens as sequence
from make_layer_goldens import exact, rounded, values
from make_sequence_goldens import CASES, case


# Correlation ---------------------------------------------------------------------------------------------------------


def correlate(a, b, kernel, reach, stride, step, pad, subtract=False, one_axis=False, direction=0):
    """Every place and displacement in turn, on padded maps with more zeros around than can be reached."""
    more = reach + step + kernel
    sides = (pad + more, pad + more, more if one_axis else pad + more, more if one_axis else pad + more)
    wide_a, wide_b = F.pad(a, sides), F.pad(b, sides)
    half, radius = kernel // 2, reach // step
    across = range(-radius, radius + 1)
    if direction:
        across = range(0, radius + 1) if direction > 0 else range(-radius - 1, 0)
    down = [0] if one_axis else across
    height, width = a.shape[2] + (0 if one_axis else 2 * pad), a.shape[3] + 2 * pad
    rows = range(0, height - 2 * (half if one_axis else reach + half), stride)
    columns = range(0, width - 2 * (reach + half), stride)
    maps = []
    for p in down:
        for o in across:
            pixels = []
            for i in rows:
                for j in columns:
                    y, x = more + i + (0 if one_axis else reach), more + j + reach
                    v, u = y + p * step, x + o * step
                    one = wide_a[:, :, y:y + kernel, x:x + kernel]
                    other = wide_b[:, :, v:v + kernel, u:u + kernel]
                    pixels.append((torch.abs(one - other) if subtract else one * other).mean((1, 2, 3)))
            maps.append(torch.stack(pixels, 1).reshape(-1, len(rows), len(columns)))
    return torch.stack(maps, 1)


def correlations():
    def record(name, fields, shape, *arguments, kind="Correlation", **more):
        case(name, kind, f"correlation_param {{ {fields} }}", [shape, shape], [],
             lambda x, w: [correlate(x[0], x[1], *arguments, **more)])

    record("correlation", "pad: 2 kernel_size: 1 max_displacement: 2", (2, 3, 4, 5), 1, 2, 1, 1, 2)
    record("correlation_patches", "pad: 3 kernel_size: 3 max_displacement: 3 stride_1: 2 stride_2: 2", (1, 2, 7, 6),
           3, 3, 2, 2, 3)
    record("correlation_inside", "kernel_size: 1 max_displacement: 1 correlation_type: SUBTRACT", (1, 2, 4, 5),
           1, 1, 1, 1, 0, subtract=True)
    fields = "pad: 3 kernel_size: 1 max_displacement: 3"
    record("correlation_row", fields + " stride_2: 2", (2, 3, 3, 5), 1, 3, 1, 2, 3, kind="Correlation1D", one_axis=True)
    record("correlation_left", fields + " single_direction: -1", (1, 3, 2, 5), 1, 3, 1, 1, 3, kind="Correlation1D",
           one_axis=True, direction=-1)
    record("correlation_right", "pad: 2 kernel_size: 3 max_displacement: 2 single_direction: 1 stride_1: 2",
           (1, 2, 5, 6), 3, 2, 2, 1, 2, kind="Correlation1D", one_axis=True, direction=1)


# Resizing ------------------------------------------------------------------------------------------------------------


def cubic(x):
    x = abs(x)
    if x <= 1:
        return 1.5 * x**3 - 2.5 * x**2 + 1
    return -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2 if x < 2 else 0.0


def triangle(x):
    return max(0.0, 1 - abs(x))


def half_away(x):
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def resample(x, height, width, kind, antialias):
    x = x.detach().numpy()
    fx, fy = x.shape[3] / width, x.shape[2] / height
    wide = antialias and (fx > 1 or fy > 1)
    top = np.zeros((*x.shape[:2], height, width))
    for i in range(height):
        for j in range(width):
            u, v = j * fx + fy / 2 - 0.5, i * fy + fx / 2 - 0.5
            if kind == "NEAREST":
                row = min(max(half_away(v), 0), x.shape[2] - 1)
                top[:, :, i, j] = x[:, :, row, min(max(half_away(u), 0), x.shape[3] - 1)]
                continue
            rule, reach = (cubic, 4) if kind == "CUBIC" else (triangle, 2)
            ax, ay = (1 / fx, 1 / fy) if wide else (1.0, 1.0)
            rx = 2 if fx < 1 else math.ceil(reach / ax)
            ry = 2 if fy < 1 else math.ceil(reach / ay)
            total, weights = 0, 0
            for r in range(half_away(v) - ry, half_away(v) + ry + 1):
                for c in range(half_away(u) - rx, half_away(u) + rx + 1):
                    if 0 <= r < x.shape[2] and 0 <= c < x.shape[3]:
                        w = rule(ax * (u - c)) * rule(ay * (v - r))
                        total, weights = total + w * x[:, :, r, c], weights + w
            top[:, :, i, j] = total / weights if weights else 0
    return torch.tensor(top)


def means(x, height, width):
    x = x.detach().numpy()
    sy, sx = (x.shape[2] - 1) / (height - 1), (x.shape[3] - 1) / (width - 1)
    top = np.zeros((*x.shape[:2], height, width))
    for i in range(height):
        for j in range(width):
            weight = np.array([[triangle((r - i * sy) / sy) * triangle((c - j * sx) / sx) for c in range(x.shape[3])]
                               for r in range(x.shape[2])])
            top[:, :, i, j] = (x * weight).sum((2, 3)) / weight.sum()
    return torch.tensor(top)


def resizing():
    def record(name, fields, shape, height, width, kind="LINEAR", antialias=True):
        case(name, "Resample", f"resample_param {{ {fields} }}", [shape], [],
             lambda x, w: [resample(x[0], height, width, kind, antialias)], no_gradient=(0,))

    record("resample_smaller", "height: 2 width: 3", (2, 2, 5, 7), 2, 3)
    record("resample_larger", "height: 8 width: 12 type: LINEAR", (1, 2, 2, 3), 8, 12)
    record("resample_cubic", "height: 3 width: 4 type: CUBIC", (1, 2, 7, 6), 3, 4, "CUBIC")
    record("resample_cubic_narrow", "height: 3 width: 9 type: CUBIC antialias: false", (1, 2, 7, 6), 3, 9,
           "CUBIC", False)
    record("resample_nearest", "height: 3 width: 8 type: NEAREST", (1, 2, 5, 6), 3, 8, "NEAREST")
    case("resample_like", "Resample", "", [(1, 2, 5, 6), (1, 1, 4, 3)], [],
         lambda x, w: [resample(x[0], 4, 3, "LINEAR", True)], no_gradient=(0, 1))
    case("downsample", "Downsample", "downsample_param { top_height: 3 top_width: 2 }", [(2, 2, 6, 5)], [],
         lambda x, w: [means(x[0], 3, 2)], no_gradient=(0,))
    case("downsample_like", "Downsample", "", [(1, 2, 7, 5), (1, 1, 3, 4)], [], lambda x, w: [means(x[0], 3, 4)],
         no_gradient=(0, 1))

    def accum(x, height, width):
        return [torch.cat([F.interpolate(t, (height, width), mode="bilinear", align_corners=True) for t in x], 1)]

    case("accum", "Accum", "", [(2, 1, 3, 6), (2, 2, 5, 4)], [], lambda x, w: accum(x, 5, 6))
    case("accum_divisible", "Accum", "accum_param { size_divisible_by: 4 }", [(1, 2, 5, 6)], [],
         lambda x, w: accum(x, 8, 8))
    # Only a size above the largest in both directions is taken.
    case("accum_one_side", "Accum", "accum_param { top_height: 9 top_width: 6 }", [(1, 2, 5, 6)], [],
         lambda x, w: accum(x, 5, 6))
    case("accum_reference", "Accum", "accum_param { have_reference: true }", [(1, 2, 5, 6), (1, 1, 3, 4)], [],
         lambda x, w: accum(x[:1], 3, 4), no_gradient=(1,))


# Others --------------------------------------------------------------------------------------------------------------


def others():
    case("channel_norm", "ChannelNorm", "", [(2, 3, 2, 4)], [], lambda x, w: [x[0].norm(dim=1, keepdim=True)])
    shift = torch.tensor([0.5, -0.25]).repeat(2).reshape(1, 4, 1, 1)
    case("mean_subtract", "Mean",
         "mean_param { operation: SUBTRACT value: 0.5 value: -0.25 mean_scale: 2 input_scale: 4 output_scale: 0.5 }",
         [(2, 4, 2, 3)], [], lambda x, w: [0.5 * (4 * x[0] - 2 * shift)])
    case("mean_add", "Mean", "mean_param { operation: ADD value: 0.75 }", [(1, 3, 2, 2)], [],
         lambda x, w: [x[0] + 0.75])


def losses():
    def record(name, fields, shapes, function):
        arrays = [values(f"{name}/bottom{i}", s, -2, 2) for i, s in enumerate(shapes)]
        bottoms = [torch.tensor(a, requires_grad=True) for a in arrays]
        d = bottoms[0] - bottoms[1] if len(bottoms) == 2 else bottoms[0]
        loss = function(d)
        loss.backward()
        text = f'layer {{ name: "{name}" type: "L1Loss" ' + "".join(f'bottom: "x{i}" ' for i in range(len(bottoms)))
        CASES.append({
            "name": name, "layer": text + f'top: "y0" {fields} }}', "phase": "TRAIN", "params": [],
            "bottoms": [{"shape": list(b.shape), "data": exact(b.detach()), "gradient": rounded(b.grad)}
                        for b in bottoms],
            "tops": [{"shape": [], "data": rounded(loss.detach()), "weight": [1.0]}]})

    two = [(2, 3, 2, 4), (2, 3, 2, 4)]
    record("l1_one", "", [(3, 4)], lambda d: d.abs().sum() / 3)
    record("l1_plateau", "l1_loss_param { plateau: 0.75 }", two, lambda d: (d.abs() * (d.abs() >= 0.75)).sum() / 2)
    record("l1_entries", "l1_loss_param { normalize_by_num_entries: true }", two, lambda d: d.abs().sum() / (48 / 3))
    small = float(np.float32(0.01))
    record("l1_lengths", "l1_loss_param { l2_per_location: true }", two,
           lambda d: torch.sqrt((d * d).sum(1) + small).sum() / 2)

    def flat(d):
        s = (d * d).sum(1) / 3
        return torch.sqrt(s * (s >= 2.25) + 0.25).sum() / 2

    record("l1_lengths_plateau",
           "l1_loss_param { l2_per_location: true l2_prescale_by_channels: true epsilon: 0.25 plateau: 1.5 }", two,
           flat)


def main():
    sequence.CASES.clear()
    for record in (correlations, resizing, others, losses):
        record()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_flow.json")
    with open(path, "w", encoding="utf-8") as out:
        out.write('{"cases": [\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
