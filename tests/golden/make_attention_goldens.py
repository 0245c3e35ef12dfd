"""Records the layers of attention on small inputs in float64: LayerNorm, GELU, Positions, scaled and masked products.

Usage: python3 make_attention_goldens.py      writes layers_attention.json, in the format of make_layer_goldens.py

The references are PyTorch's: layer_norm, gelu, matmul, softmax of scores that a mask has filled with -infinity, and for
whole attentions scaled_dot_product_attention with `is_causal` and masks. A row whose every element is masked, where
PyTorch's softmax is NaN, is 0 as the layer's page says.
"""

import math

import numpy as np
import torch
from torch.nn import functional

from single_layers import CASES, case, write

SEEN = np.array([[[1.0, 1.0, 1.0, 0.0, 1.0]], [[0.0, 0.0, 1.0, 1.0, 1.0]]])  # [2,1,5]
HIDDEN_ROW = np.array([[[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [2.0, -1.0, 1.0], [1.0, 1.0, 1.0]]])  # [1,4,3]


def layer_norms():
    def run(axis, eps, affine):
        def function(x, w):
            shape = x[0].shape[axis:]
            return [functional.layer_norm(x[0], shape, w[0] if affine else None, w[1] if affine else None, eps)]

        return function

    case("layer_norm", "LayerNorm", "", [(3, 2, 8)], run(-1, 1e-5, True), [(8,), (8,)])
    case("layer_norm_eps", "LayerNorm", "layer_norm_param { eps: 0.25 }", [(4, 6)], run(-1, 0.25, True), [(6,), (6,)])
    case("layer_norm_axes", "LayerNorm", "layer_norm_param { axis: 1 }", [(2, 3, 2, 2)], run(1, 1e-5, True),
         [(3, 2, 2), (3, 2, 2)])
    case("layer_norm_plain", "LayerNorm", "layer_norm_param { affine: false axis: -2 }", [(2, 3, 4)],
         run(-2, 1e-5, False))
    # Large against its deviation: the variance must be of differences.
    case("layer_norm_far", "LayerNorm", "", [np.array([[1000.5, 1001.25, 999.75, 1000.0]])], run(-1, 1e-5, True),
         [(4,), (4,)])
    case("layer_norm_one", "LayerNorm", "", [(3, 1)], run(-1, 1e-5, True), [(1,), (1,)])


def gelus():
    case("gelu", "GELU", "", [(3, 5)], lambda x, _: [functional.gelu(x[0])])
    case("gelu_wide", "GELU", "", [np.array([-40.0, -6.0, -3.0, -0.75, -0.0, 0.5, 2.0, 6.0, 40.0])],
         lambda x, _: [functional.gelu(x[0])])


def positions():
    def run(axis):
        def function(x, _):
            shape = [1] * x[0].dim()
            shape[axis] = -1
            return [torch.arange(x[0].shape[axis], dtype=torch.float64).reshape(shape).expand(x[0].shape)]

        return function

    case("positions", "Positions", "", [(5, 2)], run(0), silent_tops=[0])
    case("positions_last", "Positions", "positions_param { axis: -1 }", [(2, 3, 4)], run(-1), silent_tops=[0])
    case("positions_middle", "Positions", "positions_param { axis: 1 }", [(2, 3, 4)], run(1), silent_tops=[0])


def scaled_products():
    half = 0.5
    case("mat_mul_scale", "MatMul", "matmul_param { transpose_b: true scale: 0.5 }", [(2, 3, 4), (2, 5, 4)],
         lambda x, _: [half * torch.matmul(x[0], x[1].transpose(-1, -2))])
    case("mat_mul_scale_shared", "MatMul", "matmul_param { scale: -2 }", [(2, 2, 3, 4), (4, 5)],
         lambda x, _: [-2 * torch.matmul(x[0], x[1])])


def masked(x, hidden, axis):
    """softmax of x without what is hidden, 0 where a whole line is."""
    filled = x.masked_fill(hidden, -math.inf)
    empty = hidden.all(axis, keepdim=True).expand_as(x)
    return torch.softmax(torch.where(empty, torch.zeros_like(x), filled), axis).masked_fill(hidden, 0)


def causal(rows, columns):
    return torch.ones(rows, columns, dtype=torch.bool).triu(1)


def softmaxes():
    seen = torch.tensor(SEEN) == 0
    case("softmax_mask", "Softmax", "softmax_param { axis: 2 }", [(2, 4, 5), SEEN],
         lambda x, _: [masked(x[0], seen.expand_as(x[0]), 2)], no_gradient=[1])
    case("softmax_mask_middle", "Softmax", "softmax_param { axis: 1 }", [(2, 4, 3), HIDDEN_ROW[:, :, :1]],
         lambda x, _: [masked(x[0], (torch.tensor(HIDDEN_ROW[:, :, :1]) == 0).expand_as(x[0]), 1)], no_gradient=[1])
    case("softmax_mask_whole_row", "Softmax", "softmax_param { axis: 2 }", [(1, 4, 3), HIDDEN_ROW],
         lambda x, _: [masked(x[0], torch.tensor(HIDDEN_ROW) == 0, 2)], no_gradient=[1])
    case("softmax_causal", "Softmax", "softmax_param { axis: -1 causal: true }", [(2, 2, 4, 4)],
         lambda x, _: [masked(x[0], causal(4, 4).expand_as(x[0]), 3)])
    case("softmax_causal_wide", "Softmax", "softmax_param { axis: 1 causal: true }", [(3, 5)],
         lambda x, _: [masked(x[0], causal(3, 5), 1)])
    case("softmax_causal_mask", "Softmax", "softmax_param { axis: 2 causal: true }", [(2, 5, 5), SEEN],
         lambda x, _: [masked(x[0], seen.expand_as(x[0]) | causal(5, 5), 2)], no_gradient=[1])
    # Scores far below what hides another element.
    case("softmax_mask_low", "Softmax", "softmax_param { axis: 1 }",
         [np.array([[-3000.0, -3001.0, 5.0]]), np.array([[1.0, 1.0, 0.0]])],
         lambda x, _: [masked(x[0], torch.tensor([[False, False, True]]), 1)], no_gradient=[1])


def attentions():
    """Products, scale, mask and softmax as nets use them, against one call of PyTorch's."""
    scale = 1 / math.sqrt(4)
    text = ('bottom: "x1" top: "scores" matmul_param {{ transpose_b: true scale: {} }} }} '
            'layer {{ name: "weights" type: "Softmax" bottom: "scores" {} top: "weights" softmax_param {{ axis: -1 {} }} }} '
            'layer {{ name: "found" type: "MatMul" bottom: "weights" bottom: "x2" top: "y0" ')

    def run(name, bottoms, fields, mask, function, no_gradient=()):
        case(name, "MatMul", "", bottoms, function, no_gradient=no_gradient)
        # The text is of three layers.
        CASES[-1]["layer"] = f'layer {{ name: "{name}" type: "MatMul" bottom: "x0" ' + text.format(
            repr(scale), mask, fields) + "}"

    def attention(**options):
        return lambda x, _: [functional.scaled_dot_product_attention(x[0], x[1], x[2], **options)]

    heads = [(2, 2, 5, 4), (2, 2, 5, 4), (2, 2, 5, 3)]
    run("attention_causal", heads, "causal: true", "", attention(is_causal=True))
    seen = torch.tensor(SEEN != 0)[:, None]
    run("attention_mask", [(2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3), SEEN[:, None]], "", 'bottom: "x3"',
        attention(attn_mask=seen), no_gradient=[3])


def main():
    torch.set_num_threads(1)
    layer_norms()
    gelus()
    positions()
    scaled_products()
    softmaxes()
    attentions()
    write("layers_attention.json")


if __name__ == "__main__":
    main()
