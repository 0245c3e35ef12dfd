"""Cases of activations, windows, normalisations and shapes.

A case is a name, the fields of the layer under test and its bottoms. Bottoms are named a, b, c ..., tops y, y1, ...; a
text with whole layers in it is used as it is.
"""

from case import Case, Fixed, Normal, Between, Plain


def activations():
    shape = (2, 3, 4, 5)
    for name, text in [
        ("AbsVal", ""),
        ("BNLL", ""),
        ("TanH", ""),
        ("Sigmoid", ""),
        ("Swish", ""),
        ("Swish beta", "swish_param { beta: 0.7 }"),
        ("ReLU", ""),
        ("ReLU slope", "relu_param { negative_slope: 0.2 }"),
        ("ELU", ""),
        ("ELU alpha", "elu_param { alpha: 0.4 }"),
        ("PReLU", ""),
        ("PReLU shared", "prelu_param { channel_shared: true }"),
        ("Clip", "clip_param { min: -0.5 max: 0.8 }"),
        ("Power", "power_param { power: 1 scale: 2 shift: -1 }"),
        ("Power 0", "power_param { power: 0 shift: 2 }"),
        ("Power 2", "power_param { power: 2 scale: -0.5 shift: 0.3 }"),
        ("Power 3", "power_param { power: 3 }"),
        ("Power scale 0", "power_param { power: 2 scale: 0 shift: 3 }"),
        ("Exp", ""),
        ("Exp base", "exp_param { base: 2 scale: 0.5 shift: 0.25 }"),
        ("Exp e", "exp_param { scale: -0.5 shift: 1 }"),
    ]:
        yield Case(name, f'type: "{name.split()[0]}" {text}', Normal(*shape))
    for name, text in [
        ("Log", ""),
        ("Log base", "log_param { base: 10 scale: 2 shift: 0.5 }"),
        ("Power half", "power_param { power: 0.5 scale: 1.5 shift: 0.1 }"),
        ("Power -1", "power_param { power: -1 }"),
    ]:
        yield Case(name, f'type: "{name.split()[0]}" {text}', Between(0.2, 3, *shape))
    yield Case("Threshold", 'type: "Threshold" threshold_param { threshold: 0.3 }', Plain(*shape))
    yield Case("Dropout test", 'type: "Dropout" dropout_param { dropout_ratio: 0.4 }', Normal(*shape), phase="TEST")
    for kind in ("ReLU", "TanH", "Sigmoid", "ELU", "PReLU", "Swish", "BNLL", "Power", "Dropout", "Scale", "Bias"):
        yield Case(
            f"{kind} in place",
            f'layer {{ name: "tested" type: "{kind}" bottom: "a" top: "a" }}\n'
            'layer { name: "after" type: "Power" bottom: "a" top: "y" power_param { scale: 2 } }\n',
            Normal(*shape),
            phase="TEST" if kind == "Dropout" else "TRAIN",
            known={
                "BNLL": "Caffe's gradient in place reads the bottom it has overwritten",
                "Power": "Caffe's gradient in place with power 1 overwrites the gradient it multiplies by",
            }.get(kind),
        )
    yield Case("PReLU matrix", 'type: "PReLU"', Normal(4, 6))


def convolutions():
    fields = [
        ("1x1", "kernel_size: 1", (2, 3, 5, 6)),
        ("3x3", "kernel_size: 3", (2, 3, 7, 8)),
        ("pad stride", "kernel_size: 3 pad: 1 stride: 2", (2, 3, 7, 8)),
        ("oblong", "kernel_h: 3 kernel_w: 2 pad_h: 2 pad_w: 1 stride_h: 1 stride_w: 2", (2, 3, 7, 8)),
        ("lists", "kernel_size: 3 kernel_size: 1 pad: 1 pad: 0 stride: 2 stride: 1", (2, 3, 7, 8)),
        ("dilation", "kernel_size: 3 dilation: 2 pad: 2", (2, 3, 7, 8)),
        ("dilations", "kernel_size: 3 dilation: 1 dilation: 2 pad: 2", (2, 3, 7, 8)),
        ("group", "kernel_size: 3 group: 2", (2, 4, 6, 6)),
        ("depthwise", "kernel_size: 3 group: 4 pad: 1", (2, 4, 6, 6)),
        ("no bias", "kernel_size: 3 bias_term: false", (2, 3, 5, 5)),
        ("1-D", "kernel_size: 3 pad: 1 stride: 2", (2, 3, 9)),
        ("3-D", "kernel_size: 2 stride: 1 pad: 1", (2, 3, 3, 4, 5)),
        ("axis 2", "kernel_size: 3 axis: 2", (2, 3, 2, 8)),
        ("axis -2", "kernel_size: 2 axis: -2", (2, 3, 4, 8)),
        ("force nd", "kernel_size: 3 pad: 1 stride: 2 force_nd_im2col: true", (2, 3, 7, 8)),
    ]
    for kind in ("Convolution", "Deconvolution"):
        for name, text, shape in fields:
            yield Case(f"{kind} {name}", f'type: "{kind}" convolution_param {{ num_output: 4 {text} }}', Normal(*shape))
        yield Case(
            f"{kind} two bottoms",
            f'type: "{kind}" convolution_param {{ num_output: 4 kernel_size: 3 }}',
            Normal(2, 3, 5, 6),
            Normal(2, 3, 5, 6),
            tops=2,
        )
    yield Case(
        "Deconvolution upsampling",
        'type: "Deconvolution" convolution_param { num_output: 4 kernel_size: 4 stride: 2 '
        'pad: 1 group: 4 bias_term: false weight_filler { type: "bilinear" } }',
        Normal(2, 4, 4, 5),
    )
    for name, text, shape in fields:
        if "group" not in text and "bias" not in text:
            yield Case(f"Im2col {name}", f'type: "Im2col" convolution_param {{ {text} }}', Normal(*shape))


def poolings():
    fields = [
        ("2x2", "kernel_size: 2 stride: 2", (2, 3, 6, 8)),
        ("ceil", "kernel_size: 3 stride: 2", (2, 3, 6, 8)),
        ("pad", "kernel_size: 3 stride: 2 pad: 1", (2, 3, 7, 6)),
        ("pad 1 stride 1", "kernel_size: 3 pad: 1", (2, 3, 5, 5)),
        ("oblong", "kernel_h: 3 kernel_w: 2 pad_h: 1 pad_w: 0 stride_h: 2 stride_w: 3", (2, 3, 7, 8)),
        ("global", "global_pooling: true", (2, 3, 5, 7)),
        ("stride above kernel", "kernel_size: 2 stride: 3", (2, 3, 8, 8)),
        ("floor", "kernel_size: 3 stride: 2 round_mode: FLOOR", (2, 3, 6, 8)),
    ]
    for method in ("MAX", "AVE"):
        for name, text, shape in fields:
            yield Case(
                f"Pooling {method} {name}", f'type: "Pooling" pooling_param {{ pool: {method} {text} }}', Normal(*shape)
            )
    yield Case(
        "Pooling MAX mask",
        'type: "Pooling" pooling_param { pool: MAX kernel_size: 3 stride: 2 }',
        Normal(2, 3, 7, 8),
        tops=2,
        weighed=["y"],
    )
    for height in (1, 2, 3):
        for method in ("MAX", "AVE"):
            yield Case(
                f"SPP {method} {height}",
                f'type: "SPP" spp_param {{ pool: {method} pyramid_height: {height} }}',
                Normal(2, 3, 9, 11),
            )


def normalizations():
    for name, text, shape in [
        ("", "", (2, 7, 4, 5)),
        (" 3", "local_size: 3 alpha: 0.3 beta: 0.5 k: 2", (2, 7, 4, 5)),
        (" within", "norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5", (2, 3, 5, 6)),
        (" within 5", "norm_region: WITHIN_CHANNEL local_size: 5 alpha: 2 beta: 0.9", (2, 3, 6, 7)),
        (" wider than channels", "local_size: 9 alpha: 1", (2, 4, 3, 3)),
    ]:
        yield Case("LRN" + name, f'type: "LRN" lrn_param {{ {text} }}', Normal(*shape))
    for name, text in [
        ("", ""),
        (" no variance", "normalize_variance: false"),
        (" across", "across_channels: true"),
        (" across no variance", "across_channels: true normalize_variance: false"),
        (" eps", "eps: 0.1"),
    ]:
        yield Case(
            "MVN" + name,
            f'type: "MVN" mvn_param {{ {text} }}',
            Normal(2, 3, 4, 5),
            known="Caffe's gradient is that of eps 0" if "eps" in name else None,
        )
    for name, text, phase, shape in [
        (" train", "", "TRAIN", (4, 3, 4, 5)),
        (" test", "", "TEST", (4, 3, 4, 5)),
        (" eps", "eps: 0.1", "TRAIN", (4, 3, 2, 2)),
        (" global in train", "use_global_stats: true", "TRAIN", (4, 3, 4, 5)),
        (" local in test", "use_global_stats: false", "TEST", (4, 3, 4, 5)),
        (" matrix", "", "TRAIN", (8, 5)),
        (" 3-D", "", "TRAIN", (3, 4, 2, 3, 2)),
    ]:
        yield Case("BatchNorm" + name, f'type: "BatchNorm" batch_norm_param {{ {text} }}', Normal(*shape), phase=phase)
    yield Case(
        "BatchNorm and Scale",
        'layer { name: "bn" type: "BatchNorm" bottom: "a" top: "a" }\n'
        'layer { name: "scale" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }\n'
        'layer { name: "relu" type: "ReLU" bottom: "a" top: "y" }\n',
        Normal(4, 3, 4, 5),
    )
    for kind, field in (("Scale", "scale_param"), ("Bias", "bias_param")):
        for name, text, shape in [
            ("", "", (2, 3, 4, 5)),
            (" axis 0", "axis: 0", (2, 3, 4)),
            (" axes", "axis: 1 num_axes: 2", (2, 3, 4, 5)),
            (" axis -1", "axis: -1", (2, 3, 4, 5)),
            (" all", "axis: 0 num_axes: -1", (2, 3, 4)),
            (" scalar", "num_axes: 0", (2, 3, 4)),
        ]:
            yield Case(kind + name, f'type: "{kind}" {field} {{ {text} }}', Normal(*shape))
        yield Case(f"{kind} two bottoms", f'type: "{kind}" {field} {{ axis: 1 }}', Normal(2, 3, 4, 5), Normal(3, 4))
        yield Case(f"{kind} two bottoms axis 0", f'type: "{kind}" {field} {{ axis: 0 }}', Normal(2, 3, 4, 5), Normal(2))
    yield Case("Scale bias", 'type: "Scale" scale_param { bias_term: true }', Normal(2, 3, 4, 5))
    yield Case(
        "Scale bias axes", 'type: "Scale" scale_param { bias_term: true axis: 0 num_axes: 2 }', Normal(2, 3, 4, 5)
    )
    yield Case("Scale two bottoms bias", 'type: "Scale" scale_param { bias_term: true }', Normal(2, 3, 4, 5), Normal(3))


def shapes():
    four = Normal(2, 3, 4, 5)
    for axis in (0, 1, 2, 3, -1):
        yield Case(f"Concat axis {axis}", f'type: "Concat" concat_param {{ axis: {axis} }}', four, Normal(2, 3, 4, 5))
    yield Case("Concat one", 'type: "Concat"', four)
    yield Case(
        "Concat concat_dim",
        'type: "Concat" concat_param { concat_dim: 0 }',
        four,
        Normal(3, 3, 4, 5),
        Normal(1, 3, 4, 5),
    )
    yield Case("Concat unequal", 'type: "Concat"', four, Normal(2, 1, 4, 5), Normal(2, 6, 4, 5))
    for name, text, shape, tops in [
        ("equal", "", (2, 6, 3), 3),
        ("points", "slice_point: 1 slice_point: 4", (2, 6, 3), 3),
        ("axis", "axis: 2", (2, 3, 4), 2),
        ("axis -1", "axis: -1 slice_point: 1", (2, 3, 4), 2),
        ("slice_dim", "slice_dim: 0", (4, 3), 2),
        ("one", "", (2, 3), 1),
    ]:
        yield Case(f"Slice {name}", f'type: "Slice" slice_param {{ {text} }}', Normal(*shape), tops=tops)
    yield Case(
        "Split", 'type: "Split"', four, tops=3, known="the tops are one value here, so each has the whole gradient"
    )
    for name, text in [
        ("", ""),
        (" axis 2", "axis: 2"),
        (" axis 0", "axis: 0"),
        (" end", "axis: 1 end_axis: 2"),
        (" end -2", "axis: 0 end_axis: -2"),
    ]:
        yield Case("Flatten" + name, f'type: "Flatten" flatten_param {{ {text} }}', four)
    for name, text in [
        ("", "shape { dim: 0 dim: -1 }"),
        (" 2", "shape { dim: 2 dim: 3 dim: 2 dim: -1 }"),
        (" axis", "axis: 1 num_axes: 2 shape { dim: 2 dim: 6 }"),
        (" insert", "axis: 1 num_axes: 0 shape { dim: 1 }"),
        (" axis -1", "axis: -1 num_axes: 0 shape { dim: 1 dim: 1 }"),
        (" copies", "axis: 2 shape { dim: 0 dim: 5 dim: 1 }"),
    ]:
        yield Case("Reshape" + name, f'type: "Reshape" reshape_param {{ {text} }}', four)
    for axis, tiles in ((0, 2), (1, 3), (3, 2), (-1, 1), (-2, 4)):
        yield Case(f"Tile {axis} {tiles}", f'type: "Tile" tile_param {{ axis: {axis} tiles: {tiles} }}', four)
    for name, text in [
        ("", ""),
        (" offset", "offset: 1"),
        (" offsets", "axis: 2 offset: 2 offset: 1"),
        (" axis 1", "axis: 1 offset: 1"),
        (" axis 3", "axis: 3 offset: 2"),
        (" axis -1", "axis: -1 offset: 3"),
        (" all offsets", "axis: 1 offset: 0 offset: 1 offset: 2"),
    ]:
        other = {" axis 1": (2, 2, 4, 5), " axis 3": (1, 1, 1, 4), " axis -1": (1, 1, 1, 4)}.get(name, (1, 3, 4, 3))
        yield Case("Crop" + name, f'type: "Crop" crop_param {{ {text} }}', Normal(2, 3, 6, 7), Plain(*other))
    for operation in ("SUM", "MEAN", "SUMSQ", "ASUM"):
        for name, text in [
            ("", ""),
            (" axis 1", "axis: 1"),
            (" axis -1", "axis: -1 coeff: 0.3"),
            (" coeff", "axis: 2 coeff: -2"),
        ]:
            yield Case(
                f"Reduction {operation}{name}",
                f'type: "Reduction" reduction_param {{ operation: {operation} {text} }}',
                four,
            )
    for name, text, count in [
        ("SUM", "", 2),
        ("SUM coeff", "coeff: 2 coeff: -0.5 coeff: 1", 3),
        ("PROD", "operation: PROD", 2),
        ("PROD 3", "operation: PROD", 3),
        ("PROD 3 unstable", "operation: PROD stable_prod_grad: false", 3),
        ("MAX", "operation: MAX", 2),
        ("MAX 3", "operation: MAX", 3),
    ]:
        yield Case(
            f"Eltwise {name}",
            f'type: "Eltwise" eltwise_param {{ {text} }}',
            *[Normal(2, 3, 4, 5) for _ in range(count)],
        )
    yield Case("BatchReindex", 'type: "BatchReindex"', Normal(5, 3, 2), Fixed([0, 3, 3, 1, 4, 3, 0], 7))
    yield Case("Filter all", 'type: "Filter"', Normal(4, 3), Fixed([1], 4))
    yield Case("Filter some", 'type: "Filter"', Plain(5, 3), Plain(5, 1, 2), Fixed([1, 0, 0, 1, 1], 5), tops=2)
    yield Case(
        "Silence",
        'layer { name: "tested" type: "Silence" bottom: "b" }\n'
        'layer { name: "after" type: "Power" bottom: "a" top: "y" }\n',
        four,
        Plain(2),
    )
    yield Case(
        "Parameter",
        'layer { name: "tested" type: "Parameter" top: "p" parameter_param { shape { dim: 2 dim: 3 } } }\n'
        'layer { name: "after" type: "Eltwise" bottom: "a" bottom: "p" top: "y" eltwise_param { operation: PROD } }\n',
        Normal(2, 3),
    )
    yield Case(
        "DummyData",
        'layer { name: "tested" type: "DummyData" top: "d" dummy_data_param { shape { dim: 2 dim: 3 } '
        'data_filler { type: "constant" value: 1.5 } } }\n'
        'layer { name: "after" type: "Eltwise" bottom: "a" bottom: "d" top: "y" eltwise_param { operation: PROD } }\n',
        Normal(2, 3),
    )
    for name, text, shape in [
        ("", "", (3, 7)),
        (" top_k", "top_k: 3", (3, 7)),
        (" values", "out_max_val: true top_k: 2", (3, 7)),
        (" axis", "axis: 1", (2, 5, 3)),
        (" axis top_k", "axis: 1 top_k: 2", (2, 5, 3, 2)),
        (" axis values", "axis: -1 out_max_val: true", (2, 3, 5)),
        (" maps", "top_k: 2", (2, 3, 2, 2)),
    ]:
        yield Case("ArgMax" + name, f'type: "ArgMax" argmax_param {{ {text} }}', Plain(*shape))
