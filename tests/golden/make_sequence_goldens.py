"""Records layers of sequences, video and random fields on small inputs in float64.

Usage: python3 make_sequence_goldens.py      writes layers_sequence.json, in the format of make_layer_goldens.py

The references: torch.nn.functional.ctc_loss; for paths that are not merged, a sum over every path; the best path and
the edit distance by their definitions; torch's conv2d in a loop for ConvLSTM; torch's batch_norm for dense blocks;
grid_sample for warping; for mean-field inference exact Gaussian sums, which the lattice only comes near to: those cases
say so with a tolerance.
"""

import itertools
import json
import os

import numpy as np
import torch
import torch.nn.functional as F

from make_layer_goldens import exact, rounded, values

CASES = []


def array_of(stream, given):
    return np.asarray(given, dtype=np.float64) if not isinstance(given, tuple) else values(stream, given)


def case(name, kind, fields, bottoms, params, function, no_gradient=(), fixed_params=(), phase="TRAIN", loss=None,
         after=None):
    """function(bottoms, params) -> tops. no_gradient, fixed_params: indices that get none. `loss`: what is
    differentiated, if it is not the weighted sum of the tops: loss(bottoms, params, weights). after: {parameter: its
    value after the run}, filled by `function`."""
    x = [torch.tensor(array_of(f"{name}/bottom{i}", b), requires_grad=i not in no_gradient)
         for i, b in enumerate(bottoms)]
    w = [torch.tensor(array_of(f"{name}/param{i}", p), requires_grad=i not in fixed_params)
         for i, p in enumerate(params)]
    tops = function(x, w)
    text = f'layer {{ name: "{name}" type: "{kind}" '
    text += "".join(f'bottom: "x{i}" ' for i in range(len(x)))
    text += "".join(f'top: "y{i}" ' for i in range(len(tops))) + fields + " }"
    entry = {"name": name, "layer": text, "phase": phase, "bottoms": [], "params": [], "tops": []}
    weights = []
    for i, y in enumerate(tops):
        top = {"shape": list(y.shape), "data": rounded(y.detach())}
        if y.requires_grad or loss is not None:
            weights.append(torch.tensor(values(f"{name}/weight{i}", y.shape)))
            top["weight"] = exact(weights[-1])
        entry["tops"].append(top)
    if weights:
        total = loss(x, w, weights) if loss else sum((y * k).sum() for y, k in zip(tops, weights))
        total.backward()
    for rows, tensors in (("bottoms", x), ("params", w)):
        for tensor in tensors:
            row = {"shape": list(tensor.shape), "data": exact(tensor.detach())}
            if tensor.requires_grad and weights:
                row["gradient"] = rounded(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)
            entry[rows].append(row)
    for i, value in (after or {}).items():
        entry["params"][i]["after"] = rounded(value.detach())
    CASES.append(entry)


# ---- Connectionist temporal classification ---------------------------------------------------------------------------


def ctc(x, targets, lengths, blank):
    """Losses [N] by PyTorch; targets: a list of lists."""
    longest = max(1, max(len(t) for t in targets))
    padded = torch.zeros(len(targets), longest, dtype=torch.long)
    for n, target in enumerate(targets):
        padded[n, : len(target)] = torch.tensor(target, dtype=torch.long)
    losses = F.ctc_loss(F.log_softmax(x, dim=2), padded, torch.tensor(lengths), torch.tensor([len(t) for t in targets]),
                        blank=blank, reduction="none", zero_infinity=True)
    return losses


def ctc_unmerged(x, targets, lengths, blank):
    """Every step that is no blank is a label: the sum over all placements of the labels."""
    p = F.log_softmax(x, dim=2)
    losses = []
    for n, target in enumerate(targets):
        paths = []
        for steps in itertools.combinations(range(lengths[n]), len(target)):
            path = [blank] * lengths[n]
            for step, label in zip(steps, target):
                path[step] = label
            paths.append(sum(p[t, n, c] for t, c in enumerate(path)))
        losses.append(-torch.logsumexp(torch.stack(paths), 0) if paths else x.sum() * 0)
    return torch.stack(losses)


def ctc_case(name, kind, fields, scores, bottoms, losses):
    """The top is the mean of the losses, the gradient that of their sum."""
    case(name, kind, fields, [scores] + bottoms, [], lambda x, w: [losses(x[0]).mean().reshape(())],
         no_gradient=range(1, 1 + len(bottoms)), loss=lambda x, w, k: losses(x[0]).sum() * k[0])


def ctc_losses():
    rows = np.array([[1, 2, 3, 0], [2, 2, 0, 0], [0, 0, 0, 0], [4, 0, 1, 4]])
    targets = [[1, 2, 3], [2, 2], [], [4, 1, 4]]
    ctc_case("ctc_warp", "CtcLoss", "ctc_loss_param { alphabet_size: 5 time_step: 7 }", (7, 4, 5), [rows],
             lambda x: ctc(x, targets, [7] * 4, 0))
    ctc_case("ctc_warp_named", "CtcLoss", "warpctc_loss_param { blank_label: 2 }", (6, 2, 3),
             [np.array([[0, 0, 1], [1, 2, 2]])], lambda x: ctc(x, [[0, 0, 1], [1]], [6, 6], 2))
    ctc_case("ctc_warp_too_long", "CtcLoss", "", (4, 3, 3), [np.array([[1, 1, 1], [1, 1, 2], [1, 2, 1]])],
             lambda x: ctc(x, [[1, 1, 1], [1, 1, 2], [1, 2, 1]], [4] * 3, 0))
    ctc_case("ctc_ocr", "WarpCTCLoss", "ctc_loss_param { blank_index: -1 }", (5, 2, 4),
             [np.array([[0, 1, 3], [2, 2, 3]]).reshape(2, 3, 1, 1)], lambda x: ctc(x, [[0, 1], [2, 2]], [5, 5], 3))
    marks = np.ones((6, 3))
    marks[0] = 0
    marks[4:, 1] = 0
    labels = np.full((6, 3), -1.0)
    labels[:3, 0] = [0, 1, 1]
    labels[:2, 1] = [2, 0]
    targets = [[0, 1, 1], [2, 0], []]
    lengths = [6, 4, 6]
    silent = torch.tensor([1.0, 1.0, 0.0])
    ctc_case("ctc", "CTCLoss", "", (6, 3, 4), [marks, labels], lambda x: ctc(x, targets, lengths, 3) * silent)
    ctc_case("ctc_collapsed", "CTCLoss", "ctc_loss_param { preprocess_collapse_repeated: true }", (6, 3, 4),
             [marks, labels], lambda x: ctc(x, [[0, 1], [2, 0], []], lengths, 3) * silent)
    ctc_case("ctc_delayed", "CTCLoss", "ctc_loss_param { output_delay: 1 blank_index: 3 }", (6, 3, 4), [marks, labels],
             lambda x: ctc(x[1:], targets, [5, 3, 5], 3) * silent)
    ctc_case("ctc_unmerged", "CTCLoss", "ctc_loss_param { ctc_merge_repeated: false }", (6, 3, 4), [marks, labels],
             lambda x: ctc_unmerged(x, targets, lengths, 3) * silent)
    ctc_case("ctc_ocr_marks", "WarpCTCLoss", "", (6, 3, 4), [marks, labels],
             lambda x: ctc(x, [[k + 1 for k in t] for t in targets], lengths, 0) * silent)
    ctc_case("ctc_ocr_lengths", "WarpCTCLoss", "", (6, 3, 4), [np.array([6, 5, 3]), np.array([2, 0, 1]),
             np.array([[1, 1, 3], [2, 1, 1]])], lambda x: ctc(x, [[1, 2], [], [3]], [6, 5, 3], 0))


def best(column, blank, merges=True):
    path = [int(k) for k in column.argmax(axis=1)]
    return [c for t, c in enumerate(path) if c != blank and not (merges and t > 0 and path[t - 1] == c)]


def edits(a, b):
    """By recursion over the last labels."""
    if not a or not b:
        return len(a) + len(b)
    return min(edits(a[:-1], b) + 1, edits(a, b[:-1]) + 1, edits(a[:-1], b[:-1]) + (a[-1] != b[-1]))


def decoders():
    steps, n, classes = 7, 3, 3
    x = values("ctc_decode/x", (steps, n, classes))
    marks = np.ones((steps, n))
    marks[0] = 0
    marks[5:, 1] = 0
    lengths = [7, 5, 7]
    everything = range(4)

    def padded(rows):
        return torch.tensor([row + [-1] * (steps - len(row)) for row in rows], dtype=torch.float64).reshape(n, steps, 1, 1)

    last = [best(x[: lengths[i], i], classes - 1) for i in range(n)]
    score = torch.tensor([-x[: lengths[i], i].max(axis=1).sum() for i in range(n)]).reshape(n, 1, 1, 1)
    case("decoder_marks", "CTCGreedyDecoder", "", [x, marks], [], lambda *_: [padded(last), score], everything)
    labels = np.full((steps, n), -1.0)
    labels[:2, 0] = [1, 0]
    labels[:1, 1] = [0]
    rows = [[1, 0], [0], []]
    apart = [edits(a, b) / max(len(a), len(b), 1) for a, b in zip(last, rows)]
    accuracy = torch.tensor([1 - sum(apart) / n]).double().reshape(1, 1, 1, 1)
    case("decoder_accuracy", "CTCGreedyDecoder", "", [x, marks, labels], [],
         lambda *_: [padded(last), score, accuracy], everything)
    first = [best(x[:, i], 0, False) for i in range(n)]
    case("decoder_alone", "CTCGreedyDecoder", "ctc_decoder_param { ctc_merge_repeated: false }", [x], [],
         lambda *_: [padded(first)], everything)
    merged = [best(x[:, i], 0) for i in range(n)]
    wanted = [merged[0], [1], []]
    table = np.zeros((n, 6))
    for i, row in enumerate(wanted):
        table[i, : len(row)] = row
    apart = [edits(a, b) / max(len(a), len(b), 1) for a, b in zip(merged, wanted)]
    right = sum(a == b and len(a) > 0 for a, b in zip(merged, wanted)) / n
    both = torch.tensor([1 - sum(apart) / n, right]).double().reshape(1, 2, 1, 1)
    case("decoder_labels", "CTCGreedyDecoder", "", [x, table], [], lambda *_: [both], everything)
    right = sum(a == b for a, b in zip(merged, wanted)) / n
    case("sequence_accuracy", "LabelsequenceAccuracy", "", [x.transpose(1, 0, 2).copy(), table], [],
         lambda *_: [torch.tensor(right).double()], everything)


# ---- Time --------------------------------------------------------------------------------------------------------------


def time_layers():
    case("reverse", "Reverse", "", [(4, 2, 3)], [], lambda x, w: [torch.flip(x[0], [0])])
    case("reverse_axis", "Reverse", "reverse_param { axis: 1 }", [(4, 2, 3)], [], lambda x, w: [torch.flip(x[0], [1])])
    lengths = [4, 2, 0]

    def turned(x, copies):
        columns = []
        for n, length in enumerate(lengths):
            rest = x[length:, n]
            columns.append(torch.cat([torch.flip(x[:length, n], [0]), rest if copies else rest * 0]))
        return torch.stack(columns, 1)

    for copies in (False, True):
        name = "reverse_time_copied" if copies else "reverse_time"
        case(name, "ReverseTime", f"reverse_time_param {{ copy_remaining: {str(copies).lower()} }}",
             [(4, 3, 2), np.array(lengths)], [], lambda x, w, c=copies: [turned(x[0], c)], no_gradient=[1])
    case("transpose", "Transpose", "transpose_param { dim: 3 dim: 0 dim: 1 dim: 2 }", [(2, 3, 1, 4)], [],
         lambda x, w: [x[0].permute(3, 0, 1, 2)])
    case("indicator", "ContinuationIndicator", "continuation_indicator_param { time_step: 3 batch_size: 2 }", [], [],
         lambda x, w: [torch.tensor([[0.0, 0], [1, 1], [1, 1]]).double()])
    case("gather", "Gather", "", [(2, 3)], [], lambda x, w: [x[0] * 1])


# ---- Convolutional LSTM ------------------------------------------------------------------------------------------------


def conv_lstm(x, marks, h, c, w_x, w_h, bias, peepholes, bend, pad, dilation=1):
    outputs = []
    for t in range(marks.shape[0]):
        m = marks[t].reshape(-1, 1, 1, 1)
        gates = F.conv2d(m * h, w_h, bias, padding=pad, dilation=dilation)
        if w_x is not None:
            gates = gates + F.conv2d(x[t], w_x, padding=pad, dilation=dilation)
        i, f, o, g = torch.chunk(gates, 4, dim=1)
        if peepholes:
            i, f, o = (gate + p * c for gate, p in zip((i, f, o), peepholes))
        c = m * torch.sigmoid(f) * c + torch.sigmoid(i) * bend(g)
        h = torch.sigmoid(o) * bend(c)
        outputs.append(h)
    return torch.stack(outputs), h[None], c[None]


def conv_lstms():
    steps, n, d, height, width, k = 3, 2, 2, 4, 3, 2
    marks = np.ones((steps, n))
    marks[0] = 0
    marks[2, 1] = 0
    fields = "lstm_conv_param { num_output: 2 kernel_size: 3 pad: 1 }"
    shapes = [(4 * k, d, 3, 3), (4 * k, k, 3, 3), (4 * k,)] + [(height, width)] * 3
    zero = torch.zeros(n, k, height, width, dtype=torch.float64)
    for kind, bend in (("ConvLSTM", torch.tanh), ("ConvLSTMReLU", torch.relu)):
        case(kind.lower(), kind, fields, [(steps, n, d, height, width), marks], shapes,
             lambda x, w, bend=bend: [conv_lstm(x[0], x[1], zero, zero, w[0], w[1], w[2], w[3:], bend, 1)[0]], [1])
    exposed = fields + " recurrent_param { expose_hidden: true } lstm_debug_param { ignore_x: true }"
    case("conv_lstm_decoder", "ConvLSTM", exposed, [(steps, n, d, height, width), marks * 0 + 1,
                                                     (1, n, k, height, width), (1, n, k, height, width)], shapes[1:],
         lambda x, w: list(conv_lstm(None, x[1], x[2][0], x[3][0], None, w[0], w[1], w[2:], torch.tanh, 1)), [0, 1])
    two = ('lstm_conv_param { num_output: 2 kernel_size: 3 pad: 2 dilation: 2 type: "hidden" bias_term: false } '
           'lstm_conv_param { num_output: 2 kernel_size: 3 pad: 2 dilation: 2 type: "input" } '
           "lstm_debug_param { disable_hadamard: true }")
    case("conv_lstm_two", "ConvLSTM", two, [(steps, n, d, height, width), marks], shapes[:2],
         lambda x, w: [conv_lstm(x[0], x[1], zero, zero, w[0], w[1], None, [], torch.tanh, 2, 2)[0]], [1])


# ---- Dense blocks, winners, warping ------------------------------------------------------------------------------------


def dense_blocks():
    n, channels, growth, transitions = 2, 3, 2, 2

    def block(x, w, training, middle, after):
        count = transitions
        kinds = lambda kind, i: w[kind * count + i]
        factor = w[-1]

        def norm(x, i, kind):
            g, s, mean, variance = (kinds(kind + j, i).reshape(-1) for j in range(4))
            if not training:
                return torch.relu(F.batch_norm(x, mean / factor, variance / factor, g, s, False, 0, 1e-5))
            after[(kind + 2) * count + i] = 0.25 * mean + x.mean((0, 2, 3))
            after[(kind + 3) * count + i] = 0.25 * variance + x.var((0, 2, 3), unbiased=False)
            after[len(w) - 1] = 0.25 * factor + 1
            return torch.relu(F.batch_norm(x, None, None, g, s, True, 0, 1e-5))

        for i in range(count):
            y = norm(x, i, 1)
            if middle:
                y = norm(F.conv2d(y, kinds(5, i)), i, 6)
            x = torch.cat([x, F.conv2d(y, kinds(0, i), padding=1)], 1)
        return [x]

    def shapes(middle):
        inputs = [channels + i * growth for i in range(transitions)]
        read = [4 * growth] * transitions if middle else inputs
        found = [(growth, c, 3, 3) for c in read]
        for _ in range(4):
            found += [(1, c, 1, 1) for c in inputs]
        if middle:
            found += [(4 * growth, c, 1, 1) for c in inputs]
            for _ in range(4):
                found += [(1, 4 * growth, 1, 1)] * transitions
        return found + [(1,)]

    for phase in ("TRAIN", "TEST"):
        for middle in (False, True):
            name = f"dense_block{'_bc' if middle else ''}_{phase.lower()}"
            params = []
            fixed = []
            for i, shape in enumerate(shapes(middle)):
                kind = i // transitions
                is_statistic = kind in (3, 4, 8, 9) or i == len(shapes(middle)) - 1
                low = 0.5 if is_statistic else -1
                params.append(values(f"{name}/p{i}", shape, low, 1))
                if is_statistic:
                    fixed.append(i)
            fields = (f"denseblock_param {{ numTransition: 2 growthRate: 2 use_BC: {str(middle).lower()} "
                      "moving_average_fraction: 0.25 }")
            after = {}
            case(name, "DenseBlock", fields, [(n, channels, 3, 4)], params,
                 lambda x, w, p=phase, m=middle, a=after: block(x[0], w, p == "TRAIN", m, a), fixed_params=fixed,
                 phase=phase, after=after)


def winners(x, kernel, stride):
    mask = torch.zeros_like(x)
    n, c, height, width = x.shape
    for plane in itertools.product(range(n), range(c)):
        for top in range(0, height - kernel[0] + 1, stride[0]):
            for left in range(0, width - kernel[1] + 1, stride[1]):
                window = x[plane][top : top + kernel[0], left : left + kernel[1]].abs()
                at = int(window.argmax())
                mask[plane][top + at // kernel[1], left + at % kernel[1]] = 1
    return x * mask


def video_layers():
    case("wta", "SpatialWta", "spatial_wta_param { kernel_size: 2 stride: 2 }", [(2, 2, 5, 4)], [],
         lambda x, w: [winners(x[0], (2, 2), (2, 2))])
    case("wta_global", "SpatialWta", "spatial_wta_param { global_wta: true }", [(2, 2, 3, 4)], [],
         lambda x, w: [winners(x[0], (3, 4), (1, 1))])

    def warp(x, flow):
        n, _, height, width = x.shape
        i, j = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
        u, v = j + flow[:, 0], i + flow[:, 1]
        inside = ((u >= 0) & (v >= 0) & (u < width) & (v < height)).double()[:, None]
        grid = torch.stack([2 * u / (width - 1) - 1, 2 * v / (height - 1) - 1], dim=3)
        return F.grid_sample(x, grid, padding_mode="border", align_corners=True) * inside

    flow = values("flow_warp/flow", (2, 2, 4, 5), -2.4, 2.4)
    case("flow_warp", "FlowWarp", "", [(2, 3, 4, 5), flow], [], lambda x, w: [warp(x[0], x[1])])
    truth = np.round(values("voxel_softmax/t", (2, 1, 2, 3, 2), 0, 3.4))

    def voxel_loss(x, t):
        classes = t.reshape(t.shape[0], *t.shape[2:]).long()
        lines = -F.log_softmax(x, 1).gather(1, classes.clamp(max=2)[:, None])[:, 0]
        return [torch.where(classes < 3, lines, torch.zeros_like(lines)).mean().reshape(())]

    case("voxel_softmax", "VoxelSoftmaxLoss", "", [(2, 3, 2, 3, 2), truth], [], lambda x, w: voxel_loss(x[0], x[1]), [1])


# ---- Mean-field inference: the lattice itself, in another form than the C++ ---------------------------------------------


def lattice_matrix(points):
    """K [P,P] of the permutohedral lattice: splat, blur and slice as dense matrices. The simplex of a point is found by
    searching: of all remainder-0 corners around it, the one whose simplex has no negative weight."""
    count, d = points.shape
    scale = np.sqrt(2.0 / 3.0) * (d + 1)
    basis = np.zeros((d, d + 1))
    for j in range(1, d + 1):
        basis[j - 1, :j] = 1
        basis[j - 1, j] = -j
        basis[j - 1] *= scale / np.sqrt(j * (j + 1))
    elevated = points @ basis
    corners = {}
    splat = []
    for y in elevated:
        # The base corner: floor to multiples of d+1 up to a shift that makes the sum 0; order by the remainder.
        down = np.floor(y / (d + 1)) * (d + 1)
        rest = y - down
        lifts = int(round(-down.sum() / (d + 1)))  # how many coordinates go up by d+1: those with the largest rest
        base = down.copy()
        for k in np.argsort(-rest, kind="stable")[:lifts]:
            base[k] += d + 1
        rest = y - base
        order = np.argsort(-rest, kind="stable")
        drop = rest[order]
        weights = np.empty(d + 1)
        for colour in range(1, d + 1):
            # The corner of colour k has the k smallest rests lowered by d+1-k .. and the others raised by k.
            weights[colour] = (drop[d - colour] - drop[d + 1 - colour]) / (d + 1)
        weights[0] = 1 - weights[1:].sum()
        for colour in range(d + 1):
            corner = base + colour
            for k in order[d + 1 - colour :]:
                corner[k] -= d + 1
            splat.append((corners.setdefault(tuple(int(round(v)) for v in corner), len(corners)), weights[colour]))
    matrix = np.zeros((count, len(corners)))
    for i in range(count):
        for at, weight in splat[i * (d + 1) : (i + 1) * (d + 1)]:
            matrix[i, at] += weight
    blur = np.eye(len(corners))
    for direction in range(d + 1):
        step = np.eye(len(corners))
        for corner, at in corners.items():
            for sign in (1, -1):
                other = tuple(v - sign + sign * (d + 1) * (k == direction) for k, v in enumerate(corner))
                if other in corners:
                    step[at, corners[other]] += 0.5
        blur = step @ blur
    return matrix @ blur @ matrix.T / (1 + 2.0**-d)


def gaussian_matrix(points):
    return np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(2))


def meanfield(x, w, make, iterations, alpha, beta, gamma):
    unary, q, image = x
    n, classes, height, width = unary.shape
    i, j = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    places = np.stack([j.reshape(-1), i.reshape(-1)], axis=1).astype(np.float64)
    filters = []
    for item in range(n):
        colours = image[item].detach().numpy().reshape(3, -1).T
        pair = []
        for points in (places / gamma, np.concatenate([places / alpha, colours / beta], axis=1)):
            matrix = make(points)
            pair.append(torch.tensor(matrix / matrix.sum(1, keepdims=True)))
        filters.append(pair)
    spatial, bilateral, mix = (m[0, 0] for m in w)
    for _ in range(iterations):
        p = torch.softmax(q, 1).reshape(n, classes, -1)
        message = torch.stack([spatial @ p[k] @ filters[k][0].T + bilateral @ p[k] @ filters[k][1].T for k in range(n)])
        q = unary - (mix @ message).reshape(unary.shape)
    return q


def meanfields():
    n, classes, height, width = 2, 3, 5, 6
    fields = ("multi_stage_meanfield_param { num_iterations: 3 theta_alpha: 4 theta_beta: 0.75 theta_gamma: 1.5 }")
    shapes = [(n, classes, height, width), (n, classes, height, width), (n, 3, height, width)]
    case("meanfield", "MultiStageMeanfield", fields, shapes, [(1, 1, classes, classes)] * 3,
         lambda x, w: [meanfield(x, w, lattice_matrix, 3, 4, 0.75, 1.5)], no_gradient=[2])
    # How near the lattice comes to the sums it stands for, on the probabilities.
    x = [torch.tensor(c["data"], dtype=torch.float64).reshape(c["shape"]) for c in CASES[-1]["bottoms"]]
    w = [torch.tensor(c["data"], dtype=torch.float64).reshape(c["shape"]) for c in CASES[-1]["params"]]
    near = torch.softmax(meanfield(x, w, lattice_matrix, 3, 4, 0.75, 1.5), 1)
    true = torch.softmax(meanfield(x, w, gaussian_matrix, 3, 4, 0.75, 1.5), 1)
    print("mean-field: largest error of a probability against exact Gaussian sums", float((near - true).abs().max()))


def main():
    torch.set_num_threads(1)
    ctc_losses()
    decoders()
    time_layers()
    conv_lstms()
    dense_blocks()
    video_layers()
    meanfields()
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "layers_sequence.json")
    with open(path, "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in CASES)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    print(len(CASES), "cases,", os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
