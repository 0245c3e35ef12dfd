"""The cases of make_small_goldens.py with centres of classes and with pairs: margins, shared centres, contrastive losses."""

import math

import numpy as np
import torch

from make_layer_goldens import labels, values
from single_layers import case


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
