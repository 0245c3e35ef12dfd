"""Records the small layers and losses of single papers' nets.

Usage: python3 make_small_goldens.py      writes layers_small.json, in the format of make_layer_goldens.py

Where the original's gradient is not the derivative of its value it is written down here (`own`), from the original's
backward pass.
"""

import math

import numpy as np
import torch

from make_layer_goldens import labels, values
from single_layers import case, write


def norms():
    def over(inside, outside):
        def run(x, p):
            rows = [r / (((r**2).sum() + inside).sqrt() + outside) for r in x[0]]
            return [torch.stack(rows)]
        return run

    case("normalization_l2", "NormalizationL2", "", [(3, 4)], over(1e-10, 0))
    case("normalization_l2_maps", "NormalizationL2", "", [(2, 3, 2, 2)], over(1e-10, 0))
    case("l2norm", "L2Norm", "", [(3, 4)], over(0, 1e-8))
    case("l2norm_eps", "L2Norm", "l2norm_param { eps: 0.25 }", [(2, 2, 3)], over(0, 0.25))

    def normalize(across, shared, eps, scale_trained):
        def run(x, p):
            axes = (1, 2, 3) if across else (1,)
            norm = ((x[0]**2).sum(axes, keepdim=True) + eps).sqrt()
            scale = p[0] if shared else p[0].reshape(1, -1, 1, 1)
            return [x[0] / norm * (scale if scale_trained else scale.detach())]
        return run

    case("normalize_fix_scale", "Normalize", "norm_param { fix_scale: true }", [(2, 3, 2, 2)],
         normalize(False, False, 1e-6, False), [values("nfs", (3,), 0.5, 2)])
    case("normalize_no_fix_scale", "Normalize", "norm_param { fix_scale: false across_spatial: true }", [(2, 3, 2, 2)],
         normalize(True, False, 1e-6, True), [values("nnfs", (3,), 0.5, 2)])


def bounds():
    case("brelu", "BReLU", "brelu_param { minval: -0.25 maxval: 0.5 }", [(4, 5)],
         lambda x, p: [x[0].clamp(-0.25, 0.5)])
    case("minrelu", "MinReLU", "", [(4, 5)], lambda x, p: [x[0].clamp(max=0)])
    case("minrelu_slope", "MinReLU", "minrelu_param { positive_slope: 0.25 }", [(4, 5)],
         lambda x, p: [torch.where(x[0] < 0, x[0], 0.25 * x[0])])
    for kind, term in (("L1", torch.sign), ("L2", lambda x: x)):
        case("output_decay_" + kind.lower(), "OutputDecay",
             f'output_decay_param {{ regularization_type: "{kind}" output_decay: 0.125 }}', [(3, 4)],
             lambda x, p: [x[0] * 1], own=lambda x, p, dy, term=term: {"x0": dy[0] + 0.125 * term(x[0])})
    case("output_decay_test", "OutputDecay", 'output_decay_param { regularization_type: "L1" output_decay: 0.125 }',
         [(3, 4)], lambda x, p: [x[0] * 1], phase="TEST")
    case("dropout_all", "Dropout", "dropout_param { dropout_ratio: 1 }", [(3, 4)], lambda x, p: [x[0] * 0])
    case("dropout_all_test", "Dropout", "dropout_param { dropout_ratio: 1 }", [(3, 4)], lambda x, p: [x[0] * 1],
         phase="TEST")


def transformers():
    def read(height, width, given, trains_picture=True):
        def run(x, p):
            picture = x[0] if trains_picture else x[0].detach()
            n, c, rows, columns = picture.shape
            out = []
            for i in range(n):
                free = iter(x[1][i].flatten())
                theta = [torch.tensor(given[k], dtype=torch.float64) if k in given else next(free) for k in range(6)]
                for s in range(height):
                    for t in range(width):
                        a, b = 2 * s / height - 1, 2 * t / width - 1
                        v = (theta[0] * a + theta[1] * b + theta[2] + 1) / 2 * rows
                        u = (theta[3] * a + theta[4] * b + theta[5] + 1) / 2 * columns
                        total = torch.zeros(c, dtype=torch.float64)
                        for m in range(rows):
                            for k in range(columns):
                                wv, wu = 1 - (v - m).abs(), 1 - (u - k).abs()
                                if wv > 0 and wu > 0:
                                    total = total + wv * wu * picture[i, :, m, k]
                        out.append(total)
            return [torch.stack(out).reshape(n, height, width, c).permute(0, 3, 1, 2)]
        return run

    theta = np.array([[0.75, 0.125, 0.0625, -0.1875, 0.875, 0.03125], [1.25, -0.25, 0.3125, 0.0625, 1.125, -0.4375]])
    case("transformer", "SpatialTransformer", "", [(2, 2, 4, 5), theta], read(4, 5, {}))
    case("transformer_size", "SpatialTransformer", "st_param { output_H: 3 output_W: 2 }", [(2, 2, 4, 5), theta],
         read(3, 2, {}))
    case("transformer_given", "SpatialTransformer", "st_param { theta_1_2: 0.5 theta_2_1: -0.25 output_H: 5 }",
         [(2, 1, 3, 4), np.array([[0.75, 0.1328125, 0.0703125, -0.1640625], [1.25, -0.2421875, 0.3203125, 0.0859375]])],
         read(5, 4, {1: 0.5, 3: -0.25}))
    case("transformer_one_free", "SpatialTransformer",
         "st_param { theta_1_1: 1 theta_1_2: 0 theta_2_1: 0 theta_2_2: 1 theta_2_3: 0.1875 }",
         [(2, 2, 3, 4), np.array([[0.15625], [-0.71875]])], read(3, 4, {0: 1, 1: 0, 3: 0, 4: 1, 5: 0.1875}))
    case("transformer_no_du", "SpatialTransformer", "st_param { to_compute_dU: false }", [(2, 2, 4, 5), theta],
         read(4, 5, {}, False))

    def turned(mirror, angle, back):
        def run(x, p):
            h, w = x[0].shape[2:]
            y = torch.zeros(x[0].shape if angle in (0, 180) else (*x[0].shape[:2], w, h), dtype=torch.float64)
            # Where each pixel of the untransformed picture, of height H and width W, comes to lie.
            H, W = (h, w) if not back or angle in (0, 180) else (w, h)
            for i in range(H):
                for j in range(W):
                    k = W - 1 - j if mirror else j
                    to = {0: (i, k), 90: (k, H - 1 - i), 180: (H - 1 - i, W - 1 - k), 270: (W - 1 - k, i)}[angle]
                    if back:
                        y[:, :, i, j] = x[0][:, :, to[0], to[1]]
                    else:
                        y[:, :, to[0], to[1]] = x[0][:, :, i, j]
            return [y]
        return run

    for mirror in (True, False):
        for angle, name in ((0, "NOROTATE"), (90, "ROTATE90"), (180, "ROTATE180"), (270, "ROTATE270")):
            for back in (False, True):
                if not mirror and angle == 0:
                    continue
                case(f"turned_{angle}_{int(mirror)}{int(back)}", "SpatialTransformer",
                     f"spatialtransformer_param {{ mirror: {str(mirror).lower()} rotate: {name} "
                     f"operation: {'UNTRANSFORM' if back else 'TRANSFORM'} }}", [(1, 2, 2, 3)],
                     turned(mirror, angle, back))

    def sequences(x, p):
        n, c, h, w = x[0].shape
        y, cont = torch.zeros(w, n * h, c, dtype=torch.float64), torch.ones(w, n * h, dtype=torch.float64)
        cont[0] = 0
        for i in range(n):
            for j in range(h):
                for k in range(w):
                    y[k, i * h + j] = x[0][i, :, j, k]
        return [y, cont, torch.tensor(float(h), dtype=torch.float64)]

    case("srnn_format", "SRNNFormat", "", [(2, 3, 2, 4)], sequences, tops=3, silent_tops=[1, 2])
    case("srnn_format_one", "SRNNFormat", "srnnformat_param { operation: FORMAT }", [(1, 2, 3, 1)], sequences, tops=3,
         silent_tops=[1, 2])


def parts():
    def cut(x, p):
        return [x[0][:, :, 0:2, 1:4], x[0][:, :, 1:3, 0:3], x[0][:, :, 3:5, 2:5]]

    case("division", "Division", "division_param { width: 3 height: 2 xcoord: 1 xcoord: 0 xcoord: 2 ycoord: 0 "
         "ycoord: 1 ycoord: 3 }", [(2, 2, 5, 5)], cut, tops=3)

    def whole(x, p):
        y = torch.zeros(2, 2, 5, 5, dtype=torch.float64)
        for part, top, left in zip(x, (0, 0, 2), (0, 3, 0)):
            y[:, :, top:top + part.shape[2], left:left + part.shape[3]] = part
        return [y]

    case("combination", "Combination",
         "combination_param { xcoord: 0 xcoord: 3 xcoord: 0 ycoord: 0 ycoord: 0 ycoord: 2 }",
         [(2, 2, 2, 3), (2, 2, 2, 2), (2, 2, 3, 5)], whole)
    case("eltwise_factors", "Eltwise", "eltwise_param { coeff_blob: true coeff: 2 coeff: -0.5 }",
         [(3, 2, 2), (3, 2, 2), (2, 3)],
         lambda x, p: [2 * x[2][0].reshape(3, 1, 1) * x[0] - 0.5 * x[2][1].reshape(3, 1, 1) * x[1]], no_gradient=[2])
    case("eltwise_factor", "Eltwise", "eltwise_param { operation: SUM coeff_blob: true }", [(4, 3), (1, 4)],
         lambda x, p: [x[1].reshape(4, 1) * x[0]], no_gradient=[1])
    case("scale_bounded", "Scale", "param { lr_mult: 0 } scale_param { min_value: 0.25 max_value: 0.5 }", [(2, 3)],
         lambda x, p: [x[0] * p[0].detach().clamp(0.25, 0.5)], [values("sb", (3,), 0, 1)], own=lambda x, p, dy: {
             "p0": (dy[0] * x[0]).sum(0) * ((p[0] > 0.25) & (p[0] < 0.5))})


def differences():
    a, b = values("diff/a", (3, 4)), values("diff/b", (3, 4))

    def manhattan_own(x, p, dy):
        d = x[0] - x[1]
        g = dy[0] * d / (d.abs() + 1e-3) / len(d)
        return {"x0": g, "x1": -g}

    case("manhattan", "ManhattanLoss", "", [a, b], lambda x, p: [(x[0] - x[1]).abs().sum() / 3], own=manhattan_own)
    label = np.array([[0, 1, 9, 2], [9, 3, 0.5, 1], [2, 9, 4, 5]])

    def euclidean6(x, p):
        total, count = 0, 0
        for i in range(3):
            for j in range(4):
                if float(x[1][i, j]) != 9:
                    total, count = total + (x[2][i, j] * (x[0][i, j] - x[1][i, j]))**2, count + 1
        return [total / count]

    def euclidean6_own(x, p, dy):
        g = torch.where(x[1] == 9, 0.0, 2 * x[2] * (x[0] - x[1])) / (x[1] != 9).sum()
        return {"x0": dy[0] * g, "x1": -dy[0] * g}

    case("euclidean6", "EuclideanLoss6", "", [a, label, values("diff/w", (3, 4), 0.5, 2)], euclidean6, no_gradient=[2],
         own=euclidean6_own)
    case("cosine_similarity", "CosineSimilarityLoss", "", [a, b], lambda x, p: [1 - (x[0] * x[1]).sum() / 3])

    def k1_own(x, p, dy):
        g = -dy[0] * (x[0] - 0.5) / 12 / 3
        return {"x0": g, "x1": -g}

    def k2_own(x, p, dy):
        g = torch.full_like(x[0], float(dy[0] * (x[0].mean() - 0.5) / 12 / 3))
        return {"x0": g, "x1": -g}

    case("k1", "K1_EuclideanLoss", "", [a, b], lambda x, p: [-((x[0] - 0.5)**2).sum() / (2 * 12 * 3)], own=k1_own)
    case("k2", "K2_EuclideanLoss", "", [a, b], lambda x, p: [(x[0].mean() - 0.5)**2 / 3 / 2], own=k2_own)


def saliency():
    s, t = values("sal/s", (2, 1, 3, 4), 0.05, 1), values("sal/t", (2, 1, 3, 4), 0, 1)
    e = 1e-6

    def divergence(x, p):
        total = 0
        for s_, t_ in zip(x[0], x[1]):
            f, q = t_ / (t_.abs().sum() + e), s_ / (s_.abs().sum() + e)
            total = total + (f * (f / (q + e) + e).log()).sum()
        return [total / 2]

    def divergence_own(x, p, dy):
        g = torch.zeros_like(x[0])
        for i in range(2):
            f, whole = x[1][i] / (x[1][i].abs().sum() + e), x[0][i].abs().sum()
            g[i] = -dy[0] * f * (whole - x[0][i]) / (whole * x[0][i] + e) / 2
        return {"x0": g}

    case("kldiv", "KLDivLoss", "", [s, t], divergence, no_gradient=[1], own=divergence_own)
    case("nss", "NSSLoss", "", [(2, 1, 3, 4), t],
         lambda x, p: [-sum((a * b).sum() / b.abs().sum() for a, b in zip(x[0], x[1])) / 2], no_gradient=[1])


def step_to_margin(x, c, g, guard):
    """p with cos(x + p (c - x), c) = g, found as the original does; 0 where the angle is small enough."""
    r, s, t = x @ x, x @ c, c @ c
    if s / math.sqrt(r) / math.sqrt(t) >= g:
        return 0.0
    q = s * s - g * g * r * t
    b = 2 * ((1 - g * g) * s * t - q)
    a = (1 - g * g) * t * (t - 2 * s) + q
    root = math.sqrt(b * b - 4 * a * q + guard) if guard else math.sqrt(max(b * b - 4 * a * q, 0))
    x1, x2 = (-b + root) / (2 * a), (-b - root) / (2 * a)
    if x1 * x2 < 0 or x1 + x2 > 1:
        return x1 if (0 if guard else -1e-6) < x1 < 1.000001 else x2
    return max(x1, x2)


def centres():
    target = np.array([0.0, 2.0, 2.0, 1.0, 0.0, 2.0])
    x, c = values("centres/x", (6, 3)), values("centres/c", (4, 3))

    def part(d_or_x, centre, kind, margin, guard):
        if kind == "COSINE":
            return step_to_margin(d_or_x, centre, margin, guard)
        length = math.sqrt(float((d_or_x - centre) @ (d_or_x - centre)))
        return max(0.0, (length - margin) / length)

    def pieces(rows, targets, centre_of, kind, margin, guard):
        out = []
        for row, k in zip(rows, targets):
            centre = centre_of(int(k))
            p = part(row.numpy(), centre.numpy(), kind, margin, guard)
            out.append((int(k), p, p * (row - centre)))
        return out

    def centre(kind, margin, weight, tops):
        def found(x, p):
            return pieces(x[0].detach(), x[1], lambda k: p[0].detach()[k], kind, margin, 1e-5)

        def run(x, p):
            rows = found(x, p)
            loss = sum((d @ d) for _, _, d in rows) / 2 / len(rows)
            return [loss, torch.tensor(sum(abs(q) for _, q, _ in rows), dtype=torch.float64)][:tops]

        def own(x, p, dy):
            dx, dc = torch.zeros_like(x[0]), torch.zeros_like(p[0])
            rows = found(x, p)
            for i, (k, _, d) in enumerate(rows):
                dx[i] = dy[0] * d / len(rows)
                dc[k] -= dy[0] / weight * d / sum(1 for other in rows if other[0] == k)
            return {"x0": dx, "p0": dc}

        return run, own

    for name, fields, kind, margin, weight, tops in (
            ("center_margin", "margin: 0.5", "L2", 0.5, 1, 2), ("center_no_margin", "margin: 0", "L2", 0, 1, 1),
            ("center_two_tops", "", "L2", 0, 0.25, 2),
            ("center_cosine", "type: COSINE margin: 0.75", "COSINE", 0.75, 1, 2)):
        run, own = centre(kind, margin, weight, tops)
        extra = "" if weight == 1 else f" loss_weight: {weight} loss_weight: 0"
        case(name, "CenterLoss", f"center_loss_param {{ num_output: 4 {fields} }}{extra}", [x, target], run, [c],
             tops=tops, silent_tops=[1], no_gradient=[1], own=own)

    def shared(kind, margin, gamma_shared):
        def unit(p):
            return p[0].detach() / (p[0].detach().norm(dim=1, keepdim=True) + 1e-5)

        def found(x, p):
            u, gamma = unit(p), p[1].detach()
            return pieces(x[0].detach(), x[1], lambda k: gamma[k] * u[k], kind, margin, 0)

        def run(x, p):
            rows = found(x, p)
            return [sum((d @ d) for _, _, d in rows) / 2 / len(rows),
                    torch.tensor(sum(q for _, q, _ in rows), dtype=torch.float64)]

        def own(x, p, dy):
            u, gamma, rows = unit(p), p[1], found(x, p)
            dx, dgamma = torch.zeros_like(x[0]), torch.zeros_like(gamma)
            for i, (k, _, d) in enumerate(rows):
                dx[i] = dy[0] * d / len(rows)
                if not gamma_shared:
                    dgamma[k] += dy[0] * (gamma[k] - x[0][i] @ u[k]) / sum(1 for other in rows if other[0] == k)
            if gamma_shared:
                drawn = sum(q for _, q, _ in rows)
                pull = sum(q * (x[0][i] @ u[k]) for i, (k, q, _) in enumerate(rows)) / (drawn + 1e-5)
                dgamma = dy[0] * (gamma - pull)
            return {"x0": dx, "p0": torch.zeros_like(p[0]), "p1": dgamma}

        return run, own

    for name, fields, kind, margin, both in (
            ("shared_center", "", "L2", 0, False),
            ("shared_center_margin", "margin: 0.375 gamma_shared: true", "L2", 0.375, True),
            ("shared_center_cosine", "type: COSINE margin: 0.5 gamma_shared: true", "COSINE", 0.5, True)):
        run, own = shared(kind, margin, both)
        case(name, "SharedCenterLoss", f"shared_center_loss_param {{ num_output: 4 {fields} }}", [x, target], run,
             [c, values("centres/gamma", (4,), 0.5, 1.5)], tops=2, silent_tops=[1], no_gradient=[1], own=own)

    def apart(kind, alpha, normalize):
        def mean(w):
            m = w.mean(0)
            return m / math.sqrt(float(m @ m) + 1e-5) if normalize else m

        def distance(w, picked):
            if kind == "MEAN":
                return 1 - sum(mean(w) @ w[k] for k in picked) / len(picked)
            return sum(((w[i] - w[k])**2).sum() for i in range(len(w)) for k in picked) / len(w)

        def run(x, p):
            return [distance(p[0].detach(), [int(k) for k in x[1]]), torch.tensor([alpha], dtype=torch.float64)]

        def own(x, p, dy):
            picked, w = [int(k) for k in x[1]], p[0]
            dw = torch.zeros_like(w)
            for k in picked:
                if kind == "MEAN":
                    dw[k] += dy[0] * alpha / len(picked) * mean(w)
                else:
                    far = len(picked) * float(distance(w, picked))**2 + 1e-5
                    dw[k] += dy[0] * -4 * alpha / far * (w[k] - mean(w))
            return {"x0": torch.zeros_like(x[0]), "p0": dw}

        return run, own

    for name, fields, kind, alpha, normalize, before in (
            ("inter_class_early", "alpha_start_iter: 7 alpha_start_value: 10", "AMONG", 0.0, True, 5.0),
            ("inter_class_among", "alpha_start_iter: 6 alpha_start_value: 10", "AMONG", 10.0, True, 5.0),
            ("inter_class_mean", "type: MEAN normalize: false alpha_start_iter: 2 alpha_start_value: 1 alpha_step: 0.5 "
             "alpha_stepvalue: 4 alpha_stepvalue: 6 alpha_stepvalue: 9", "MEAN", 2.0, False, 5.0)):
        run, own = apart(kind, alpha, normalize)
        case(name, "InterClass", f"inter_class_param {{ num_output: 4 {fields} }}", [x, target], run,
             [c, np.array(before)], tops=2, silent_tops=[1], no_gradient=[1], own=own, after={1: np.array(before + 1)})


def pairs():
    similar, x, y = np.array([1.0, 0, 0, 2, 0]), values("pairs/x", (5, 3)), values("pairs/y", (5, 3))
    y[2] = x[2]

    def contrastive(power):
        def run(x, p):
            total = 0
            for a, b, s in zip(x[0], x[1], x[2]):
                square = ((a - b)**2).sum()
                if int(s) != 0:
                    total = total + square
                elif power == 1:
                    total = total + torch.relu(1.5 - square)
                else:
                    total = total + torch.relu(1.5 - (square + (square == 0)).sqrt() * (square != 0))**2
            return [total / 10]
        return run

    case("contrastive_four", "ContrastiveLoss", "contrastive_loss_param { margin: 1.5 }", [x, y, similar, similar],
         contrastive(1), no_gradient=[2, 3])
    case("mine_contrastive", "MineContrastiveLoss", "mine_contrastive_loss_param { margin: 1.5 }", [x, y, similar],
         contrastive(2), no_gradient=[2])

    def weighted(mult, cid, ignore, valid):
        def run(x, p):
            lines, total, count = x[0].softmax(1).movedim(1, -1).reshape(-1, 4), 0, 0
            for line, k in zip(lines, x[1].flatten()):
                if ignore is not None and int(k) == ignore:
                    continue
                total, count = total - (mult if int(k) == cid else 1) * line[int(k)].log(), count + 1
            return [total / (count if valid else x[0].shape[0]), x[0].softmax(1)]
        return run

    case("weighted_softmax", "WeightedSoftmaxWithLoss", "softmax_param { pos_cid: 2 pos_mult: 10 }",
         [(5, 4), labels("small/w0", (5,), 4)], weighted(10, 2, None, True), tops=2, silent_tops=[1], no_gradient=[1])
    case("weighted_softmax_maps", "WeightedSoftmaxWithLoss",
         "softmax_param { pos_mult: 0.5 } loss_param { ignore_label: 9 normalize: false }",
         [(2, 4, 2, 3), labels("small/w1", (2, 2, 3), 4, 9)], weighted(0.5, 1, 9, False), tops=2,
         silent_tops=[1], no_gradient=[1])


def python_layers():
    def python(module, layer, text=""):
        return f'python_param {{ module: "{module}" layer: "{layer}" param_str: "{text}" }}'

    case("python_l2norm", "Python", python("l2norm_layer", "L2NormLayer"), [(3, 4)],
         lambda x, p: [x[0] / x[0].norm(dim=1, keepdim=True)])
    case("python_norm2", "Python", python("norm2layer", "Norm2Layer"), [(3, 4)],
         lambda x, p: [x[0] / x[0].norm(dim=1, keepdim=True) + 0 * x[0]], own=lambda x, p, dy: {"x0": 0 * x[0]})
    rows = values("python/rows", (10, 3))

    def order(x):
        third = len(x) // 3
        ranked = []
        for begin in (third, 2 * third):
            distance = {i: float(((x[0] - x[i])**2).sum()) for i in range(begin, begin + third)}
            ranked.append(sorted(distance.items(), key=lambda item: item[1], reverse=True))
        return third, ranked

    def select(x, p):
        third, ranked = order(x[0].detach())
        return [x[0][:third]] + [torch.stack([x[0][i] for i, _ in part]) for part in ranked]

    def select_own(x, p, dy):
        third, ranked = order(x[0])
        dx = torch.zeros_like(x[0])
        for i in range(third):
            if ranked[0][i][1] < ranked[1][i][1]:
                dx[i], dx[ranked[0][i][0]], dx[ranked[1][i][0]] = dy[0][i], dy[1][i], dy[2][i]
        return {"x0": dx}

    case("python_select", "Python", python("tripletselectlayer", "TripletSelectLayer"), [rows], select, tops=3,
         own=select_own)
    case("python_select_labels", "Python", python("tripletselectlayer", "TripletSelectLayer"),
         [values("python/few", (3, 2)), np.array([0.0, 0, 1])], select, tops=3, own=select_own, no_gradient=[1])

    def triplet(margin, divisor):
        def run(x, p):
            total = sum(torch.relu(margin + ((a - b)**2).sum() - ((a - c)**2).sum()) for a, b, c in zip(*x))
            return [(total / divisor).reshape(1)]
        return run

    three = [values(f"python/{k}", (4, 3)) for k in "apn"]
    case("python_triplet_halved", "Python", python("tripletlosslayer", "TripletLayer", "'margin': 0.2"), three,
         triplet(0.2, 8))
    case("python_triplet_halved_default", "Python", python("tripletlosslayer", "TripletLayer"), three, triplet(1, 8))
    padded = [np.concatenate([t, np.zeros((2, 3))]) for t in three]
    case("python_triplet_mean", "Python", python("tripletloss_layer", "TripletLayer", "'margin': 0.5"), three,
         triplet(0.5, 4))
    case("python_triplet_padded", "Python", python("tripletloss_layer", "TripletLayer", "'margin': 0.5"), padded,
         lambda x, p: triplet(0.5, 4)([t[:4] for t in x], p))


def image_losses():
    def window(width, sigma):
        places = torch.arange(width, dtype=torch.float64) - width // 2
        line = (-places**2 / (2 * sigma**2)).exp()
        y = line.reshape(-1, 1) * line
        return y / y.sum()

    def similarity(x, y, sigmas, c1=0.01, c2=0.03):
        total = 0
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                a, b, factor = x[i, j], y[i, j], 1
                for sigma in sigmas:
                    w = window(a.shape[0], sigma)
                    ma, mb = (w * a).sum(), (w * b).sum()
                    va, vb = (w * (a - ma)**2).sum(), (w * (b - mb)**2).sum()
                    both = (w * (a - ma) * (b - mb)).sum()
                    factor = factor * (2 * both + c2**2) / (va + vb + c2**2)
                total = total + factor * (2 * ma * mb + c1**2) / (ma**2 + mb**2 + c1**2)
        return total / (x.shape[0] * x.shape[1])

    def python(layer, text=""):
        return f'python_param {{ module: "pyloss" layer: "{layer}" param_str: "{text}" }}'

    scales = (0.5, 1, 2, 4, 8)
    x, y = values("image/x", (2, 2, 5, 5), 0, 1), values("image/y", (2, 2, 5, 5), 0, 1)
    flat = (values("image/a", (3, 4)), values("image/b", (3, 4)))
    case("python_l1", "Python", python("L1"), flat, lambda x, p: [(x[0] - x[1]).abs().mean().reshape(1)])
    case("python_l2", "Python", python("L2"), flat, lambda x, p: [((x[0] - x[1])**2).mean().reshape(1) / 2])
    case("python_ssim", "Python", python("SSIM", "{'C1': 0.25, 'C2': 0.5, 'sigma': 1.5}"), [x, y],
         lambda x, p: [(1 - similarity(x[0], x[1], [1.5], 0.25, 0.5)).reshape(1)], no_gradient=[1])
    case("python_msssim", "Python", python("MSSSIM"), [x, y],
         lambda x, p: [(1 - similarity(x[0], x[1], scales)).reshape(1)], no_gradient=[1])

    def mixture(alpha, power, sigmas):
        def run(x, p):
            d = ((x[0] - x[1]).abs()**power * window(5, sigmas[-1])).sum() / 4 / power
            return [(alpha * (1 - similarity(x[0], x[1], sigmas)) + (1 - alpha) * d).reshape(1)]
        return run

    case("python_msssim_l1", "Python", python("MSSSIML1"), [x, y], mixture(0.025, 1, scales), no_gradient=[1])
    case("python_msssim_l2", "Python", python("MSSSIML2", "{'sigma': (1, 2.), 'alpha': 0.5}"), [x, y],
         mixture(0.5, 2, (1, 2)), no_gradient=[1])


def recurrent():
    def lstm(bias, only_start):
        def run(x, p):
            w_x, b, w_s, w_h = p
            h, c, out = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64), []
            for t in range(3):
                gates = x[0][t] @ w_x.T + b + (x[1][t].reshape(2, 1) * h) @ w_h.T
                if t == 0 or not only_start:
                    gates = gates + x[2] @ w_s.T
                i, f, o, g = gates.split(3, 1)
                c = x[1][t].reshape(2, 1) * (f + bias).sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                out.append(h)
            return [torch.stack(out)]
        return run

    cont = np.array([[0.0, 0], [1, 1], [1, 0]])
    shapes = [(12, 2), (12,), (12, 4), (12, 3)]
    case("lstm_forget_bias", "LSTM", "recurrent_param { num_output: 3 lstm_additional_forget_bias: 1.5 }",
         [(3, 2, 2), cont, (2, 4)], lstm(1.5, False), shapes, no_gradient=[1])
    case("lstm_static_at_start", "LSTM", "recurrent_param { num_output: 3 static_input_only_start: true }",
         [(3, 2, 2), cont, (2, 4)], lstm(0, True), shapes, no_gradient=[1])


def main():
    torch.set_num_threads(1)
    for group in (norms, bounds, transformers, parts, differences, saliency, centres, pairs, python_layers,
                  image_losses, recurrent):
        group()
    write("layers_small.json")


if __name__ == "__main__":
    main()
