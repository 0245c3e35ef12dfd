"""An independent engine for Moka's goldens: runs a Caffe net with PyTorch, with Caffe's exact semantics.

It reads an expanded net (prototxt.py), computes blobs in float32 or float64 and gets gradients from PyTorch's autograd,
so nothing of Moka's graph, kernels or gradients is shared with it. What differs from PyTorch's defaults and is done
Caffe's way: pooling sizes round up and the last window is dropped when it starts in the padding; average pooling
divides by the window cut to the padded image; LRN divides alpha by the window; BatchNorm keeps three blobs with
running sums; SoftmaxWithLoss clips at FLT_MIN and normalises by LossParameter; MAX of Eltwise gives a tie of its first
two inputs to the second.

  net = Net(layers, dtype)      layers from prototxt.filter_net, data layers left out
  net.fill(values)              parameters by moka_random.parameter, or values[(layer, index)]
  net.forward({"data": ...})    records net.tops["layer:top"] in order; returns the weighted sum of losses
"""

import math

import torch
import torch.nn.functional as F

import moka_random
import prototxt

SOURCES = {"Data", "ImageData", "Input", "DummyData", "MemoryData", "HDF5Data"}
FLT_MIN = 1.17549435e-38


def _pair(param, name, default):
    """(height, width) of kernel, stride or pad, from the repeated field or the _h and _w ones."""
    short = name.removesuffix("_size")
    if param.HasField(short + "_h") or param.HasField(short + "_w"):
        return getattr(param, short + "_h"), getattr(param, short + "_w")
    value = getattr(param, name)
    values = [value] if isinstance(value, int) else list(value)
    if isinstance(value, int) and not param.HasField(name):
        values = []
    values = values or [default]
    return (values[0], values[-1])


# ---- Structured layers: f(net, layer, bottoms) -> list of tops. Blobs are [N,C,H,W] unless stated. ----


def convolution(net, layer, x):
    p = layer.convolution_param
    kernel, stride, pad = _pair(p, "kernel_size", 0), _pair(p, "stride", 1), _pair(p, "pad", 0)
    dilation = (list(p.dilation) or [1])
    dilation = (dilation[0], dilation[-1])
    channels = x[0].shape[1]
    deconvolve = layer.type == "Deconvolution"
    shape = (channels, p.num_output // p.group) if deconvolve else (p.num_output, channels // p.group)
    weight = net.param(layer, 0, shape + kernel)
    bias = net.param(layer, 1, (p.num_output,)) if p.bias_term else None
    run = F.conv_transpose2d if deconvolve else F.conv2d
    return [run(b, weight, bias, stride=stride, padding=pad, dilation=dilation, groups=p.group) for b in x]


def inner_product(net, layer, x):
    p = layer.inner_product_param
    axis = p.axis % x[0].dim()
    inputs = math.prod(x[0].shape[axis:])
    shape = (inputs, p.num_output) if p.transpose else (p.num_output, inputs)
    weight = net.param(layer, 0, shape)
    y = x[0].flatten(axis) @ (weight if p.transpose else weight.t())
    return [y + net.param(layer, 1, (p.num_output,)) if p.bias_term else y]


def _pooled(size, kernel, stride, pad, floor, padded):
    """Windows along one axis, as Caffe counts them."""
    count = (size + 2 * pad - kernel) / stride
    count = (math.floor(count) if floor else math.ceil(count)) + 1
    if padded and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def pooling(net, layer, x):
    p, (height, width) = layer.pooling_param, x[0].shape[2:]
    if p.global_pooling:
        kernel, stride, pad = (height, width), (1, 1), (0, 0)
    else:
        kernel, stride, pad = _pair(p, "kernel_size", 0), _pair(p, "stride", 1), _pair(p, "pad", 0)
    floor, padded = p.round_mode == p.FLOOR, any(pad)
    out = [_pooled(n, k, s, q, floor, padded) for n, k, s, q in zip((height, width), kernel, stride, pad)]
    # Explicit padding so that the windows fit exactly; negative padding drops pixels that no window reaches.
    extra = [(o - 1) * s + k - n - q for o, k, s, n, q in zip(out, kernel, stride, (height, width), pad)]
    edges = (pad[1], extra[1], pad[0], extra[0])
    if p.pool == p.MAX:
        top, where = F.max_pool2d(F.pad(x[0], edges, value=-math.inf), kernel, stride, return_indices=True)
        row, column = where // (width + pad[1] + extra[1]) - pad[0], where % (width + pad[1] + extra[1]) - pad[1]
        return [top, (row * width + column).to(top.dtype)]
    if p.pool != p.AVE:
        raise NotImplementedError("stochastic pooling")
    total = F.avg_pool2d(F.pad(x[0], edges), kernel, stride) * (kernel[0] * kernel[1])
    sides = []
    for o, k, s, n, q in zip(out, kernel, stride, (height, width), pad):
        start = torch.arange(o) * s - q
        sides.append((torch.minimum(start + k, torch.tensor(n + q)) - start).to(total.dtype))
    return [total / (sides[0][:, None] * sides[1][None, :])]


def lrn(net, layer, x):
    p, size, square = layer.lrn_param, layer.lrn_param.local_size, x[0] * x[0]
    reach = (size - 1) // 2
    if p.norm_region == p.WITHIN_CHANNEL:
        mean = F.avg_pool2d(F.pad(square, (reach, reach, reach, reach)), size, 1)
        return [x[0] * (1 + p.alpha * mean) ** -p.beta]
    padded = F.pad(square, (0, 0, 0, 0, reach, reach))
    total = sum(padded[:, i:i + x[0].shape[1]] for i in range(size))
    return [x[0] * (p.k + p.alpha / size * total) ** -p.beta]


def _channels(x):
    return 1 if x.dim() == 1 else x.shape[1]


def batch_norm(net, layer, x):
    p, x = layer.batch_norm_param, x[0]
    sums = [net.param(layer, i, shape) for i, shape in enumerate([(_channels(x),)] * 2 + [(1,)])]
    axes = [i for i in range(x.dim()) if i != 1]
    shape = [1] * x.dim()
    if x.dim() > 1:
        shape[1] = -1
    if p.use_global_stats if p.HasField("use_global_stats") else not net.training:
        factor = 0 if sums[2].item() == 0 else 1 / sums[2]
        mean, variance = sums[0] * factor, sums[1] * factor
    else:
        mean = x.mean(axes)
        variance = ((x - mean.view(shape)) ** 2).mean(axes)
        with torch.no_grad():
            count = x.numel() // _channels(x)
            keep, unbiased = p.moving_average_fraction, count / (count - 1) if count > 1 else 1
            sums[0].mul_(keep).add_(mean)
            sums[1].mul_(keep).add_(variance * unbiased)
            sums[2].mul_(keep).add_(1)
    return [(x - mean.view(shape)) / torch.sqrt(variance.view(shape) + p.eps)]


def _beside(x, factor, axis):
    """The factor's shape with ones on both sides, to broadcast from an axis of x."""
    axis = axis % x.dim()
    return factor.reshape([1] * axis + list(factor.shape) + [1] * (x.dim() - axis - factor.dim()))


def _learned_shape(x, p):
    axis = p.axis % x.dim()
    return x.shape[axis:] if p.num_axes == -1 else x.shape[axis:axis + p.num_axes]


def scale(net, layer, x):
    p = layer.scale_param
    factor = x[1] if len(x) > 1 else net.param(layer, 0, _learned_shape(x[0], p))
    y = x[0] * _beside(x[0], factor, p.axis)
    if p.bias_term:
        y = y + _beside(x[0], net.param(layer, 2 - len(x), factor.shape), p.axis)
    return [y]


def bias(net, layer, x):
    p = layer.bias_param
    term = x[1] if len(x) > 1 else net.param(layer, 0, _learned_shape(x[0], p))
    return [x[0] + _beside(x[0], term, p.axis)]


def eltwise(net, layer, x):
    p = layer.eltwise_param
    if p.operation == p.SUM:
        return [sum(c * b for c, b in zip(list(p.coeff) or [1.0] * len(x), x))]
    if p.operation == p.PROD:
        return [math.prod(x)]
    y = torch.where(x[0] > x[1], x[0], x[1])
    for b in x[2:]:
        y = torch.where(b > y, b, y)
    return [y]


def concat(net, layer, x):
    p = layer.concat_param
    return [torch.cat(x, p.concat_dim if p.HasField("concat_dim") else p.axis)]


def slice_(net, layer, x):
    p = layer.slice_param
    axis = p.slice_dim if p.HasField("slice_dim") else p.axis
    size = x[0].shape[axis]
    points = list(p.slice_point) or [size // len(layer.top) * i for i in range(1, len(layer.top))]
    return list(torch.tensor_split(x[0], points, axis))


def reshape(net, layer, x):
    p, shape = layer.reshape_param, list(x[0].shape)
    first = p.axis if p.axis >= 0 else len(shape) + p.axis + 1
    last = len(shape) if p.num_axes == -1 else first + p.num_axes
    middle = [shape[first + i] if d == 0 else d for i, d in enumerate(p.shape.dim)]
    return [x[0].reshape(shape[:first] + middle + shape[last:])]


def flatten(net, layer, x):
    return [x[0].flatten(layer.flatten_param.axis, layer.flatten_param.end_axis)]


def dropout(net, layer, x):
    if net.training and layer.dropout_param.dropout_ratio != 0:
        raise ValueError(f"layer '{layer.name}': set dropout_ratio to 0, random masks have no golden")
    return [x[0]]


def argmax(net, layer, x):
    p = layer.argmax_param
    rows = x[0] if p.HasField("axis") else x[0].flatten(1)
    axis = p.axis if p.HasField("axis") else 1
    values, places = torch.topk(rows, p.top_k, axis)
    if p.HasField("axis"):
        return [values if p.out_max_val else places.to(values.dtype)]
    places = places.to(values.dtype)
    best = torch.stack([places, values], 1) if p.out_max_val else places.unsqueeze(1)
    return [best.reshape(list(best.shape) + [1] * (x[0].dim() - 3))]  # as many axes as the bottom, at least 3


def reduction(net, layer, x):
    p = layer.reduction_param
    rows = x[0].flatten(p.axis % x[0].dim()) if x[0].dim() else x[0]
    kinds = {p.SUM: rows.sum, p.MEAN: rows.mean, p.ASUM: rows.abs().sum, p.SUMSQ: (rows * rows).sum}
    return [p.coeff * kinds[p.operation](-1)]


# ---- Losses and accuracy ----


def _normaliser(p, default, total, batch, valid):
    mode = p.normalization if p.HasField("normalization") else default
    if p.HasField("normalize") and not p.HasField("normalization"):
        mode = p.VALID if p.normalize else p.BATCH_SIZE
    return max(1, {p.FULL: total, p.VALID: valid, p.BATCH_SIZE: batch, p.NONE: 1}[mode])


def softmax_with_loss(net, layer, x):
    p, axis = layer.loss_param, layer.softmax_param.axis % x[0].dim()
    log = F.log_softmax(x[0], axis)
    target = x[1].reshape(log.shape[:axis] + log.shape[axis + 1:]).long()
    keep = target != p.ignore_label if p.HasField("ignore_label") else torch.ones_like(target, dtype=torch.bool)
    picked = torch.gather(log, axis, torch.where(keep, target, 0).unsqueeze(axis)).squeeze(axis)
    # The value is clipped, the gradient is not.
    picked = picked + (picked.clamp(min=math.log(FLT_MIN)) - picked).detach()
    valid = int(keep.sum())
    total = -(picked * keep).sum() / _normaliser(p, p.VALID, keep.numel(), math.prod(log.shape[:axis]), valid)
    return [total, torch.softmax(x[0], axis)]


def sigmoid_cross_entropy_loss(net, layer, x):
    p = layer.loss_param
    keep = x[1].long() != p.ignore_label if p.HasField("ignore_label") else torch.ones_like(x[1], dtype=torch.bool)
    each = F.binary_cross_entropy_with_logits(x[0], x[1].detach(), reduction="none")
    return [(each * keep).sum() / _normaliser(p, p.BATCH_SIZE, keep.numel(), x[0].shape[0], int(keep.sum()))]


def euclidean_loss(net, layer, x):
    return [((x[0] - x[1]) ** 2).sum() / (2 * x[0].shape[0])]


def accuracy(net, layer, x):
    p = layer.accuracy_param
    axis = p.axis % x[0].dim()
    target = x[1].reshape(x[0].shape[:axis] + x[0].shape[axis + 1:]).long()
    keep = target != p.ignore_label if p.HasField("ignore_label") else torch.ones_like(target, dtype=torch.bool)
    score = torch.gather(x[0], axis, torch.where(keep, target, 0).unsqueeze(axis))
    # The true class counts as one of those at least as good; ties count against it.
    hit = ((x[0] >= score).sum(axis) <= p.top_k) & keep
    ratio = hit.sum().to(x[0].dtype) / max(1, int(keep.sum()))
    classes = [hit[target == c].to(x[0].dtype).mean() if ((target == c) & keep).any() else x[0].new_zeros(())
               for c in range(x[0].shape[axis])]
    return [ratio, torch.stack(classes)]


# ---- Activations: f(layer, x) -> y ----


def _log_base(value):
    return 1.0 if value == -1 else math.log(value)


def prelu(net, layer, x):
    shared = layer.prelu_param.channel_shared
    slope = net.param(layer, 0, () if shared else (_channels(x[0]),))
    slope = slope if shared else _beside(x[0], slope, 1)
    return [torch.where(x[0] > 0, x[0], slope * x[0])]


def _clip(layer, x):
    p = layer.clip_param  # torch.clamp has no gradient at its bounds, Caffe's layer has
    return torch.where((x >= p.min) & (x <= p.max), x, torch.clamp(x, p.min, p.max).detach())


def _power(layer, x):
    p = layer.power_param
    return (p.shift + p.scale * x) ** p.power if p.power != 1 else p.shift + p.scale * x


def _exp(layer, x):
    p = layer.exp_param
    return torch.exp(_log_base(p.base) * (p.shift + p.scale * x))


def _log(layer, x):
    p = layer.log_param
    return torch.log(p.shift + p.scale * x) / _log_base(p.base)


ACTIVATIONS = {
    "AbsVal": lambda layer, x: torch.abs(x),
    "BNLL": lambda layer, x: F.softplus(x, threshold=1e9),
    "Clip": _clip,
    "ELU": lambda layer, x: F.elu(x, layer.elu_param.alpha),
    "Exp": _exp,
    "Log": _log,
    "Power": _power,
    "ReLU": lambda layer, x: F.leaky_relu(x, layer.relu_param.negative_slope),
    "Sigmoid": lambda layer, x: torch.sigmoid(x),
    "Softmax": lambda layer, x: torch.softmax(x, layer.softmax_param.axis),
    "Swish": lambda layer, x: x * torch.sigmoid(layer.swish_param.beta * x),
    "TanH": lambda layer, x: torch.tanh(x),
    "Threshold": lambda layer, x: (x > layer.threshold_param.threshold).to(x.dtype),
}

LAYERS = {
    "Accuracy": accuracy, "ArgMax": argmax, "BatchNorm": batch_norm, "Bias": bias, "Concat": concat,
    "Convolution": convolution, "Deconvolution": convolution, "Dropout": dropout, "Eltwise": eltwise,
    "EuclideanLoss": euclidean_loss, "Flatten": flatten, "InnerProduct": inner_product, "LRN": lrn,
    "PReLU": prelu, "Pooling": pooling, "Reduction": reduction, "Reshape": reshape, "Scale": scale,
    "SigmoidCrossEntropyLoss": sigmoid_cross_entropy_loss, "Silence": lambda net, layer, x: [], "Slice": slice_,
    "SoftmaxWithLoss": softmax_with_loss, "Split": lambda net, layer, x: [x[0]] * len(layer.top),
}


class Net:
    """Layers run in file order; parameters are made at the first forward pass, when their shapes are known."""

    def __init__(self, layers, dtype=torch.float64, training=True, values=None):
        self.layers = [layer for layer in layers if layer.type not in SOURCES]
        self.dtype, self.training = dtype, training
        self.values = values or {}  # (layer, index) -> array; the rest by moka_random.parameter
        self.params = {}  # "layer/index" -> tensor, in file order
        self.specs = {}  # "layer/index" -> (lr_mult, decay_mult)
        self.tops = {}  # "layer:top" -> tensor

    def param(self, layer, index, shape):
        """The parameter blob, filled on first use. Statistics of BatchNorm take no gradient."""
        name = f"{layer.name}/{index}"
        if name not in self.params:
            value = self.values.get((layer.name, index))
            if value is None:
                value = moka_random.parameter(layer, index, shape)
            tensor = torch.tensor(value, dtype=self.dtype).reshape(tuple(shape))
            spec = layer.param[index] if index < len(layer.param) else prototxt.messages().ParamSpec()
            frozen = layer.type == "BatchNorm"
            self.params[name] = tensor if frozen else tensor.requires_grad_()
            self.specs[name] = (0.0 if frozen else spec.lr_mult, spec.decay_mult)
        return self.params[name]

    def forward(self, inputs):
        """Runs every layer; returns the sum of the losses times their weights."""
        blobs, self.tops, total = dict(inputs), {}, 0
        for layer in self.layers:
            x = [blobs[name] for name in layer.bottom]
            if layer.type in ACTIVATIONS:
                results = [ACTIVATIONS[layer.type](layer, x[0])]
            else:
                results = LAYERS[layer.type](self, layer, x)
            for i, (name, value) in enumerate(zip(layer.top, results)):
                blobs[name] = self.tops[f"{layer.name}:{name}"] = value
                default = 1.0 if layer.type.endswith("Loss") else 0.0
                weight = layer.loss_weight[i] if i < len(layer.loss_weight) else default * (i == 0)
                if weight:
                    total = total + weight * value.sum()
        return total


class CaffeSgd:
    """Caffe's SGD: decay added to the gradient, the rate inside the history, then w -= history."""

    def __init__(self, net, rate, momentum, decay):
        self.net, self.rate, self.momentum, self.decay = net, rate, momentum, decay
        self.history = {}

    @torch.no_grad()
    def step(self):
        for name, w in self.net.params.items():
            rate_mult, decay_mult = self.net.specs[name]
            if not w.requires_grad or rate_mult == 0:
                continue
            gradient = w.grad + self.decay * decay_mult * w
            history = self.history.setdefault(name, torch.zeros_like(w))
            history.mul_(self.momentum).add_(gradient, alpha=self.rate * rate_mult)
            w.sub_(history)
            w.grad = None
