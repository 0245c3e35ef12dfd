"""Records the losses of metric, ranking and detection nets, and the classic ones of Caffe.

Usage: python3 make_loss_goldens.py      writes layers_loss.json, in the format of make_layer_goldens.py

Where the original's gradient is not the derivative of its value it is written down here (`own`), from the original's
backward pass: ContrastiveLoss's 1e-4 beside the distance, probabilities bounded in the value only, CenterLoss's rule
for the centres.
"""

import math

import numpy as np
import torch

from make_layer_goldens import labels, values
from single_layers import case, write

LOG_THRESHOLD = 1e-20
FLT_MIN = 1.17549435e-38


def classic():
    target = labels("loss/targets", (5,), 4)

    def hinge(power):
        def run(x, p):
            flat, total = x[0].flatten(1), 0
            for i in range(flat.shape[0]):
                for k in range(flat.shape[1]):
                    sign = 1 if k == int(x[1].flatten()[i]) else -1
                    total = total + torch.relu(1 - sign * flat[i, k])**power
            return [total / flat.shape[0]]
        return run

    case("hinge", "HingeLoss", "", [(5, 4), target], hinge(1), no_gradient=[1], low=-2)
    case("hinge_l2", "HingeLoss", "hinge_loss_param { norm: L2 }", [(5, 2, 2, 1), target.reshape(5, 1)], hinge(2),
         no_gradient=[1], low=-2)

    def logistic(x, p):
        flat = x[0].flatten(1)
        picked = [flat[i, int(k)].clamp(min=LOG_THRESHOLD).log() for i, k in enumerate(x[1].flatten())]
        return [-sum(picked) / len(picked)]

    def logistic_gradient(x, p, dy):
        dx = torch.zeros_like(x[0])
        for i, k in enumerate(x[1].flatten()):
            dx.view(len(dx), -1)[i, int(k)] = -dy[0] / len(dx) / max(float(x[0].flatten(1)[i, int(k)]), LOG_THRESHOLD)
        return {"x0": dx}

    case("multinomial", "MultinomialLogisticLoss", "", [values("multinomial", (5, 4), 0.05, 1), target], logistic,
         no_gradient=[1], own=logistic_gradient)
    case("multinomial_zero", "MultinomialLogisticLoss", "",
         [np.array([[0.0, 1.0], [0.25, 0.75]]), np.array([0.0, 1.0])], logistic, no_gradient=[1], own=logistic_gradient)


def infogain():
    h = values("infogain/h", (4, 4), 0, 1)

    def run(axis, mode, ignore, tops=1):
        def f(x, p):
            prob = x[0].softmax(axis)
            matrix, classes = x[2].reshape(x[0].shape[axis], -1), x[0].shape[axis]
            lines = prob.movedim(axis, -1).reshape(-1, classes)
            total, valid = 0, 0
            for line, label in zip(lines, x[1].flatten()):
                if ignore is not None and int(label) == ignore:
                    continue
                total = total - (matrix[int(label)] * line.clamp(min=LOG_THRESHOLD).log()).sum()
                valid += 1
            outer = math.prod(x[0].shape[:axis])
            count = {"FULL": len(lines), "VALID": valid, "BATCH_SIZE": outer, "NONE": 1}[mode]
            return [total / max(count, 1), prob][:tops]
        return f

    def infogain_case(name, fields, bottoms, function, **more):
        case("infogain_" + name, "InfogainLoss", fields, bottoms, function, no_gradient=[1, 2], **more)

    plain, spatial = labels("infogain/l0", (5,), 4), labels("infogain/l1", (2, 3, 2), 4)
    ignored = labels("infogain/l2", (2, 3, 2), 4, 9)
    infogain_case("plain", "", [(5, 4), plain, h], run(1, "VALID", None), low=-3)
    infogain_case("spatial", "", [(2, 4, 3, 2), spatial, h.reshape(1, 1, 4, 4)], run(1, "VALID", None), low=-3)
    infogain_case("axis", "infogain_loss_param { axis: -1 }", [(2, 3, 4), labels("infogain/l3", (2, 3), 4), h],
                  run(2, "VALID", None), low=-3)
    for mode in ("FULL", "VALID", "BATCH_SIZE", "NONE"):
        infogain_case("ignore_" + mode.lower(), f"loss_param {{ ignore_label: 9 normalization: {mode} }}",
                      [(2, 4, 3, 2), ignored, h], run(1, mode, 9), low=-3)
    infogain_case("two_tops", "loss_weight: 1 loss_weight: 0", [(5, 4), plain, h], run(1, "VALID", None, 2), tops=2,
                  silent_tops=[1])

    def clipped(x, p, dy):
        prob = x[0].softmax(1)
        rows = x[2][x[1].long()]
        return {"x0": dy[0] * (prob * rows.sum(1, keepdim=True) - rows) / len(x[0])}

    infogain_case("clipped", "", [np.array([[90.0, -90.0, 0.0, 1.0]]), np.array([1.0]), h], run(1, "VALID", None),
                  own=clipped)


def pairs():
    a, b = values("pairs/a", (6, 3)), values("pairs/b", (6, 3))
    b[4], b[5] = a[4], a[5]  # coinciding pairs, one similar and one not
    similar = np.array([1.0, 0.0, 0.0, 1.0, 0.0, 1.0])

    def contrastive(margin, legacy):
        def distances(x):
            return [float(((x[0][i] - x[1][i])**2).sum()) for i in range(len(x[0]))]

        def run(x, p):
            total = 0
            for square, same in zip(distances([t.detach().flatten(1) for t in x[:2]]), x[2].flatten()):
                if int(same):
                    total += square
                else:
                    total += max(margin - square, 0) if legacy else max(margin - math.sqrt(square), 0)**2
            return [x[0].sum() * 0 + x[1].sum() * 0 + total / len(x[0]) / 2]

        def gradient(x, p, dy):
            dx = torch.zeros_like(x[0].flatten(1))
            flat = [t.flatten(1) for t in x[:2]]
            for i, (square, same) in enumerate(zip(distances(flat), x[2].flatten())):
                alpha, diff = float(dy[0]) / len(dx), flat[0][i] - flat[1][i]
                if int(same):
                    dx[i] = alpha * diff
                    continue
                gap = margin - (square if legacy else math.sqrt(square))
                beta = -alpha if legacy else -alpha * gap / (math.sqrt(square) + 1e-4)
                dx[i] = beta * diff if gap > 0 else 0
            return {"x0": dx.reshape(x[0].shape), "x1": -dx.reshape(x[1].shape)}
        return dict(function=run, own=gradient)

    for name, margin, legacy in (("default", 1, False), ("margin", 1.5, False), ("legacy", 1.5, True)):
        case("contrastive_" + name, "ContrastiveLoss",
             f"contrastive_loss_param {{ margin: {margin} legacy_version: {str(legacy).lower()} }}", [a, b, similar],
             no_gradient=[2], **contrastive(margin, legacy))
    case("contrastive_four_axes", "ContrastiveLoss", "",
         [(4, 3, 1, 1), (4, 3, 1, 1), np.array([1.0, 0.0, 0.5, 2.0]).reshape(4, 1, 1, 1)], no_gradient=[2],
         **contrastive(1, False))

    def triplet(margin):
        def run(x, p):
            a, p_, n = (t.flatten(1) for t in x)
            return [torch.relu(margin + ((a - p_)**2).sum(1) - ((a - n)**2).sum(1)).sum() / len(a) / 2]
        return run

    case("triplet", "TripletLoss", "", [(5, 3), (5, 3), (5, 3)], triplet(1))
    case("triplet_margin", "TripletLoss", "triplet_loss_param { margin: 0.25 }", [(5, 3, 1, 1)] * 3, triplet(0.25))


def differences():
    def l1(x, p):
        return [(x[0] - x[1].reshape(x[0].shape)).abs().sum() / len(x[0])]

    case("l1", "L1Loss", "", [(3, 2, 2), (3, 2, 2)], l1)
    case("l1_reshaped", "L1Loss", "", [(3, 4), (3, 2, 2)], l1)

    def error(d, sigma):
        return torch.where(d.abs() < 1 / sigma**2, 0.5 * (sigma * d)**2, d.abs() - 0.5 / sigma**2)

    def smooth(sigma):
        def run(x, p):
            d = x[0] - x[1].reshape(x[0].shape)
            inside = x[2].reshape(d.shape) if len(x) > 2 else 1
            outside = x[3].reshape(d.shape) if len(x) > 3 else 1
            return [(outside * error(inside * d, sigma)).sum() / len(d)]
        return run

    x = (4, 8)
    inside, outside = values("smooth/in", x, 0, 2), values("smooth/out", x, 0, 2)
    case("smooth_l1", "SmoothL1Loss", "", [x, x], smooth(1), low=-3)
    case("smooth_l1_ssd_weights", "SmoothL1Loss", "", [x, x, inside], smooth(1), no_gradient=[2], low=-3)
    case("smooth_l1_fast_rcnn", "SmoothL1Loss", "smooth_l1_loss_param { sigma: 3 }", [x, x, inside, outside], smooth(3),
         no_gradient=[2, 3])
    case("smooth_l1_spatial", "SmoothL1Loss", "smooth_l1_loss_param { sigma: 0.5 }", [(2, 4, 2, 2), (2, 4, 2, 2)],
         smooth(0.5), low=-9)

    def ohem(divisor, tops):
        def run(x, p):
            each = error((x[2] if len(x) > 2 else 1) * (x[0] - x[1]), 1).sum(1, keepdim=True)
            return [each.sum() / divisor, each][:tops]
        return run

    x = (3, 4, 2, 2)
    case("smooth_l1_ohem", "SmoothL1LossOHEM", "", [x, x], ohem(12, 1), low=-3)
    case("smooth_l1_ohem_each", "SmoothL1LossOHEM", "loss_weight: 1 loss_weight: 0", [x, x, values("ohem/in", x, 0, 2)],
         ohem(12, 2), no_gradient=[2], tops=2, silent_tops=[1], low=-3)
    case("smooth_l1_ohem_fixed", "SmoothL1LossOHEM",
         "loss_param { normalization: PRE_FIXED pre_fixed_normalizer: 5 }", [x, x], ohem(5, 1), low=-3)
    case("smooth_l1_ohem_regions", "SmoothL1LossOHEM", "loss_param { normalization: BATCH_SIZE }", [(5, 8), (5, 8)],
         ohem(5, 1), low=-3)


def mining():
    def softmax(divisor, ignore, tops):
        def run(x, p):
            prob = x[0].softmax(1)
            lines, each = prob.movedim(1, -1).reshape(-1, prob.shape[1]), []
            for line, label in zip(lines, x[1].flatten()):
                skip = ignore is not None and int(label) == ignore
                each.append(line[0] * 0 if skip else -line[int(label)].clamp(min=FLT_MIN).log())
            each = torch.stack(each).reshape(x[1].shape)
            return [each.sum() / divisor, prob, each][:tops]
        return run

    plain, spatial = labels("mining/l0", (5,), 3), labels("mining/l1", (2, 1, 2, 3), 3, -1)
    case("softmax_ohem", "SoftmaxWithLossOHEM", "", [(5, 3), plain], softmax(5, None, 1), no_gradient=[1], low=-3)
    valid = int((spatial != -1).sum())
    case("softmax_ohem_each", "SoftmaxWithLossOHEM",
         "loss_param { ignore_label: -1 } loss_weight: 1 loss_weight: 0 loss_weight: 0", [(2, 3, 2, 3), spatial],
         softmax(valid, -1, 3), no_gradient=[1], tops=3, silent_tops=[1, 2], low=-3)

    def annotate(keep, ignore):
        def run(x, p):
            rois, loss, label, weight = x
            n, space = rois.shape[0], math.prod(rois.shape[2:])
            image = rois.reshape(n, 5, space)[:, 0].flatten()
            order = sorted(range(n * space), key=lambda i: -float(loss.flatten()[i]))
            left = {float(k): keep for k in image}
            labels_, weights = torch.full_like(label.flatten(), ignore), torch.zeros_like(weight.reshape(n, -1, space))
            for i in order:
                if image[i] < 0 or left[float(image[i])] == 0:
                    continue
                left[float(image[i])] -= 1
                labels_[i] = label.flatten()[i]
                weights[i // space, :, i % space] = weight.reshape(n, -1, space)[i // space, :, i % space]
            return [labels_.reshape(n, 1, *(list(rois.shape[2:]) or [1, 1])), weights.reshape(weight.shape)]
        return run

    rois = values("mining/rois", (8, 5), 0, 100)
    rois[:, 0] = [0, 0, 1, 0, 1, 0, 1, -1]
    quiet = dict(tops=2, silent_tops=[0, 1], no_gradient=[0, 1, 2, 3])
    case("box_annotator", "BoxAnnotatorOHEM", "box_annotator_ohem_param { roi_per_img: 2 }",
         [rois, values("mining/loss", (8, 1, 1, 1), 0, 3), labels("mining/l2", (8,), 5),
          values("mining/w", (8, 4), 0, 2)], annotate(2, -1), **quiet)
    maps = values("mining/maps", (2, 5, 2, 3), 0, 100)
    maps[:, 0] = np.arange(12).reshape(2, 2, 3) % 2
    case("box_annotator_maps", "BoxAnnotatorOHEM", "box_annotator_ohem_param { roi_per_img: 4 ignore_label: 255 }",
         [maps, values("mining/map_loss", (2, 1, 2, 3), 0, 3), labels("mining/l3", (2, 1, 2, 3), 5),
          values("mining/map_w", (2, 2, 2, 3), 0, 2)], annotate(4, 255), **quiet)


def centres():
    target = labels("centres/labels", (6,), 4)

    def run(x, p):
        flat = x[0].flatten(1)
        return [((flat - p[0].detach()[x[1].flatten().long()])**2).sum() / len(flat) / 2]

    def own(x, p, dy):
        flat, dc = x[0].flatten(1), torch.zeros_like(p[0])
        for j in range(len(dc)):
            mine = [i for i, k in enumerate(x[1].flatten()) if int(k) == j]
            for i in mine:
                dc[j] += p[0][j] - flat[i]
            dc[j] /= len(mine) + 1
        return {"p0": dc}

    fields = "center_loss_param { num_output: 4 }"
    case("center", "CenterLoss", fields, [(6, 3), target], run, [(4, 3)], no_gradient=[1], own=own)
    # The loss's weight scales the features' gradient but not the centres'.
    case("center_weighted", "CenterLoss", "loss_weight: 0.125 " + fields, [(6, 3, 1, 2), target.reshape(6, 1)], run,
         [(4, 6)], no_gradient=[1], own=own, weight=0.125)


def margins():
    def margin(kind, base=1.0, gamma=0.0, power=1.0, least=0.0, start=0, train=True, tops=1):
        def run(x, p):
            iteration = start + (1 if train else 0)
            blend = max(base * (1 + gamma * iteration)**-power, least)
            flat = x[0].flatten(1)
            unit = p[0] / (p[0]**2).sum(1, keepdim=True).sqrt()
            y = flat @ unit.t()
            norm = (flat**2).sum(1).sqrt()
            rows = []
            for i, k in enumerate(x[1].flatten().long()):
                cos = (y[i] / norm[i])[k]
                m = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "QUADRUPLE": 4}[kind]
                # (-1)^k cos(m theta) - 2k on theta in [k pi/m, (k+1) pi/m]
                theta = torch.arccos(cos)
                step = int(theta * m / math.pi)
                psi = (-1)**step * torch.cos(m * theta) - 2 * step
                picked = norm[i] * (psi + blend * cos) / (1 + blend)
                rows.append(torch.stack([picked if j == k else y[i, j] for j in range(y.shape[1])]))
            return [torch.stack(rows), torch.tensor([blend])][:tops]
        return run

    target = labels("margins/labels", (7,), 4)
    x, w = values("margins/x", (7, 3)), values("margins/w", (4, 3))
    for kind in ("SINGLE", "DOUBLE", "TRIPLE", "QUADRUPLE"):
        case("margin_" + kind.lower(), "MarginInnerProduct",
             f"margin_inner_product_param {{ num_output: 4 type: {kind} base: 2 gamma: 0.5 power: 0.5 }}", [x, target],
             margin(kind, 2, 0.5, 0.5), [w, np.array(0.0)], no_gradient=[1], after={1: np.array(1.0)})
    case("margin_lambda", "MarginInnerProduct",
         "margin_inner_product_param { num_output: 4 type: QUADRUPLE base: 1000 gamma: 0.125 power: 1 lambda_min: 5 "
         "iteration: 10 }", [x, target], margin("QUADRUPLE", 1000, 0.125, 1, 5, 24, tops=2), [w, np.array(24.0)],
         no_gradient=[1], after={1: np.array(25.0)}, tops=2, silent_tops=[1])
    case("margin_lambda_least", "MarginInnerProduct",
         "margin_inner_product_param { num_output: 4 type: TRIPLE base: 10 gamma: 1 power: 2 lambda_min: 0.5 }",
         [x, target], margin("TRIPLE", 10, 1, 2, 0.5, 99, tops=2), [w, np.array(99.0)], no_gradient=[1],
         after={1: np.array(100.0)}, tops=2, silent_tops=[1])
    case("margin_test", "MarginInnerProduct", "margin_inner_product_param { num_output: 4 type: DOUBLE gamma: 1 }",
         [x.reshape(7, 3, 1, 1), target], margin("DOUBLE", 1, 1, 1, 0, 3, False), [w, np.array(3.0)], no_gradient=[1],
         after={1: np.array(3.0)}, phase="TEST")


def main():
    torch.set_num_threads(1)
    for group in (classic, infogain, pairs, differences, mining, centres, margins):
        group()
    write("layers_loss.json")


if __name__ == "__main__":
    main()
