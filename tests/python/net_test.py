"""Nets: views, passes, surgery, sharing, files."""

import gc
import os
import sys
import unittest
import warnings
from collections import OrderedDict

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka  # noqa: E402
import moka.caffe as caffe  # noqa: E402

PAIR = """name: 'pair' force_backward: true
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 3 dim: 4 } } }
layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a'
  inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 1 } bias_filler { type: 'gaussian' std: 1 } } }
layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }
layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b'
  inner_product_param { num_output: 5 weight_filler { type: 'gaussian' std: 1 } } }
layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 's' }
"""


class NetTest(FolderTest):
    def net(self, text=SIMPLE_NET, phase=caffe.TRAIN, **kwargs):
        return caffe.Net(self.file("net.prototxt", text), phase, **kwargs)

    def labelled(self):
        net = self.net()
        net.blobs["label"].data[...] = np.arange(5).reshape(5, 1, 1, 1)
        return net

    def test_names_are_caffes(self):
        net = self.net()
        self.assertEqual(net.inputs, [])
        self.assertEqual(net.outputs, ["loss"])
        self.assertEqual(list(net.blobs), ["data", "label", "conv", "ip_blob", "loss"])
        self.assertEqual(net.top_names, OrderedDict([("data", ["data", "label"]), ("conv", ["conv"]),
                                                     ("ip", ["ip_blob"]), ("loss", ["loss"])]))
        self.assertEqual(net.bottom_names["loss"], ["ip_blob", "label"])
        self.assertEqual([layer.type for layer in net.layers],
                         ["DummyData", "Convolution", "InnerProduct", "SoftmaxWithLoss"])
        self.assertEqual(list(net.layer_dict), ["data", "conv", "ip", "loss"])
        self.assertEqual(list(net.params), ["conv", "ip"])
        self.assertEqual(net.blob_loss_weights["loss"], 1)

    def test_blobs_are_views(self):
        net = self.net()
        blob = net.blobs["conv"]
        blob.data[...] = 3
        self.assertTrue((net.blobs["conv"].data == 3).all())
        self.assertTrue(blob.data.flags.writeable)
        self.assertEqual(blob.data.__array_interface__["data"], blob.data.__array_interface__["data"])
        self.assertEqual(list(blob.shape), list(blob.data.shape))
        self.assertEqual((blob.num, blob.channels, blob.height, blob.width), blob.data.shape)
        self.assertEqual(blob.count, blob.data.size)
        self.assertEqual(blob.data.dtype, np.float32)

    def test_views_outlive_the_net(self):
        net = self.net()
        arrays = [p.data for ps in net.params.values() for p in ps] + [b.diff for b in net.blobs.values()]
        sums = [a.sum() for a in arrays]
        del net
        gc.collect()
        self.assertEqual([a.sum() for a in arrays], sums)

    def test_forward_and_backward_of_one_layer(self):
        net = self.labelled()
        net.forward()
        x = np.random.RandomState(0).uniform(size=net.blobs["conv"].data.shape).astype(np.float32)
        net.blobs["conv"].data[...] = x
        out = net.forward(start="ip", end="ip")
        self.assertEqual(list(out), ["ip_blob"])
        weights, bias = (p.data for p in net.params["ip"])
        np.testing.assert_allclose(out["ip_blob"], x.reshape(5, -1) @ weights.T + bias, rtol=1e-3, atol=1e-4)
        dy = np.random.RandomState(1).uniform(size=(5, 13)).astype(np.float32)
        net.blobs["ip_blob"].diff[...] = dy
        net.clear_param_diffs()
        diffs = net.backward(start="ip", end="ip")
        self.assertEqual(list(diffs), ["conv"])
        np.testing.assert_allclose(diffs["conv"].reshape(5, -1), dy @ weights, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(net.params["ip"][0].diff, dy.T @ x.reshape(5, -1), rtol=1e-3, atol=1e-4)
        net.backward(start="ip", end="ip")  # gradients of parameters add up
        np.testing.assert_allclose(net.params["ip"][1].diff, 2 * dy.sum(0), rtol=1e-4, atol=1e-4)

    def test_gradients_match_differences(self):
        net = self.labelled()
        net.params["ip"][0].data[...] *= 0.02  # a loss that is not saturated
        net.forward()
        net.clear_param_diffs()
        net.backward()
        weight = net.params["conv"][0]
        gradient = weight.diff.copy()
        for index in ((0, 0, 0, 0), (3, 1, 1, 0), (10, 0, 1, 1)):
            old = float(weight.data[index])
            losses = []
            for step in (-1e-2, 1e-2):
                weight.data[index] = old + step
                losses.append(float(net.forward(start="conv")["loss"]))
            weight.data[index] = old
            difference = (losses[1] - losses[0]) / 2e-2
            self.assertAlmostEqual(gradient[index], difference, delta=0.05 * max(1, abs(difference)))

    def test_a_blob_read_twice_gets_both_gradients(self):
        net = self.net(PAIR, caffe.TEST)
        self.assertIn("a_r_0_split", net._layer_names)
        x = np.random.RandomState(0).randn(3, 4).astype(np.float32)
        y = net.forward(x=x)["s"]
        (wa, ba), (wb, bb) = ([p.data for p in net.params[k]] for k in "ab")
        a = np.maximum(x @ wa.T + ba, 0)
        np.testing.assert_allclose(y, a + a @ wb.T + bb, rtol=1e-4, atol=1e-4)
        dy = np.random.RandomState(1).randn(3, 5).astype(np.float32)
        dx = net.backward(s=dy)["x"]
        np.testing.assert_allclose(dx, ((dy + dy @ wb) * (a > 0)) @ wa, rtol=1e-3, atol=1e-4)

    def test_layers_in_place_keep_what_their_gradient_needs(self):
        net = self.net("""force_backward: true
        layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
        layer { name: 'p' type: 'Power' bottom: 'x' top: 'y' power_param { scale: 2 } }
        layer { name: 's' type: 'Sigmoid' bottom: 'y' top: 'y' }""", caffe.TEST)
        x = np.linspace(-1, 1, 6).reshape(2, 3).astype(np.float32)
        y = net.forward(x=x)["y"].copy()
        dx = net.backward(y=np.ones((2, 3), np.float32))["x"]
        np.testing.assert_allclose(dx, 2 * y * (1 - y), rtol=1e-5, atol=1e-6)

    def test_dropout_repeats_its_mask_in_backward(self):
        net = self.net("""force_backward: true
        layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 100 } } }
        layer { name: 'd' type: 'Dropout' bottom: 'x' top: 'y' }""")
        y = net.forward(x=np.ones(100, np.float32))["y"].copy()
        self.assertEqual(set(y), {0.0, 2.0})
        dx = net.backward(y=np.ones(100, np.float32))["x"]
        np.testing.assert_array_equal(dx, y)
        again = net.forward(x=np.ones(100, np.float32))["y"]
        self.assertFalse((again == y).all())

    def test_loss_weight_seeds_the_gradient(self):
        net = self.labelled()
        net.forward()
        net.backward()
        first = net.blobs["ip_blob"].diff.copy()
        net.blobs["loss"].diff[...] = 3
        net.backward()
        np.testing.assert_allclose(net.blobs["ip_blob"].diff, 3 * first, rtol=1e-5)

    def test_new_shapes_run_through_the_net(self):
        text = """layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
        layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c'
          convolution_param { num_output: 2 kernel_size: 3 weight_filler { type: 'xavier' } } }
        layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }"""
        net = self.net(text, caffe.TEST)
        net.blobs["x"].reshape(2, 1, 5, 6)
        net.reshape()
        self.assertEqual(list(net.blobs["c"].shape), [2, 2, 3, 4])
        self.assertEqual(net.forward()["c"].shape, (2, 2, 3, 4))
        net.blobs["x"].reshape(1, 1, 8, 8)
        self.assertEqual(net.forward()["c"].shape, (1, 2, 6, 6))

    def test_surgery_from_inner_product_to_convolution(self):
        head = "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 dim: %d dim: %d } } }"
        dense = self.net(head % (4, 4) + """layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'y'
          inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }""", caffe.TEST)
        window = self.net(head % (6, 6) + """layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'y'
          convolution_param { num_output: 3 kernel_size: 4 } }""", caffe.TEST)
        window.params["conv"][0].data.flat = dense.params["fc"][0].data.flat
        window.params["conv"][1].data[...] = dense.params["fc"][1].data
        x = np.random.RandomState(0).randn(1, 2, 6, 6).astype(np.float32)
        y = window.forward(x=x)["y"]
        np.testing.assert_allclose(y[0, :, 1, 2], dense.forward(x=x[:, :, 1:5, 2:6])["y"][0], rtol=1e-4, atol=1e-5)

    def test_save_and_load(self):
        net = self.net()
        for name in ("net.caffemodel", "net.safetensors", "net.h5"):
            (net.save_hdf5 if name.endswith(".h5") else net.save)(self.path(name))
            for other in (self.net(weights=self.path(name)),
                          caffe.Net(self.path("net.prototxt"), self.path(name), caffe.TRAIN)):
                for layer in net.params:
                    for a, b in zip(net.params[layer], other.params[layer]):
                        np.testing.assert_array_equal(a.data, b.data)
        other = self.net()
        other.load_hdf5(self.path("net.h5"))
        np.testing.assert_array_equal(net.params["conv"][0].data, other.params["conv"][0].data)

    def test_layers_that_weights_lack_are_named(self):
        self.net().save(self.path("w.caffemodel"))
        other = self.file("other.prototxt", SIMPLE_NET.replace("name: 'ip'", "name: 'fresh'"))
        for start in (lambda: caffe.Net(other, caffe.TEST, weights=self.path("w.caffemodel")),
                      lambda: caffe.Net(other, caffe.TEST).copy_from(self.path("w.caffemodel"))):
            self.assertRegex(self.told(start), "warning: .*w.caffemodel: no weights of layer fresh, which keep")
        self.assertEqual(self.told(lambda: self.net(weights=self.path("w.caffemodel"))), "")

    def told(self, call):
        """What a call writes to the process's standard error, warnings and errors only."""
        with open(self.path("told.txt"), "w+") as file:
            former = os.dup(2)
            os.dup2(file.fileno(), 2)
            moka.set_log_level(1)
            try:
                call()
            finally:
                moka.set_log_level(2)
                os.dup2(former, 2)
                os.close(former)
            file.seek(0)
            return file.read()

    def test_share_with(self):
        first, second = self.net(), self.net()
        self.assertFalse((first.params["conv"][0].data == second.params["conv"][0].data).all())
        second.share_with(first)
        first.params["conv"][0].data[...] = 5
        self.assertTrue((second.params["conv"][0].data == 5).all())
        second.forward()
        np.testing.assert_allclose(second.blobs["conv"].data.shape, first.blobs["conv"].data.shape)

    def test_parameters_shared_by_name(self):
        text = """force_backward: true
        layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 2 dim: 3 } } }
        layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }
          inner_product_param { num_output: 3 bias_term: false weight_filler { type: 'gaussian' std: 1 } } }
        layer { name: 'b' type: 'InnerProduct' bottom: 'y' top: 'b' param { name: 'w' }
          inner_product_param { num_output: 3 bias_term: false weight_filler { type: 'gaussian' std: 1 } } }"""
        net = self.net(text)
        net.params["a"][0].data[...] = 2
        self.assertTrue((net.params["b"][0].data == 2).all())
        one = np.ones((2, 3), np.float32)
        net.forward(x=one, y=2 * one)
        net.backward(a=one, b=one)
        self.assertTrue((net.params["a"][0].diff == 6).all())

    def test_stages_and_levels(self):
        text = """layer { name: 'd' type: 'DummyData' top: 'd' dummy_data_param { shape { dim: 1 dim: 2 } } }
        layer { name: 'A' type: 'ReLU' bottom: 'd' top: 'A' include { stage: 'A' } }
        layer { name: 'L1' type: 'ReLU' bottom: 'd' top: 'L1' include { min_level: 1 } }"""
        self.assertEqual([b for b in self.net(text, stages=["A"]).blobs if "d" not in b], ["A"])
        self.assertEqual([b for b in self.net(text, level=1).blobs if "d" not in b], ["L1"])

    def test_memory_data(self):
        net = self.net("""layer { name: 'd' type: 'MemoryData' top: 'x' top: 'y'
          memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }""", caffe.TEST)
        x = np.arange(12, dtype=np.float32).reshape(4, 1, 1, 3)
        net.set_input_arrays(x, np.arange(4, dtype=np.float32))
        for begin in (0, 2, 0):
            out = net.forward()
            np.testing.assert_array_equal(out["x"], x[begin:begin + 2])
            np.testing.assert_array_equal(out["y"].ravel(), [begin, begin + 1])

    def test_batches_of_any_length(self):
        net = self.net(PAIR, caffe.TEST)
        x = np.random.RandomState(0).randn(7, 4).astype(np.float32)
        out = net.forward_all(x=x, blobs=["b"])
        self.assertEqual(out["s"].shape, (7, 5))
        np.testing.assert_allclose(out["b"][6], net.forward(x=np.tile(x[6], (3, 1)), blobs=["b"])["b"][0], rtol=1e-5)
        given = net.forward(x=x[:3])["s"].copy()
        net.forward(x=x[3:6])
        np.testing.assert_array_equal(net.forward(x=x[:3].reshape(3, 1, 4, 1))["s"], given)
        for wrong in (x[:3].T, x[:1], x[:3].reshape(2, 6)):
            with self.assertRaisesRegex(ValueError, "has the shape"):
                net.forward(x=wrong)
        masked = np.ma.array(x, mask=x > 2)
        self.assertTrue(masked.mask.any())
        for call in (net.forward_all, lambda x: net.forward(x=x[:3])):
            with self.assertRaisesRegex(ValueError, "has a mask that hides"):
                call(x=np.ma.array(x, mask=True))
        with self.assertRaisesRegex(ValueError, "has a mask that hides"):
            net.forward_all(x=masked)
        values, gradients = net.forward_backward_all(x=x, s=np.ones((7, 5), np.float32))
        self.assertEqual((values["s"].shape, gradients["x"].shape), ((7, 5), (7, 4)))

    def test_gradients_that_go_nowhere_are_told(self):
        text = """layer { name: 'i' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 3 } } }
          layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'z' inner_product_param { num_output: 2
            weight_filler { type: 'constant' value: 1 } } }
          layer { name: 'prob' type: 'Softmax' bottom: 'z' top: 'prob' }"""
        x = np.zeros((1, 3), np.float32)
        net = self.net(text, caffe.TEST)
        net.forward(x=x)
        with self.assertWarnsRegex(UserWarning, "no layer reads the gradient of prob, .*force_backward: true"):
            self.assertFalse(net.backward(prob=np.array([[1, -1]]))["x"].any())
        with self.assertWarnsRegex(UserWarning, "no layer makes the gradient of x, z"):
            net.backward(diffs=["x", "z"])
        net = self.net("force_backward: true " + text, caffe.TEST)
        net.forward(x=x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            net.backward(prob=np.array([[1, -1]]), diffs=["z"])
            np.testing.assert_allclose(net.blobs["z"].diff, [[0.5, -0.5]])
            self.labelled().backward()

    def test_callbacks_see_each_layer(self):
        net = self.labelled()
        calls = []
        net.before_forward(lambda i: calls.append(("before", i)))
        net.after_forward(lambda i: calls.append(("after", i)))
        net.after_backward(lambda i: calls.append(("back", i)))
        net.forward(end="conv")
        self.assertEqual(calls, [("before", 0), ("after", 0), ("before", 1), ("after", 1)])
        net.forward()
        del calls[:]
        net.backward()
        self.assertEqual(calls, [("back", 3), ("back", 2), ("back", 1), ("back", 0)])

    def test_batch_norm_keeps_running_statistics(self):
        text = """layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 2 dim: 3 dim: 3 } } }
        layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' }"""
        net = self.net(text)
        x = np.random.RandomState(0).randn(4, 2, 3, 3).astype(np.float32) + 3
        y = net.forward(x=x)["y"]
        np.testing.assert_allclose(y.mean((0, 2, 3)), 0, atol=1e-4)
        mean, _, scale = (p.data for p in net.params["bn"])
        np.testing.assert_allclose(mean / scale, x.mean((0, 2, 3)), rtol=1e-4)
        before = mean.copy()
        net.backward()
        np.testing.assert_array_equal(mean, before)

    def recurrent(self, kind, steps, hidden=0):
        """A layer of 4 outputs over two streams; `hidden` first states come from outside and the last ones go there."""
        names = ["h", "c"][:hidden]
        tops = "".join(" top: '%s'" % n for n in ["x", "cont"] + [n + "0" for n in names])
        bottoms = tops.replace("top", "bottom") + " top: 'y'" + "".join(" top: '%s'" % n for n in names)
        shapes = [(steps, 2, 3), (steps, 2)] + [(1, 2, 4)] * hidden
        text = "".join(" shape { %s }" % " ".join("dim: %d" % d for d in shape) for shape in shapes)
        net = self.net("""force_backward: true layer {{ name: 'in' type: 'Input' {} input_param {{ {} }} }}
            layer {{ name: 'l' type: '{}' {} recurrent_param {{ num_output: 4 expose_hidden: {} }} }}""".format(
                tops, text, kind, bottoms, "true" if hidden else "false"))
        rng = np.random.RandomState(1)
        for blob in net.params["l"]:
            blob.data[...] = rng.randn(*blob.shape)
        return net

    def test_recurrent_layers_go_on_where_they_were(self):
        x = np.random.RandomState(2).randn(6, 2, 3)
        cont = np.array([[0, 0], [1, 1], [1, 1], [1, 1], [1, 0], [1, 1]])
        for kind, hidden in (("RNN", 1), ("GRU", 1), ("LSTM", 2)):
            whole, half, given = self.recurrent(kind, 6), self.recurrent(kind, 3), self.recurrent(kind, 3, hidden)
            y = whole.forward(x=x, cont=cont)["y"].copy()
            np.testing.assert_allclose(half.forward(x=x[:3], cont=cont[:3])["y"], y[:3], rtol=1e-5)
            np.testing.assert_allclose(half.forward(x=x[3:], cont=cont[3:])["y"], y[3:], rtol=1e-5)
            # The gradient is that of the second half with the first's last states as constants.
            zeros = {n + "0": np.zeros((1, 2, 4)) for n in ["h", "c"][:hidden]}
            first = given.forward(x=x[:3], cont=cont[:3], **zeros)
            given.forward(x=x[3:], cont=cont[3:], **{n: first[n[0]].copy() for n in zeros})
            diff = np.random.RandomState(3).randn(3, 2, 4)
            ends = {n[0]: np.zeros((1, 2, 4)) for n in zeros}
            dx, expected = half.backward(y=diff)["x"], given.backward(y=diff, **ends)["x"]
            np.testing.assert_allclose(dx, expected, rtol=1e-4, atol=1e-6)
            for one, other in zip(half.params["l"], given.params["l"]):
                np.testing.assert_allclose(one.diff, other.diff, rtol=1e-4, atol=1e-6)


if __name__ == "__main__":
    unittest.main()
