"""How coordinates of one top relate to those of another, for cropping feature maps into line.

A map is (axis, scale, shift): output coordinate = scale * input coordinate + shift, from `axis` on; axis None means it
holds for all axes (the identity of pointwise layers).
"""

import numpy as np

from .net_spec import layers as L

PASS_THROUGH_LAYERS = ["AbsVal", "BatchNorm", "Bias", "BNLL", "Dropout", "Eltwise", "ELU", "Log", "LRN", "Exp", "MVN",
                       "Power", "ReLU", "PReLU", "Scale", "Sigmoid", "Split", "TanH", "Threshold"]


class UndefinedMapException(Exception):
    """The layer has no map of coordinates."""


class AxisMismatchException(Exception):
    """Two maps are about different axes."""


def conv_params(fn):
    """(axis, stride, extent of the kernel, pad) of a layer with a sliding window."""
    fields = fn.params.get("convolution_param", fn.params)
    old = {"pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w"} & set(fn.params)
    assert not old, "cropping does not support legacy _h/_w params"
    kernel = np.array(fields["kernel_size"], ndmin=1)
    dilation = np.array(fields.get("dilation", 1), ndmin=1)
    return (fields.get("axis", 1), np.array(fields.get("stride", 1), ndmin=1), (kernel - 1) * dilation + 1,
            np.array(fields.get("pad", 0), ndmin=1))


def crop_params(fn):
    """(axis, offsets) of a Crop layer."""
    fields = fn.params.get("crop_param", fn.params)
    return fields.get("axis", 2), np.array(fields.get("offset", 0), ndmin=1)


def coord_map(fn):
    """The map from a layer's bottom to its top. Raises UndefinedMapException."""
    if fn.type_name in ("Convolution", "Pooling", "Im2col"):
        axis, stride, extent, pad = conv_params(fn)
        return axis, 1 / stride, (pad - (extent - 1) / 2) / stride
    if fn.type_name == "Deconvolution":
        axis, stride, extent, pad = conv_params(fn)
        return axis, stride, (extent - 1) / 2 - pad
    if fn.type_name in PASS_THROUGH_LAYERS:
        return None, 1, 0
    if fn.type_name == "Crop":
        axis, offset = crop_params(fn)
        return axis - 1, 1, -offset  # maps count from the last axis before the coordinates
    raise UndefinedMapException(fn.type_name)


def compose(base_map, next_map):
    """base_map after next_map."""
    axis, scale, shift = base_map
    next_axis, next_scale, next_shift = next_map
    if axis is not None and next_axis is not None and axis != next_axis:
        raise AxisMismatchException("axes {} and {}".format(axis, next_axis))
    return next_axis if axis is None else axis, scale * next_scale, scale * next_shift + shift


def inverse(coord_map):
    """The map the other way."""
    axis, scale, shift = coord_map
    return axis, 1 / scale, -shift / scale


def _bottoms(top):
    """The bottoms to follow: of a Crop only the one it cuts from."""
    return top.fn.inputs[:1] if top.fn.type_name == "Crop" else top.fn.inputs


def _step(top, maps):
    """Adds the maps of a top's bottoms and returns those bottoms; none where the layer has no map."""
    try:
        step = coord_map(top.fn)
        for bottom in _bottoms(top):
            maps[bottom] = compose(maps[top], step)
        return _bottoms(top)
    except UndefinedMapException:
        return ()


def coord_map_from_to(top_from, top_to):
    """The map from top_from's coordinates to top_to's, through a blob both come from. Raises RuntimeError."""
    from_maps = {top_from: (None, 1, 0)}
    frontier = {top_from}
    while frontier:
        frontier.update(_step(frontier.pop(), from_maps))
    to_maps = {top_to: (None, 1, 0)}
    frontier = {top_to}
    while frontier:
        top = frontier.pop()
        if top in from_maps:
            return compose(to_maps[top], inverse(from_maps[top]))
        frontier.update(_step(top, to_maps))
    raise RuntimeError("Could not compute map between tops; are they connected by spatial layers?")


def crop(top_from, top_to):
    """A Crop layer that cuts top_from to the place and size of top_to."""
    axis, scale, shift = coord_map_from_to(top_from, top_to)
    assert (scale == 1).all(), "scale mismatch on crop (a = {})".format(scale)
    assert (shift <= 0).all(), "cannot crop negative offset (b = {})".format(shift)
    assert (np.round(shift) == shift).all(), "cannot crop noninteger offset (b = {})".format(shift)
    offsets = [int(v) for v in -np.round(shift)]
    return L.Crop(top_from, top_to, crop_param=dict(axis=axis + 1, offset=offsets))
