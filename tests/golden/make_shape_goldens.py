"""Records the layers that move, crop, reorder or select, and small ones beside them: MVN, Normalize, Axpy, ReLU6, ...

Usage: python3 make_shape_goldens.py      writes layers_shape.json, in the format of make_layer_goldens.py
"""

import itertools
import math

import numpy as np
import torch

from make_layer_goldens import values
from single_layers import case, write


def reindexing():
    index = np.array([3.0, 0.0, 3.0, 1.0, 3.0])
    case("batch_reindex", "BatchReindex", "", [(4, 2, 3), index], lambda x, p: [x[0][[3, 0, 3, 1, 3]]],
         no_gradient=[1])
    case("batch_reindex_numbers", "BatchReindex", "", [(3,), np.array([2.0, 2.0])], lambda x, p: [x[0][[2, 2]]],
         no_gradient=[1])

    def kept(rows):
        return lambda x, p: [torch.cat([b[rows], torch.zeros_like(b)[len(rows):]]) for b in x[:-1]]

    case("filter", "Filter", "", [(5, 2), (5, 2, 2), np.array([0.0, 1.0, -2.0, 0.0, 0.5])], kept([1, 2, 4]), tops=2,
         no_gradient=[2])
    case("filter_none", "Filter", "", [(3, 2), np.zeros((3, 1, 1, 1))], kept([]), no_gradient=[1])
    case("filter_all", "Filter", "", [(3, 2), np.ones((3, 1))], kept([0, 1, 2]), no_gradient=[1])


def cropping():
    def crop(axis, offsets, size):
        def run(x, p):
            y = x[0]
            for i in range(axis, y.dim()):
                y = y.narrow(i, offsets[i - axis], size[i])
            return [y]
        return run

    case("crop_default", "Crop", "", [(2, 3, 5, 6), (1, 1, 3, 4)], crop(2, [0, 0], (1, 1, 3, 4)))
    case("crop_offset", "Crop", "crop_param { offset: 2 }", [(2, 3, 5, 6), (1, 1, 3, 4)], crop(2, [2, 2], (1, 1, 3, 4)))
    case("crop_offsets", "Crop", "crop_param { axis: 1 offset: 1 offset: 0 offset: 2 }", [(2, 3, 5, 6), (1, 2, 5, 4)],
         crop(1, [1, 0, 2], (1, 2, 5, 4)))
    case("crop_last_axis", "Crop", "crop_param { axis: -1 offset: 1 }", [(2, 3, 4), (2, 3, 2)],
         crop(2, [1], (2, 3, 2)))
    case("crop_nothing", "Crop", "", [(2, 1, 3, 3), (2, 4, 3, 3)], crop(2, [0, 0], (2, 4, 3, 3)))


def moving():
    case("permute", "Permute", "permute_param { order: 0 order: 2 order: 3 order: 1 }", [(2, 3, 4, 2)],
         lambda x, p: [x[0].permute(0, 2, 3, 1)])
    case("permute_rest_appended", "Permute", "permute_param { order: 2 }", [(2, 3, 4)],
         lambda x, p: [x[0].permute(2, 0, 1)])
    case("permute_identity", "Permute", "permute_param { order: 0 order: 1 }", [(2, 3, 2)], lambda x, p: [x[0] * 1])

    def shuffle(group):
        def run(x, p):
            per = x[0].shape[1] // group
            return [x[0][:, [i * per + j for j in range(per) for i in range(group)]]]
        return run

    case("shuffle_channel", "ShuffleChannel", "shuffle_channel_param { group: 3 }", [(2, 6, 2, 3)], shuffle(3))
    case("shuffle_channel_flat", "ShuffleChannel", "shuffle_channel_param { group: 2 }", [(2, 6)], shuffle(2))
    case("flip_default", "Flip", "", [(2, 2, 3, 4)], lambda x, p: [x[0].flip(3)])
    case("flip_both", "Flip", "flip_param { flip_height: true }", [(2, 2, 3, 4)], lambda x, p: [x[0].flip(2, 3)])
    case("flip_height", "Flip", "flip_param { flip_width: false flip_height: true }", [(1, 2, 3, 4)],
         lambda x, p: [x[0].flip(2)])


def windows():
    def im2col(kernel, stride, pad, dilation):
        """Window by window, any number of spatial axes."""
        def run(x, p):
            n, c, *size = x[0].shape
            out = [(s + 2 * q - (d * (k - 1) + 1)) // t + 1
                   for s, k, t, q, d in zip(size, kernel, stride, pad, dilation)]
            columns = []
            for channel in range(c):
                for offset in itertools.product(*map(range, kernel)):
                    plane = []
                    for place in itertools.product(*map(range, out)):
                        at = [o * t - q + k * d for o, t, q, k, d in zip(place, stride, pad, offset, dilation)]
                        inside = all(0 <= a < s for a, s in zip(at, size))
                        plane.append(x[0][(slice(None), channel, *at)] if inside else torch.zeros(n).double())
                    columns.append(torch.stack(plane, 1).reshape(n, *out))
            return [torch.stack(columns, 1)]
        return run

    case("im2col", "Im2col", "convolution_param { kernel_size: 3 pad: 1 stride: 2 }", [(2, 2, 5, 4)],
         im2col((3, 3), (2, 2), (1, 1), (1, 1)))
    case("im2col_dilation", "Im2col",
         "convolution_param { kernel_h: 2 kernel_w: 3 pad_h: 0 pad_w: 2 dilation: 2 dilation: 1 }", [(1, 2, 5, 4)],
         im2col((2, 3), (1, 1), (0, 2), (2, 1)))
    case("im2col_one_axis", "Im2col", "convolution_param { kernel_size: 2 dilation: 3 }", [(2, 3, 6)],
         im2col((2,), (1,), (0,), (3,)))
    case("im2col_three_axes", "Im2col",
         "convolution_param { kernel_size: 2 stride: 1 stride: 2 stride: 1 dilation: 2 }", [(1, 1, 4, 3, 4)],
         im2col((2, 2, 2), (1, 2, 1), (0, 0, 0), (2, 2, 2)))
    case("im2col_one_by_one", "Im2col", "convolution_param { kernel_size: 1 }", [(1, 2, 2, 3)],
         im2col((1, 1), (1, 1), (0, 0), (1, 1)))

    def by_items(axis, function):
        """function on [N,C,spatial..], N all axes before `axis`."""
        def run(x, p):
            (y,) = function([x[0].flatten(0, axis - 1) if axis else x[0][None]], p)
            return [y.reshape(*x[0].shape[:axis], *y.shape[1:])]
        return run

    def convolved(x, p):
        return [[torch.conv1d, torch.conv2d][x[0].dim() - 3](x[0], *p)]

    def spread(x, p):
        return [torch.conv_transpose1d(x[0], *p, stride=2)]

    case("im2col_axis_2", "Im2col", "convolution_param { kernel_size: 2 axis: 2 }", [(2, 2, 2, 4)],
         by_items(2, im2col((2,), (1,), (0,), (1,))))
    case("convolution_axis_2", "Convolution", "convolution_param { num_output: 4 kernel_size: 3 axis: 2 }",
         [(2, 3, 2, 5)], by_items(2, convolved), [(4, 2, 3), (4,)])
    case("convolution_axis_0", "Convolution", "convolution_param { num_output: 2 kernel_size: 2 axis: 0 }",
         [(3, 4, 3)], by_items(0, convolved), [(2, 3, 2, 2), (2,)])
    case("deconvolution_axis_last", "Deconvolution",
         "convolution_param { num_output: 3 kernel_size: 3 stride: 2 axis: -2 }", [(2, 2, 2, 3)], by_items(2, spread),
         [(2, 3, 3), (3,)])

    def pyramid(levels, method):
        def pooled(x, bins):
            spans, counts = [], []
            for size in x.shape[2:]:
                k = math.ceil(size / bins)
                pad = (k * bins - size + 1) // 2
                starts = [b * k - pad for b in range(bins)]
                counts.append([min(s + k, size + pad) - s for s in starts])
                spans.append([(max(s, 0), min(s + k, size)) for s in starts])
            out = []
            for (h, height), (w, width) in itertools.product(zip(spans[0], counts[0]), zip(spans[1], counts[1])):
                window = x[:, :, h[0]:h[1], w[0]:w[1]].flatten(2)
                out.append(window.max(2).values if method == "MAX" else window.sum(2) / (height * width))
            return torch.stack(out, 2)

        def run(x, p):
            if levels == 1:
                return [pooled(x[0], 1)[..., None]]
            return [torch.cat([pooled(x[0], 2**i).flatten(1) for i in range(levels)], 1)]
        return run

    case("spp_max", "SPP", "spp_param { pyramid_height: 3 }", [(2, 2, 7, 9)], pyramid(3, "MAX"))
    case("spp_ave", "SPP", "spp_param { pyramid_height: 3 pool: AVE }", [(1, 2, 7, 10)], pyramid(3, "AVE"))
    case("spp_one_level", "SPP", "spp_param { pyramid_height: 1 pool: AVE }", [(2, 3, 3, 4)], pyramid(1, "AVE"))
    case("spp_even", "SPP", "spp_param { pyramid_height: 2 }", [(1, 2, 4, 4)], pyramid(2, "MAX"))

    def weighted(x, p):
        y = [[x[0][:, :, i:i + 2, j:j + 2].flatten(2) for j in (0, 2)] for i in (0, 2)]
        return [torch.stack([torch.stack([(w * w).sum(2) / w.sum(2) for w in row], 2) for row in y], 2)]

    case("pool_stochastic_test", "Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 2 stride: 2 }",
         [values("pool_stochastic_test", (2, 2, 4, 4), 0.1, 1)], weighted, phase="TEST")


def normalisations():
    def mvn(axes, variance, eps):
        def run(x, p):
            centred = x[0] - x[0].mean(axes, keepdim=True)
            if not variance:
                return [centred]
            return [centred / ((centred**2).mean(axes, keepdim=True).sqrt() + eps)]
        return run

    case("mvn", "MVN", "", [(2, 3, 3, 2)], mvn((2, 3), True, 1e-9))
    case("mvn_eps", "MVN", "mvn_param { eps: 0.25 }", [(2, 3, 3, 2)], mvn((2, 3), True, 0.25))
    case("mvn_across", "MVN", "mvn_param { across_channels: true }", [(2, 3, 2, 2)], mvn((1, 2, 3), True, 1e-9))
    case("mvn_mean_only", "MVN", "mvn_param { normalize_variance: false }", [(2, 3, 2, 2)], mvn((2, 3), False, 0))
    case("mvn_across_mean_only", "MVN", "mvn_param { normalize_variance: false across_channels: true }", [(2, 4)],
         mvn((1,), False, 0))
    # Caffe's own gradient where nothing varies: (dy - mean(dy)) / eps.
    case("mvn_constant", "MVN", "mvn_param { eps: 0.5 }", [np.full((1, 2, 2, 2), 0.75)],
         lambda x, p: [(x[0] - x[0].mean((2, 3), keepdim=True)) / 0.5])

    def norm(axes, per_channel):
        def run(x, p):
            scale = p[0].reshape(1, -1, *([1] * (x[0].dim() - 2))) if per_channel else p[0]
            return [x[0] / ((x[0]**2).sum(axes, keepdim=True) + np.float64(np.float32(1e-10))).sqrt() * scale]
        return run

    case("normalize_default", "Normalize", "", [(2, 3, 2, 2)], norm((1, 2, 3), False), [()])
    case("normalize_ssd", "Normalize",
         'norm_param { across_spatial: false channel_shared: false scale_filler { type: "constant" value: 20 } }',
         [(2, 3, 2, 2)], norm((1,), True), [(3,)])
    case("normalize_across_channels", "Normalize", "norm_param { channel_shared: false }", [(2, 3, 2)],
         norm((1, 2), True), [(3,)])
    case("normalize_vectors", "Normalize", "norm_param { across_spatial: false }", [(3, 4)], norm((1,), False), [()])

    def axpy(x, p):
        return [x[0].reshape(2, 3, 1, 1) * x[1] + x[2]]

    case("axpy", "Axpy", "", [(2, 3, 1, 1), (2, 3, 2, 2), (2, 3, 2, 2)], axpy)
    case("axpy_flat", "Axpy", "", [(2, 3), (2, 3, 2, 2), (2, 3, 2, 2)], axpy)


def activations():
    shape = [(2, 3, 2, 2)]
    wide = [values("relu6", (2, 3, 2, 2), -4, 10)]
    case("relu6", "ReLU6", "", wide, lambda x, p: [x[0].clamp(0, 6)])
    case("relu6_slope", "ReLU6", "relu6_param { negative_slope: 0.25 }", wide,
         lambda x, p: [torch.where(x[0] > 0, x[0].clamp(max=6), 0.25 * x[0])])
    case("relu6_above", "ReLU6", "", [np.array([[5.5, 6.0, 7.0, -1.0]])],
         lambda x, p: [torch.where(x[0] < 6, x[0].clamp(min=0), x[0].detach() * 0 + 6)])
    case("elu_lambda", "ELU", "elu_param { alpha: 1.5 lambda: 1.25 }", shape,
         lambda x, p: [1.25 * torch.where(x[0] > 0, x[0], 1.5 * (x[0].exp() - 1))])
    case("dropout_scale_test", "Dropout", "dropout_param { dropout_ratio: 0.25 scale_train: false }", shape,
         lambda x, p: [0.75 * x[0]], phase="TEST")
    case("spatial_dropout_test", "SpatialDropout", "", shape, lambda x, p: [1 * x[0]], phase="TEST")


def main():
    torch.set_num_threads(1)
    for group in (reindexing, cropping, moving, windows, normalisations, activations):
        group()
    write("layers_shape.json")


if __name__ == "__main__":
    main()
