"""A net that classifies windows of images, as R-CNN does (Girshick et al., "Rich feature hierarchies", CVPR 2014)."""

import numpy as np

from . import io
from .classifier import _transformer
from .pycaffe import TEST, Net


class Detector(Net):
    """Net with detect_windows(); context_pad pixels of the input's border show what lies around a window."""

    def __init__(self, model_file, pretrained_file, mean=None, input_scale=None, raw_scale=None, channel_swap=None,
                 context_pad=None):
        Net.__init__(self, model_file, TEST)
        self._copy_trained(pretrained_file)  # unlike Net, it takes no layer at its filler's values
        self.transformer = _transformer(self, mean, input_scale, raw_scale, channel_swap)
        self.configure_crop(context_pad)

    def detect_windows(self, images_windows):
        """For (image file, windows [ymin, xmin, ymax, xmax]) pairs a list of dicts: window, prediction, filename."""
        pairs = [(filename, list(windows)) for filename, windows in images_windows]
        name = self.inputs[0]
        prepared = []
        for filename, windows in pairs:
            image = io.load_image(filename)
            prepared += [self.transformer.preprocess(name, self.crop(image, window)) for window in windows]
        if not prepared:
            return []
        predictions = iter(self.forward_all(**{name: np.stack(prepared)})[self.outputs[0]])
        return [{"window": window, "prediction": next(predictions), "filename": filename}
                for filename, windows in pairs for window in windows]

    def detect_selective_search(self, image_fnames):
        """Not offered: it needs MATLAB's selective search. Give the windows to detect_windows."""
        raise NotImplementedError("selective search is not part of Moka; give its windows to detect_windows")

    def crop(self, im, window):
        """The window of an image [H, W, K], with context around it where context_pad asks for it."""
        window = np.asarray(window)
        if window.shape != (4,) or not np.isfinite(window.astype(float)).all():
            raise ValueError("window {} is no [ymin, xmin, ymax, xmax] of finite numbers".format(window.tolist()))
        ymin, xmin, ymax, xmax = window.astype(int)
        if ymin >= ymax or xmin >= xmax:
            raise ValueError("window {} holds no pixel, expected [ymin, xmin, ymax, xmax]".format(window.tolist()))
        if not self.context_pad:
            if ymin < 0 or xmin < 0 or ymin >= im.shape[0] or xmin >= im.shape[1]:
                raise ValueError("window {} begins outside the image of {} x {} pixels".format(
                    window.tolist(), *im.shape[:2]))
            return im[ymin:ymax, xmin:xmax]
        size = self.blobs[self.inputs[0]].width  # of the input, a square
        # The window grown so that context_pad pixels of the input lie around it.
        scale = size / (size - 2.0 * self.context_pad)
        half = np.array([(window[2] - window[0] + 1) / 2.0, (window[3] - window[1] + 1) / 2.0])
        centre = window[:2] + half
        box = np.round(np.concatenate([centre - scale * half, centre + scale * half]))
        to_input = size / (box[2:] - box[:2] + 1)
        pad = np.round(np.maximum(0, -box[:2]) * to_input).astype(int)
        # What of it lies in the image goes to its place in the input; the rest is the mean.
        limits = np.array(im.shape[:2])
        box = np.clip(box, 0, np.concatenate([limits, limits])).astype(int)
        extent = box[2:] - box[:2] + 1
        inner = np.minimum(np.round(extent * to_input).astype(int), size - pad)
        part = io.resize_image(im[box[0]:box[2], box[1]:box[3]], inner)
        crop = np.ones(self.crop_dims, np.float32) * self.crop_mean
        crop[pad[0]:pad[0] + inner[0], pad[1]:pad[1] + inner[1]] = part
        return crop

    def configure_crop(self, context_pad):
        """Sets context_pad and the mean that fills what lies outside an image, as an image before preprocessing."""
        name = self.inputs[0]
        back = np.argsort(self.transformer.transpose[name])
        self.crop_dims = np.array(self.blobs[name].data.shape[1:])[back]
        if context_pad:
            height, width = self.crop_dims[:2]
            if height != width:
                raise ValueError("context_pad needs a square input, found one of {} x {} pixels".format(height, width))
            if not 0 <= context_pad < width / 2:
                raise ValueError("context_pad is {}, expected from 0 to {}: the input has {} pixels a side, and some "
                                 "are the window's".format(context_pad, (width - 1) // 2, width))
        self.context_pad = context_pad
        if not context_pad:
            return
        mean = self.transformer.mean.get(name)
        if mean is None:
            self.crop_mean = np.zeros(self.crop_dims, np.float32)
            return
        crop_mean = mean.copy().transpose(back)
        swap = self.transformer.channel_swap.get(name)
        if swap is not None:
            crop_mean = crop_mean[:, :, np.argsort(swap)]
        raw_scale = self.transformer.raw_scale.get(name)
        self.crop_mean = crop_mean if raw_scale is None else crop_mean / raw_scale
