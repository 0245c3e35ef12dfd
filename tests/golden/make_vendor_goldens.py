"""Records layers and fields of the big forks: Intel's, Synopsys's and BVLC's OpenCL branch, and a few of authors' own.

Usage: python3 make_vendor_goldens.py      writes layers_vendor.json, in the format of make_layer_goldens.py
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from make_layer_goldens import values
from single_layers import case, write


def intel():
    case("concat_permuted", "Concat", "concat_param { axis: 1 per_fla_fuse: true }", [(2, 3, 2, 4), (2, 2, 3, 1), (2, 1, 1, 1)],
         lambda x, p: [torch.stack([torch.cat([torch.stack([t[n, c, i, j] for i in range(t.shape[2])
                                                            for j in range(t.shape[3]) for c in range(t.shape[1])])
                                               for t in x]) for n in range(2)]).reshape(2, -1, 1, 1)])
    case("concat_permuted_one", "Concat", "concat_param { axis: -3 per_fla_fuse: true }", [(1, 2, 2, 3)],
         lambda x, p: [x[0].permute(0, 2, 3, 1).reshape(1, 12, 1, 1)])
    case("pool_kernel_one", "Pooling", "pooling_param { pool: MAX kernel_size: 1 stride: 2 }", [(2, 3, 4, 5)],
         lambda x, p: [x[0][:, :, ::2, ::2] * 1])
    case("pool_kernel_one_mean", "Pooling", "pooling_param { pool: AVE kernel_h: 1 kernel_w: 3 stride: 2 }", [(1, 2, 6, 5)],
         lambda x, p: [F.avg_pool2d(x[0], (1, 3), 2)])


def opencl():
    case("conv_fused", "Convolution", "convolution_param { num_output: 3 kernel_size: 2 fuse_type: FUSED_CONV_RELU "
         "relu_param { negative_slope: 0.25 } }", [(2, 2, 3, 4)],
         lambda x, p: [F.leaky_relu(F.conv2d(x[0], p[0], p[1]), 0.25)], params=[(3, 2, 2, 2), (3,)])
    case("conv_fused_sum", "Convolution", "convolution_param { num_output: 3 kernel_size: 2 bias_term: false fuse_type: "
         "FUSED_CONV_ELTWISE_RELU eltwise_param { operation: SUM } }", [(2, 2, 3, 4), (2, 3, 2, 3)],
         lambda x, p: [F.relu(F.conv2d(x[0], p[0]) + x[1])], params=[(3, 2, 2, 2)])

    def normed(x, size, alpha, beta, k):
        rows = []
        for c in range(x.shape[1]):
            near = x[:, max(c - size // 2, 0):c + size // 2 + 1]
            rows.append(x[:, c] * (k + alpha / size * (near**2).sum(1))**-beta)
        return torch.stack(rows, 1)

    case("lrn_pooled", "LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 k: 2 fuse_type: FUSED_POOL_MAX "
         "pooling_param { pool: MAX kernel_size: 3 stride: 2 } }", [(1, 4, 6, 5)],
         lambda x, p: [F.max_pool2d(normed(x[0], 3, 0.5, 0.75, 2), 3, 2, ceil_mode=True)])


def python_layers():
    def fields(module, layer, text):
        return f'python_param {{ module: "{module}" layer: "{layer}" param_str: "{text}" }}'

    case("python_pad", "Python", fields("pad", "PadTensor", "{'pad_t': 1, 'pad_b': 0, 'pad_l': 2, 'pad_r': 3, "
                                        "'pad_mode': 'constant'}"), [(1, 2, 2, 3)],
         lambda x, p: [F.pad(x[0], (2, 3, 1, 0))])
    case("python_product", "Python", fields("eltwise", "Eltwise", "{'operation': 0, 'coeff': [1, 1]}"), [(2, 3, 4), (4,)],
         lambda x, p: [x[0] * x[1]])
    case("python_sum", "Python", fields("eltwise", "Eltwise", "{'operation': 1, 'coeff': [2, -0.5]}"), [(3,), (2, 1)],
         lambda x, p: [2 * x[0] - 0.5 * x[1]])
    case("python_larger", "Python", fields("eltwise", "Eltwise", "{'operation': 2}"), [(2, 3), (2, 3)],
         lambda x, p: [torch.maximum(x[0], x[1])])
    case("python_quotient", "Python", fields("eltwise", "Eltwise", "{'operation': 3}"),
         [(2, 3), values("python_quotient/divisor", (3,), 0.5)], lambda x, p: [x[0] / x[1]])
    case("python_smaller", "Python", fields("eltwise", "Eltwise", "{'operation': 4}"), [(2, 3), (2, 3)],
         lambda x, p: [torch.minimum(x[0], x[1])])

    def reorg(x):
        """darknet.py of the fork: the bottom seen as [C/4, 2H, 2W], and the output as if it had the bottom's shape."""
        n, c, h, w = x.shape
        seen = x.reshape(n, c // 4, 2 * h, 2 * w)
        out = [torch.stack([torch.stack([seen[:, k % (c // 4), 2 * i + k // (c // 4) // 2, 2 * j + k // (c // 4) % 2]
                                         for j in range(w)], -1) for i in range(h)], -2) for k in range(c)]
        return torch.stack(out, 1).reshape(n, 4 * c, h // 2, w // 2)

    case("python_reorg", "Python", fields("yolov2", "darknet_reorg", ""), [(2, 8, 2, 4)], lambda x, p: [reorg(x[0])])


def authors():
    def shrunk(x, t):
        return x.sign() * (x.abs() - t).clamp(min=0)

    def regularised(coef, t):
        return lambda x, p, dy: {"x0": (dy[0] + coef * shrunk(x[0], t).sign()) * (x[0].abs() > t)}

    case("sparsify_threshold", "Sparsify", "sparsify_param { thre: 0.25 }", [(3, 4)], lambda x, p: [shrunk(x[0], 0.25)])
    case("sparsify_both", "Sparsify", "sparsify_param { thre: 0.25 coef: 0.125 }", [(3, 4)],
         lambda x, p: [shrunk(x[0], 0.25)], own=regularised(0.125, 0.25))
    case("sparsify_decay", "Sparsify", "sparsify_param { coef: 0.125 }", [(3, 4)], lambda x, p: [x[0] * 1],
         own=regularised(0.125, 0))
    case("sparsify_test", "Sparsify", "sparsify_param { thre: 0.5 coef: 0.125 }", [(3, 4)],
         lambda x, p: [shrunk(x[0], 0.5)], phase="TEST")

    b = values("abs_loss/b", (4, 3, 2))
    a = values("abs_loss/a", (4, 3, 2))
    a[0, 0, 0] = b[0, 0, 0]  # learns as if it were smaller
    sign = np.where(a > b, 1.0, -1.0) / 4
    case("abs_loss", "AbsLoss", "", [a, b], lambda x, p: [(x[0] - x[1]).abs().sum() / 4],
         own=lambda x, p, dy: {"x0": sign, "x1": -sign})

    def dice(x, y, signed):
        rows = [(2 * (s * t).sum() + 1) / ((s * s).sum() + (t * t).sum() + 1) for s, t in zip(x, y)]
        return 1 - sum(r if signed else r.abs() for r in rows) / len(rows)

    x = values("dice/x", (3, 2, 3))
    y = values("dice/y", (3, 6))
    y[1] = -x[1].reshape(-1)  # a coefficient below 0

    def slopes(x, p, dy):
        t = [v.clone().requires_grad_() for v in x]
        dice(t[0].reshape(3, -1), t[1], True).backward()
        return {"x0": t[0].grad, "x1": t[1].grad}

    case("dice_coef_loss", "DiceCoefLoss", "", [x, y], lambda x, p: [dice(x[0].reshape(3, -1), x[1], False)], own=slopes)


def subgraph():
    def means(x, kernel, stride):
        count = [max(math.ceil((n - k) / s), 0) + 1 for n, k, s in zip(x.shape[2:], kernel, stride)]
        rows = [torch.stack([x[:, :, i * stride[0]:i * stride[0] + kernel[0], j * stride[1]:j * stride[1] + kernel[1]]
                             .mean((2, 3)) for j in range(count[1])], -1) for i in range(count[0])]
        return torch.stack(rows, -2)

    def pyramid(x):
        total = x
        for kernel, stride in (((33, 65), (33, 65)), ((17, 33), (16, 32)), ((13, 25), (10, 20)), ((8, 15), (5, 10))):
            total = total + F.interpolate(means(x, kernel, stride), tuple(x.shape[2:]), mode="bilinear", align_corners=True)
        return total

    case("icnet_subgraph", "ICNetSubgraph", "", [(1, 1, 18, 34)], lambda x, p: [pyramid(x[0])])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def iou(a, b):
    """Of x, y, w, h."""
    sides = [min(a[k] + a[k + 2] / 2, b[k] + b[k + 2] / 2) - max(a[k] - a[k + 2] / 2, b[k] - b[k + 2] / 2) for k in (0, 1)]
    common = 0 if min(sides) < 0 else sides[0] * sides[1]
    return common / (a[2] * a[3] + b[2] * b[3] - common)


# Multiples of 1/1024, in different cells of 3 x 3: class, x, y, w, h.
OBJECTS = [[(1, 0.375, 0.3125, 0.25, 0.5), (0, 0.75, 0.6875, 0.5, 0.25), (2, 0.125, 0.875, 0.1875, 0.125)],
           [(2, 0.5625, 0.4375, 0.625, 0.5625)]]
SIDE = 3


def by_cells(objects):
    """Planes difficult, object, class and, cell by cell, the box; the object is put into its own cell, but the third of
    an image beside it: its class is then that of the cell its centre is in, which says -1."""
    out = []
    for of_image in objects:
        planes = np.zeros((3, SIDE * SIDE))
        planes[2] = -1
        boxes = np.zeros((SIDE * SIDE, 4))
        for k, (label, *box) in enumerate(of_image):
            cell = int(box[1] * SIDE) * SIDE + int(box[0] * SIDE) - (1 if k == 2 else 0)
            planes[1:, cell] = 1, label
            boxes[cell] = box
        out.append(np.concatenate([planes.reshape(-1), boxes.reshape(-1)]))
    return np.array(out)


class Map:
    """Predictions as [N,S,S,A,5+C] and what is to be subtracted from them."""

    def __init__(self, x, sizes):
        n, c = x.shape[:2]
        self.sizes = sizes
        self.raw = x.reshape(n, len(sizes), c // len(sizes), SIDE, SIDE).transpose(0, 3, 4, 1, 2)
        self.slope = np.zeros_like(self.raw)
        self.loss = {"box": 0, "object": 0, "class": 0, "other": 0}

    def box(self, i, r, c, a):
        e = self.raw[i, r, c, a]
        return ((c + sigmoid(e[0])) / SIDE, (r + sigmoid(e[1])) / SIDE, math.exp(e[2]) * self.sizes[a][0],
                math.exp(e[3]) * self.sizes[a][1])

    def pull(self, i, r, c, a, goal, scale):
        e, s = self.raw[i, r, c, a], self.slope[i, r, c, a]
        gaps = [goal[0] * SIDE - c - sigmoid(e[0]), goal[1] * SIDE - r - sigmoid(e[1]),
                math.log(goal[2] / self.sizes[a][0]) - e[2], math.log(goal[3] / self.sizes[a][1]) - e[3]]
        self.loss["box"] += scale * sum(g * g for g in gaps)
        for k in range(4):
            now = sigmoid(e[k])
            s[k] = -scale * gaps[k] * (now * (1 - now) if k < 2 else 1)

    def done(self, learnt):
        n, _, _, a, length = self.slope.shape
        anchors = n * SIDE * SIDE * a
        loss = sum(self.loss[k] for k in ("box", "object", "class")) / learnt + self.loss["other"] / (anchors - learnt)
        return loss, self.slope.transpose(0, 3, 4, 1, 2).reshape(n, a * length, SIDE, SIDE) / n


def fits(sizes, box):
    return int(np.argmax([iou((0, 0, *s), (0, 0, *box[2:])) for s in sizes]))


def second(x, objects, anchors, p):
    sizes = [(a / SIDE, b / SIDE) for a, b in anchors]
    m = Map(x, sizes)
    learnt = 0
    for i, of_image in enumerate(objects):
        for r, c, a in np.ndindex(SIDE, SIDE, len(sizes)):
            o = sigmoid(m.raw[i, r, c, a, 4])
            if max(iou(m.box(i, r, c, a), t[1:]) for t in of_image) <= p["thresh"]:
                m.slope[i, r, c, a, 4] = p["noobject"] * o * o * (1 - o)
                m.loss["other"] += p["noobject"] * o * o
            m.pull(i, r, c, a, ((c + 0.5) / SIDE, (r + 0.5) / SIDE, *sizes[a]), 0.01)
        for k, (label, *box) in enumerate(of_image):
            c, r = int(box[0] * SIDE), int(box[1] * SIDE)
            a = fits(sizes, box)
            e = m.raw[i, r, c, a]
            m.pull(i, r, c, a, box, p["box"] * (2 - box[2] * box[3]))
            o = sigmoid(e[4])
            gap = (iou(m.box(i, r, c, a), box) if p["rescore"] else 1) - o
            m.slope[i, r, c, a, 4] = -p["object"] * gap * o * (1 - o)
            m.loss["object"] += p["object"] * gap * gap
            q = np.exp(e[5:]) / np.exp(e[5:]).sum()
            goal = np.eye(len(q))[label] * (k != 2)
            m.slope[i, r, c, a, 5:] = -p["class"] * (goal - q)
            m.loss["class"] += p["class"] * ((goal - q)**2).sum()
            learnt += 1
    return m.done(learnt)


def third(x, objects, anchors, mask, image, p):
    parts = [(a / image[0], b / image[1]) for a, b in anchors]
    m = Map(x, [parts[k] for k in mask])
    learnt = 0

    def classes(i, r, c, a, label):
        q, s = sigmoid(m.raw[i, r, c, a, 5:]), m.slope[i, r, c, a]
        if s[5] != 0:
            if label >= 0:
                s[5 + label] = -(1 - q[label])
            return
        goal = np.eye(len(q))[label] * (label >= 0)
        s[5:] = -(goal - q)
        m.loss["class"] += ((goal - q)**2).sum()

    for i, of_image in enumerate(objects):
        named = [-1 if k == 2 else o[0] for k, o in enumerate(of_image)]
        for a in range(len(mask)):
            for r, c in np.ndindex(SIDE, SIDE):
                o = sigmoid(m.raw[i, r, c, a, 4])
                overlaps = [iou(m.box(i, r, c, a), t[1:]) for t in of_image]
                m.loss["other"] += o * o
                m.slope[i, r, c, a, 4] = 0 if max(overlaps) > p["ignore"] else o * o * (1 - o)
                if max(overlaps) > p["truth"]:
                    t = int(np.argmax(overlaps))
                    m.slope[i, r, c, a, 4] = -(1 - o) * o * (1 - o)
                    classes(i, r, c, a, named[t])
                    m.pull(i, r, c, a, of_image[t][1:], 2 - of_image[t][3] * of_image[t][4])
        # The objects in the order of their cells.
        order = sorted(range(len(of_image)), key=lambda k: int(of_image[k][2] * SIDE) * SIDE + int(of_image[k][1] * SIDE))
        for k in order:
            _, *box = of_image[k]
            c, r = int(box[0] * SIDE), int(box[1] * SIDE)
            best = fits(parts, box)
            if best not in mask:
                continue
            a = mask.index(best)
            m.pull(i, r, c, a, box, 2 - box[2] * box[3])
            o = sigmoid(m.raw[i, r, c, a, 4])
            m.slope[i, r, c, a, 4] = -(1 - o) * o * (1 - o)
            m.loss["object"] += (1 - o)**2
            classes(i, r, c, a, named[k])
            learnt += 1
    return m.done(max(learnt, 1))


def yolo():
    def record(name, kind, fields, x, result):
        loss, slope = result
        case(name, kind, fields, [x, by_cells(OBJECTS)], lambda *_: [torch.tensor(loss)], no_gradient=[1],
             own=lambda *_: {"x0": slope})

    anchors = [(1.0, 1.5), (2.5, 1.0)]
    for name, fields, p in (
            ("yolo_v2_loss", "box_scale: 1 class_scale: 1 noobject_scale: 1 object_scale: 5 thresh: 0.25",
             {"box": 1, "class": 1, "noobject": 1, "object": 5, "thresh": 0.25, "rescore": True}),
            ("yolo_v2_loss_plain", "rescore: false thresh: 0.5",
             {"box": 0.5, "class": 0.5, "noobject": 0.5, "object": 0.5, "thresh": 0.5, "rescore": False})):
        x = values(f"{name}/x", (2, 16, SIDE, SIDE))
        record(name, "YoloV2Loss", f"yolo_v2_loss_param {{ side: 3 num_classes: 3 num_object: 2 anchors: 1 anchors: 1.5 "
               f"anchors: 2.5 anchors: 1 {fields} }}", x, second(x, OBJECTS, anchors, p))

    anchors = [(8.0, 16.0), (24.0, 48.0), (40.0, 24.0), (60.0, 54.0)]
    sizes = " ".join(f"anchors: {side:g}" for a in anchors for side in a)
    for name, mask, image, fields, p in (
            ("yolo_v3_loss", [1, 2], (96, 80), "net_w: 96 net_h: 80 ignore_thresh: 0.25", {"ignore": 0.25, "truth": 1}),
            ("yolo_v3_loss_truth", [2, 3], (96, 96), "net_w: 96 net_h: 96 ignore_thresh: 0.125 truth_thresh: 0.25",
             {"ignore": 0.125, "truth": 0.25}),
            # A mask that begins with 0 has cells of 8 pixels whatever net_w says.
            ("yolo_v3_loss_cells", [0, 1], (24, 24), "net_w: 416 net_h: 416", {"ignore": np.float32(0.7), "truth": 1})):
        x = values(f"{name}/x", (2, 16, SIDE, SIDE))
        masks = " ".join(f"mask: {k}" for k in mask)
        record(name, "YoloV3Loss", f"yolo_v3_loss_param {{ side: 3 num_classes: 3 num_object: 2 total_object: 4 {sizes} "
               f"{masks} {fields} }}", x, third(x, OBJECTS, anchors, mask, image, p))


intel()
opencl()
python_layers()
authors()
subgraph()
yolo()
write("layers_vendor.json")
