"""A net that classifies images."""

import numpy as np

from . import io
from .pycaffe import TEST, Net


def _transformer(net, mean, input_scale, raw_scale, channel_swap):
    """The Transformer of a net's first input for images [H, W, K]."""
    name = net.inputs[0]
    transformer = io.Transformer({name: net.blobs[name].data.shape})
    transformer.set_transpose(name, (2, 0, 1))
    for value, setter in ((mean, transformer.set_mean), (input_scale, transformer.set_input_scale),
                          (raw_scale, transformer.set_raw_scale), (channel_swap, transformer.set_channel_swap)):
        if value is not None:
            setter(name, value)
    return transformer


class Classifier(Net):
    """Net with predict(): images are resized to image_dims, then cropped to the net's input."""

    def __init__(self, model_file, pretrained_file, image_dims=None, mean=None, input_scale=None, raw_scale=None,
                 channel_swap=None):
        Net.__init__(self, model_file, TEST)
        self._copy_trained(pretrained_file)  # unlike Net, it takes no layer at its filler's values
        self.transformer = _transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].data.shape[2:])
        self.image_dims = self.crop_dims if image_dims is None else image_dims
        if len(self.image_dims) != 2 or any(have < need for have, need in zip(self.image_dims, self.crop_dims)):
            raise ValueError("image_dims is {}, expected (height, width) of at least the net's input {}".format(
                tuple(self.image_dims), tuple(int(n) for n in self.crop_dims)))

    def predict(self, inputs, oversample=True):
        """Probabilities [N, classes] of images [H, W, K]: the mean over ten crops, or those of the centre crop."""
        inputs = list(inputs)
        for image in inputs:
            if np.ndim(image) != 3:
                raise ValueError("predict takes a list of images [H, W, K], found one of shape {}".format(
                    np.shape(image)))
        images = np.stack([io.resize_image(image, self.image_dims) for image in inputs])
        if oversample:
            crops = io.oversample(images, self.crop_dims)
        else:
            begin = (np.array(self.image_dims) / 2.0 - self.crop_dims / 2.0).astype(int)
            end = (np.array(self.image_dims) / 2.0 + self.crop_dims / 2.0).astype(int)
            crops = images[:, begin[0]:end[0], begin[1]:end[1], :]
        name = self.inputs[0]
        prepared = np.stack([self.transformer.preprocess(name, crop) for crop in crops])
        predictions = self.forward_all(**{name: prepared})[self.outputs[0]]
        if oversample:
            predictions = predictions.reshape((len(predictions) // 10, 10, -1)).mean(1)
        return predictions
