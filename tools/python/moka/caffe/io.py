"""Images, arrays and Caffe's messages: loading, resizing, cropping, and the Transformer that prepares a net's input."""

import operator
import os

import numpy as np

from .. import _moka


def refuse_masked(what, array):
    """ValueError if a mask hides something of the array: nets have no masks, and would read what is hidden."""
    if np.ma.is_masked(array):
        raise ValueError("{} has a mask that hides {} of its values, which a net would read: fill them first "
                         "(array.filled(value))".format(what, np.ma.count_masked(array)))


def _is_permutation(order, count):
    """Whether the order has each of 0 .. count-1 once."""
    try:
        return sorted(operator.index(i) for i in order) == list(range(count))
    except TypeError:
        return False


# ---- messages ----

def _messages():
    from .proto import caffe_pb2
    return caffe_pb2


def __getattr__(name):
    if name == "caffe_pb2":  # scripts take it from here too
        return _messages()
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))


def blobproto_to_array(blob, return_diff=False):
    """The values (or the gradient) of a BlobProto as an array."""
    values = np.array(blob.diff if return_diff else blob.data)
    old = any(blob.HasField(name) for name in ("num", "channels", "height", "width"))
    return values.reshape((blob.num, blob.channels, blob.height, blob.width) if old else tuple(blob.shape.dim))


def array_to_blobproto(arr, diff=None):
    """A BlobProto of an array, and of a gradient of the same shape."""
    refuse_masked("the array", arr)
    blob = _messages().BlobProto()
    blob.shape.dim.extend(arr.shape)
    blob.data.extend(np.asarray(arr, float).ravel().tolist())
    if diff is not None:
        refuse_masked("the gradient", diff)
        blob.diff.extend(np.asarray(diff, float).ravel().tolist())
    return blob


def arraylist_to_blobprotovector_str(arraylist):
    """A serialized BlobProtoVector of several arrays."""
    vector = _messages().BlobProtoVector()
    vector.blobs.extend([array_to_blobproto(arr) for arr in arraylist])
    return vector.SerializeToString()


def blobprotovector_str_to_arraylist(str):
    """The arrays of a serialized BlobProtoVector."""
    vector = _messages().BlobProtoVector()
    vector.ParseFromString(str)
    return [blobproto_to_array(blob) for blob in vector.blobs]


def array_to_datum(arr, label=None):
    """A Datum of a [channels, height, width] array: bytes for uint8, else floats."""
    refuse_masked("the array", arr)
    if arr.ndim != 3:
        raise ValueError("Incorrect array shape: a Datum has 3 dimensions, found {}".format(arr.ndim))
    datum = _messages().Datum()
    datum.channels, datum.height, datum.width = arr.shape
    if arr.dtype == np.uint8:
        datum.data = arr.tobytes()
    else:
        datum.float_data.extend(np.asarray(arr, float).ravel().tolist())
    if label is not None:
        datum.label = label
    return datum


def datum_to_array(datum):
    """The [channels, height, width] array of a Datum; its label is datum.label."""
    if len(datum.data):
        values = np.frombuffer(datum.data, dtype=np.uint8).copy()
    else:
        values = np.array(datum.float_data, dtype=float)
    return values.reshape(datum.channels, datum.height, datum.width)


# ---- preparing inputs ----

class Transformer:
    """Prepares images for the inputs of a net: resize, transpose, swap channels, scale, subtract a mean, scale again.

    inputs: {name of an input: its shape [N, C, H, W]}
    """

    def __init__(self, inputs):
        self.inputs = inputs
        self.transpose = {}
        self.channel_swap = {}
        self.raw_scale = {}
        self.mean = {}
        self.input_scale = {}

    def _check_input(self, in_):
        if in_ not in self.inputs:
            raise Exception("{} is not one of the net inputs: {}".format(in_, self.inputs))

    def preprocess(self, in_, data):
        """An image [H, W, K] as the net takes it, [K, H, W] float32: each step that was set, in the order above."""
        self._check_input(in_)
        refuse_masked("the image for {!r}".format(in_), data)
        out = data.astype(np.float32, copy=False)
        size = tuple(self.inputs[in_][2:])
        if tuple(out.shape[:2]) != size:
            out = resize_image(out, size)
        if self.transpose.get(in_) is not None:
            out = out.transpose(self.transpose[in_])
        if self.channel_swap.get(in_) is not None:
            out = out[list(self.channel_swap[in_]), :, :]
        # Caffe changes the caller's array where no step before has copied it; here it stays as it is.
        if self.raw_scale.get(in_) is not None:
            out = out * np.float32(self.raw_scale[in_])
        if self.mean.get(in_) is not None:
            out = out - self.mean[in_].astype(np.float32, copy=False)
        if self.input_scale.get(in_) is not None:
            out = out * np.float32(self.input_scale[in_])
        return out

    def deprocess(self, in_, data):
        """The inverse of preprocess, but for the size."""
        self._check_input(in_)
        out = data.copy().squeeze()
        if self.input_scale.get(in_) is not None:
            out = out / self.input_scale[in_]
        if self.mean.get(in_) is not None:
            out = out + self.mean[in_]
        if self.raw_scale.get(in_) is not None:
            out = out / self.raw_scale[in_]
        if self.channel_swap.get(in_) is not None:
            out = out[np.argsort(self.channel_swap[in_]), :, :]
        if self.transpose.get(in_) is not None:
            out = out.transpose(np.argsort(self.transpose[in_]))
        return out

    def set_transpose(self, in_, order):
        """The order of dimensions: (2, 0, 1) makes [H, W, K] into [K, H, W]."""
        self._check_input(in_)
        if len(order) != len(self.inputs[in_]) - 1:
            raise Exception("Transpose order needs to have the same number of dimensions as the input.")
        if not _is_permutation(order, len(order)):
            raise ValueError("the transpose of {!r} is {}, expected each of 0 to {} once".format(
                in_, order, len(order) - 1))
        self.transpose[in_] = order

    def set_channel_swap(self, in_, order):
        """The order of channels after the transpose: (2, 1, 0) makes RGB into BGR."""
        self._check_input(in_)
        if len(order) != self.inputs[in_][1]:
            raise Exception("Channel swap needs to have the same number of dimensions as the input channels.")
        if not _is_permutation(order, len(order)):
            raise ValueError("the channel swap of {!r} is {}, expected each of 0 to {} once".format(
                in_, order, len(order) - 1))
        self.channel_swap[in_] = order

    def set_raw_scale(self, in_, scale):
        """A factor before the mean is subtracted: 255 for images in [0, 1] and nets that were trained on bytes."""
        self._check_input(in_)
        self.raw_scale[in_] = scale

    def set_mean(self, in_, mean):
        """What is subtracted: one number a channel, or an image, which is resized where it must be."""
        self._check_input(in_)
        refuse_masked("the mean", mean)
        shape = tuple(self.inputs[in_][1:])
        if mean.ndim == 1:
            if mean.shape[0] != shape[0]:
                raise ValueError("Mean channels incompatible with input.")
            mean = mean[:, np.newaxis, np.newaxis]
        else:
            full = (1,) + mean.shape if mean.ndim == 2 else mean.shape
            if len(full) != 3:
                raise ValueError("Mean shape invalid")
            if full != shape:
                if full[0] != shape[0]:
                    raise ValueError("Mean channels incompatible with input: {} and {}.".format(full[0], shape[0]))
                low, high = mean.min(), mean.max()
                image = (mean.reshape(full) - low) / ((high - low) or 1)  # a constant stays one
                image = resize_image(image.transpose((1, 2, 0)), shape[1:])
                mean = image.transpose((2, 0, 1)) * (high - low) + low
        self.mean[in_] = mean

    def set_input_scale(self, in_, scale):
        """A factor after everything else."""
        self._check_input(in_)
        self.input_scale[in_] = scale


# ---- images ----

def _decode(filename):
    """Bytes [H, W, C] of an image file, RGB or grey."""
    with open(os.fspath(filename), "rb") as file:
        content = file.read()
    try:
        height, width, channels, pixels = _moka.decode_image(content, os.fspath(filename))
    except RuntimeError as error:
        try:  # formats that Moka's decoders do not know
            from PIL import Image
            opened = Image.open(filename)
        except (ImportError, OSError):
            raise error from None
        with opened as image:
            pixels = np.asarray(image if image.mode in ("L", "RGB") else image.convert("RGB"))
        return pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
    array = np.frombuffer(pixels, np.uint8).reshape(height, width, channels)
    return array[:, :, ::-1] if channels == 3 else array


def load_image(filename, color=True):
    """An image file as float32 in [0, 1]: [H, W, 3] RGB, or [H, W, 1] with color=False."""
    image = _decode(filename).astype(np.float32) / np.float32(255)
    if color and image.shape[2] == 1:
        return np.tile(image, (1, 1, 3))
    if not color and image.shape[2] == 3:
        luma = np.array([0.2125, 0.7154, 0.0721], np.float32)  # scikit-image's rgb2gray, which pycaffe uses
        return (image @ luma)[:, :, np.newaxis]
    return image


def _weights(positions, count):
    """[len(positions), count]: linear interpolation at the positions of samples 0..count-1, zero outside."""
    low = np.floor(positions).astype(int)
    part = positions - low
    weights = np.zeros((len(positions), count))
    for index, weight in ((low, 1 - part), (low + 1, part)):
        inside = (index >= 0) & (index < count)
        weights[np.nonzero(inside)[0], index[inside]] += weight[inside]
    return weights


def _interpolate(im, rows, columns, order):
    """The image [H, W, K] at the rows and columns given (fractions of pixels)."""
    if order == 0:
        def nearest(positions, count):
            return np.clip(np.floor(positions + 0.5).astype(int), 0, count - 1)
        return im[nearest(rows, im.shape[0])][:, nearest(columns, im.shape[1])]
    vertical = _weights(rows, im.shape[0])
    horizontal = _weights(columns, im.shape[1])
    return np.einsum("ih,hwk,jw->ijk", vertical, im, horizontal, optimize=True)


def _centres(count, new_count):
    """Where the centres of new_count pixels lie among count pixels."""
    return (np.arange(new_count) + 0.5) * (count / new_count) - 0.5


def _corners(count, new_count):
    """The same with the first and the last pixel's centres kept."""
    return np.arange(new_count) * ((count - 1) / max(new_count - 1, 1))


def resize_image(im, new_dims, interp_order=1):
    """An image [H, W, K] at the size new_dims = (height, width), float32.

    interp_order 1 is linear, 0 the nearest pixel. As in pycaffe: images of 1 or 3 channels are sampled at pixel centres
    (scikit-image's resize, the lowest value outside), others with their corners kept (SciPy's zoom).
    """
    if interp_order not in (0, 1):
        raise NotImplementedError("resize_image has interp_order 0 (nearest) and 1 (linear), not {}".format(interp_order))
    height, width = int(new_dims[0]), int(new_dims[1])
    refuse_masked("the image", im)
    im = np.asarray(im, float)
    if im.shape[-1] in (1, 3):
        low, high = im.min(), im.max()
        if high <= low:
            return np.full((height, width, im.shape[-1]), low, np.float32)
        resized = _interpolate(im - low, _centres(im.shape[0], height), _centres(im.shape[1], width), interp_order) + low
    else:
        resized = _interpolate(im, _corners(im.shape[0], height), _corners(im.shape[1], width), interp_order)
    return resized.astype(np.float32)


def oversample(images, crop_dims):
    """Ten crops of each image: four corners and centre, then the same mirrored; [10 * images, h, w, K]."""
    height, width = int(crop_dims[0]), int(crop_dims[1])
    full_height, full_width, channels = images[0].shape
    # The centre as pycaffe rounds it: towards zero.
    middle = (int(full_height / 2.0 - height / 2.0), int(full_width / 2.0 - width / 2.0))
    places = [(y, x) for y in (0, full_height - height) for x in (0, full_width - width)] + [middle]
    crops = np.empty((10 * len(images), height, width, channels), np.float32)
    for i, image in enumerate(images):
        for k, (y, x) in enumerate(places):
            crop = image[y:y + height, x:x + width, :]
            crops[10 * i + k] = crop
            crops[10 * i + 5 + k] = crop[:, ::-1, :]
    return crops
