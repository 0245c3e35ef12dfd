"""How far rounding may move a net's gradients: the units that lie so near a kink that it can turn them.

A ReLU's derivative jumps where its input is 0, a max pooling's where its window's two largest values are equal. Two
computations in float32 whose activations differ by up to `NEAR` of a tensor's largest value disagree about units that
are nearer than that. For each of these the gradients are computed again with the unit turned, in float64: the sum of
the changes' sizes bounds what any choice among them does to a value of a gradient, to first order.
"""

import numpy as np
import torch
import torch.nn.functional as F

import caffe_torch
import moka_random

# PyTorch in float32 is up to 2.1e-6 from float64 (make_net_goldens.py's "float32"), and so may Moka be, each on its
# own side.
NEAR = 4e-6


def near_relus(x):
    """Flat indices of inputs that lie near 0."""
    return (x.abs() < NEAR * x.abs().max()).reshape(-1).nonzero().reshape(-1).tolist()


def near_windows(layer, x):
    """Pairs of flat indices into x: a window's largest value, and another that nearly equals it."""
    p = layer.pooling_param
    kernel, stride = p.kernel_size[0], p.stride[0]
    assert not p.pad and not (x.shape[2] - kernel) % stride and not (x.shape[3] - kernel) % stride
    places = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape)

    def windows(t):
        parts = F.unfold(t, kernel, stride=stride)  # [N, C*k*k, windows]
        return parts.reshape(t.shape[0], t.shape[1], kernel * kernel, -1)

    values, order = windows(x).sort(dim=2, descending=True)
    where = windows(places).gather(2, order)
    least = NEAR * x.abs().max()
    is_rectified = bool((x >= 0).all())
    pairs = set()
    for k in range(1, kernel * kernel):
        near = values[:, :, 0] - values[:, :, k] < least
        if is_rectified:  # a largest value of 0 comes from ReLUs that are off, or near 0 and counted there
            near &= values[:, :, 0] > least
        pairs.update(zip(where[:, :, 0][near].long().tolist(), where[:, :, k][near].long().tolist()))
    return sorted(pairs)


class Turned:
    """Stands in for ReLU and MAX pooling: finds the units, or turns one of them."""

    def __init__(self):
        self.found, self.turned = [], None

    def relu(self, layer, x):
        top = F.relu(x)
        if self.turned is None:
            self.found += [(layer.name, i) for i in near_relus(x.detach())]
        elif self.turned[0] == layer.name:
            unit = x.reshape(-1)[self.turned[1]]
            change = torch.zeros(x.numel(), dtype=x.dtype)
            change[self.turned[1]] = 1
            top = top + change.reshape(x.shape) * (-unit if unit > 0 else unit)
        return top

    def pooling(self, net, layer, x):
        if layer.pooling_param.pool != layer.pooling_param.MAX:
            return POOLING(net, layer, x)
        tops = POOLING(net, layer, x)
        if self.turned is None:
            self.found += [(layer.name, pair) for pair in near_windows(layer, x[0].detach())]
        elif self.turned[0] == layer.name:
            first, second = self.turned[1]
            flat = x[0].reshape(-1)
            from_first = (tops[1].long() == first % (x[0].shape[2] * x[0].shape[3]))
            plane = torch.zeros_like(from_first)
            n, c = divmod(first // (x[0].shape[2] * x[0].shape[3]), x[0].shape[1])
            plane[n, c] = True
            tops = [tops[0] + (from_first & plane).to(flat.dtype) * (flat[second] - flat[first]), tops[1]]
        return tops


POOLING = caffe_torch.pooling


def bounds(layers, inputs):
    """{"near", "units", "gradients": {name: {"samples": of the largest value, "norm": of the norm}}}."""
    turned = Turned()
    relu = caffe_torch.ACTIVATIONS["ReLU"]
    caffe_torch.ACTIVATIONS["ReLU"], caffe_torch.LAYERS["Pooling"] = turned.relu, turned.pooling

    def gradients():
        net = caffe_torch.Net(layers, torch.float64)
        net.forward(inputs).backward()
        return {k: v.grad.reshape(-1).numpy() for k, v in net.params.items() if v.requires_grad}

    try:
        plain = gradients()
        units = turned.found
        change = {k: np.zeros_like(v) for k, v in plain.items()}
        for unit in units:
            turned.turned = unit
            for key, gradient in gradients().items():
                change[key] += np.abs(gradient - plain[key])
    finally:
        caffe_torch.ACTIVATIONS["ReLU"], caffe_torch.LAYERS["Pooling"] = relu, POOLING
    result = {}
    for key, moved in change.items():
        samples = moved[moka_random.sample_indices("gradient:" + key, len(moved))]
        result[key] = {"samples": float(f"{samples.max() / np.abs(plain[key]).max():.3g}"),
                       "norm": float(f"{np.linalg.norm(moved) / np.linalg.norm(plain[key]):.3g}")}
    return {"near": NEAR, "units": len(units), "gradients": result}
