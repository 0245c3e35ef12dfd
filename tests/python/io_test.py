"""moka.caffe.io, Classifier and Detector."""

import base64
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import FolderTest  # noqa: E402

import moka  # noqa: E402
import moka.caffe as caffe  # noqa: E402

NET = """layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 3 dim: 6 dim: 6 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'gaussian' std: 0.1 } } }
layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }
"""
# 2x1 pixels: red, blue.
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAIAAAABCAIAAAB7QOjdAAAADUlEQVR4nGP4zwAE/wEHAAH/4iOeWQAAAABJRU5ErkJggg==")


class IoTest(FolderTest):
    def test_blobs_and_datums_come_back(self):
        a = np.random.RandomState(0).randn(2, 3, 4).astype(np.float32)
        np.testing.assert_allclose(caffe.io.blobproto_to_array(caffe.io.array_to_blobproto(a)), a)
        blob = caffe.io.array_to_blobproto(a, diff=2 * a)
        np.testing.assert_allclose(caffe.io.blobproto_to_array(blob, return_diff=True), 2 * a)
        text = caffe.io.arraylist_to_blobprotovector_str([a, a[0]])
        for x, y in zip(caffe.io.blobprotovector_str_to_arraylist(text), (a, a[0])):
            np.testing.assert_allclose(x, y)
        for array in (a, np.arange(24, dtype=np.uint8).reshape(2, 3, 4)):
            datum = caffe.io.array_to_datum(array, label=7)
            self.assertEqual(datum.label, 7)
            np.testing.assert_allclose(caffe.io.datum_to_array(datum), array)
        self.assertRaises(ValueError, caffe.io.array_to_datum, a[0])

    def test_messages_are_where_pycaffe_has_them(self):
        self.assertIs(caffe.proto.caffe_pb2.Datum, caffe.io.caffe_pb2.Datum)

    def test_old_blob_shapes(self):
        from moka.caffe.proto import caffe_pb2
        blob = caffe_pb2.BlobProto(data=list(range(4)), num=1, channels=1, height=1, width=4)
        self.assertEqual(caffe.io.blobproto_to_array(blob).shape, (1, 1, 1, 4))

    def transformer(self):
        t = caffe.io.Transformer({"data": (4, 3, 6, 6)})
        t.set_transpose("data", (2, 0, 1))
        t.set_mean("data", np.array([1.0, 2.0, 3.0]))
        t.set_raw_scale("data", 255)
        t.set_channel_swap("data", (2, 1, 0))
        t.set_input_scale("data", 0.5)
        return t

    def test_transformer_is_numpys(self):
        image = np.random.RandomState(0).rand(6, 6, 3).astype(np.float32)
        kept = image.copy()
        out = self.transformer().preprocess("data", image)
        mean = np.array([1, 2, 3]).reshape(3, 1, 1)
        expected = (image.transpose(2, 0, 1)[::-1] * 255 - mean) * 0.5
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(self.transformer().deprocess("data", out), image, rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(image, kept)
        self.assertEqual(self.transformer().preprocess("data", np.zeros((9, 7, 3))).shape, (3, 6, 6))

    def test_transformer_refuses(self):
        t = self.transformer()
        self.assertRaises(Exception, t.set_mean, "label", np.zeros(3))
        self.assertRaises(ValueError, t.set_mean, "data", np.zeros(4))
        self.assertRaises(Exception, t.set_transpose, "data", (0, 1))
        self.assertRaises(Exception, t.set_channel_swap, "data", (0, 1))
        for order in ((2, 1, -1), (2, 1, 1), (2, 1, 5), (2.0, 1, 0)):
            with self.assertRaisesRegex(ValueError, "channel swap of 'data' is .*expected each of 0 to 2 once"):
                t.set_channel_swap("data", order)
            with self.assertRaisesRegex(ValueError, "transpose of 'data' is"):
                t.set_transpose("data", order)
        t.set_channel_swap("data", np.array([1, 0, 2]))
        t.set_mean("data", np.random.RandomState(0).rand(3, 12, 12))
        self.assertEqual(t.mean["data"].shape, (3, 6, 6))

    def test_masks_are_refused_where_they_hide_something(self):
        image = np.ma.array(np.ones((6, 6, 3)), mask=False)
        self.assertEqual(self.transformer().preprocess("data", image).shape, (3, 6, 6))
        image[0, 0] = np.ma.masked
        for call in (lambda: self.transformer().preprocess("data", image), lambda: caffe.io.resize_image(image, (3, 3)),
                     lambda: caffe.io.array_to_datum(image), lambda: caffe.io.array_to_blobproto(image),
                     lambda: self.transformer().set_mean("data", image)):
            with self.assertRaisesRegex(ValueError, "has a mask that hides 3 of its values"):
                call()

    def test_resize(self):
        ramp = np.tile(np.arange(8.0)[None, :, None], (4, 1, 3))
        small = caffe.io.resize_image(ramp, (2, 4))
        self.assertEqual(small.dtype, np.float32)
        np.testing.assert_allclose(small[0, :, 0], [0.5, 2.5, 4.5, 6.5], rtol=1e-5)
        flat = caffe.io.resize_image(np.full((3, 3, 1), 2.0), (5, 7))
        np.testing.assert_array_equal(flat, np.full((5, 7, 1), 2))
        many = caffe.io.resize_image(np.tile(np.arange(3.0)[:, None, None], (1, 2, 5)), (5, 2))
        np.testing.assert_allclose(many[:, 0, 4], [0, 0.5, 1, 1.5, 2], atol=1e-6)

    def test_oversample(self):
        image = np.arange(5 * 7 * 3, dtype=np.float32).reshape(5, 7, 3)
        crops = caffe.io.oversample([image, image + 1], (3, 4))
        self.assertEqual(crops.shape, (20, 3, 4, 3))
        np.testing.assert_array_equal(crops[0], image[:3, :4])
        np.testing.assert_array_equal(crops[3], image[2:, 3:])
        np.testing.assert_array_equal(crops[4], image[1:4, 1:5])
        np.testing.assert_array_equal(crops[9], image[1:4, 1:5][:, ::-1])
        np.testing.assert_array_equal(crops[10], image[:3, :4] + 1)

    def picture(self):
        with open(self.path("p.png"), "wb") as file:
            file.write(PNG)
        return self.path("p.png")

    def test_load_image(self):
        image = caffe.io.load_image(self.picture())
        self.assertEqual((image.shape, image.dtype), ((1, 2, 3), np.float32))
        np.testing.assert_array_equal(image[0], [[1, 0, 0], [0, 0, 1]])
        grey = caffe.io.load_image(self.picture(), color=False)
        np.testing.assert_allclose(grey[0, :, 0], [0.2125, 0.0721], rtol=1e-5)
        with self.assertRaises(Exception):
            caffe.io.load_image(self.file("text.png", "no picture"))
        with self.assertRaisesRegex(moka.Error, "text.png"):
            caffe.io.load_image(self.path("text.png"))

    def models(self):
        file = self.file("net.prototxt", NET)
        caffe.Net(file, caffe.TEST).save(self.path("w.caffemodel"))
        return file, self.path("w.caffemodel")

    def test_classifier(self):
        net = caffe.Classifier(*self.models(), image_dims=(8, 8), raw_scale=255, channel_swap=(2, 1, 0),
                               mean=np.zeros(3))
        images = [np.random.RandomState(i).rand(9, 10, 3) for i in range(3)]
        for oversample in (True, False):
            p = net.predict(images, oversample)
            self.assertEqual(p.shape, (3, 3))
            np.testing.assert_allclose(p.sum(1), 1, rtol=1e-5)

    def test_pictures_are_never_smaller_than_the_crop(self):
        for dims in ((5, 8), (8, 5), (3, 3), (8,), (8, 8, 3)):
            with self.assertRaisesRegex(ValueError, "image_dims is"):
                caffe.Classifier(*self.models(), image_dims=dims)
        caffe.Classifier(*self.models(), image_dims=(6, 6))

    def test_means_of_another_size(self):
        transformer = caffe.io.Transformer({"data": (1, 3, 4, 4)})
        transformer.set_mean("data", np.full((3, 8, 8), 7.0))
        np.testing.assert_allclose(transformer.mean["data"], np.full((3, 4, 4), 7.0))
        with self.assertRaisesRegex(ValueError, "Mean channels incompatible"):
            transformer.set_mean("data", np.zeros((1, 8, 8)))

    def test_trained_nets_need_all_weights(self):
        _, weights = self.models()
        file = self.file("more.prototxt", NET + """layer { name: 'extra' type: 'InnerProduct' bottom: 'prob' top: 'more'
          inner_product_param { num_output: 2 } }""")
        for kind in (caffe.Classifier, caffe.Detector):
            with self.assertRaisesRegex(moka.Error, "w.caffemodel: no weights of layer extra"):
                kind(file, weights)

    def test_detector(self):
        for pad in (None, 1):
            net = caffe.Detector(*self.models(), mean=np.zeros(3), context_pad=pad)
            found = net.detect_windows([(self.picture(), np.array([[0, 0, 1, 2], [0, 0, 1, 1]]))])
            self.assertEqual([d["prediction"].shape for d in found], [(3,), (3,)])
            self.assertEqual(found[0]["filename"], self.path("p.png"))
            with self.assertRaisesRegex(ValueError, r"window \[1, 0, 1, 2\] holds no pixel"):
                net.detect_windows([(self.picture(), np.array([[1, 0, 1, 2]]))])
            for window in ([0, 0, np.nan, 2], [0, 0, np.inf, 2], [0, 0, 1]):
                with self.assertRaisesRegex(ValueError, "is no .ymin, xmin, ymax, xmax. of finite numbers"):
                    net.detect_windows([(self.picture(), np.array([window]))])
        with self.assertRaisesRegex(ValueError, r"window \[-1, 0, 1, 2\] begins outside the image"):
            caffe.Detector(*self.models()).detect_windows([(self.picture(), np.array([[-1, 0, 1, 2]]))])
        side = net.blobs["data"].width
        for pad in (side // 2, side, -1, float("nan")):
            with self.assertRaisesRegex(ValueError, "context_pad is .*: the input has {} pixels a side".format(side)):
                caffe.Detector(*self.models(), context_pad=pad)

    def test_one_image_is_no_list(self):
        net = caffe.Classifier(*self.models())
        with self.assertRaisesRegex(ValueError, r"a list of images \[H, W, K\], found one of shape \(4, 3\)"):
            net.predict(np.zeros((4, 4, 3)))

    def test_images_may_come_from_a_generator(self):
        net = caffe.Classifier(*self.models())
        images = [caffe.io.load_image(self.picture())] * 2
        np.testing.assert_array_equal(net.predict(image for image in images), net.predict(images))


if __name__ == "__main__":
    unittest.main()
