"""Records the small layers and losses of single papers' nets.

Usage: python3 make_small_goldens.py      writes layers_small.json, in the format of make_layer_goldens.py

Where the original's gradient is not the derivative of its value it is written down here (`own`), from the original's
backward pass.
"""

import numpy as np
import torch

from make_layer_goldens import values
from single_layers import case, write
from small_centres import centres, pairs


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
