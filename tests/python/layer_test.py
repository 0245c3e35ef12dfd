"""Layers written in Python."""

import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import FolderTest  # noqa: E402

import moka.caffe as caffe  # noqa: E402

MODULE = os.path.splitext(os.path.basename(__file__))[0] if __name__ != "__main__" else "__main__"
LAYER = "layer {{ type: 'Python' name: '{0}' bottom: '{1}' top: '{0}' python_param {{ module: '" + MODULE + \
    "' layer: '{2}' }} }}"
INPUT = "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 10 dim: 9 dim: 8 } } }"


class TimesTen(caffe.Layer):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        top[0].data[...] = 10 * bottom[0].data

    def backward(self, top, propagate_down, bottom):
        bottom[0].diff[...] = 10 * top[0].diff


class Failing(caffe.Layer):
    def setup(self, bottom, top):
        raise RuntimeError("not today")


class FailsLater(TimesTen):
    def forward(self, bottom, top):
        raise KeyError("lost")


class Learned(caffe.Layer):
    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[0] = 0

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)

    def forward(self, bottom, top):
        pass

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[0] = 1


class Told(caffe.Layer):
    def setup(self, bottom, top):
        self.told = eval(self.param_str)

    def reshape(self, bottom, top):
        top[0].reshape()

    def forward(self, bottom, top):
        top[0].data[()] = self.phase * 100 + self.told["n"]


class EuclideanLoss(caffe.Layer):
    """Half the mean squared distance, as Caffe's example pyloss.py has it."""

    def setup(self, bottom, top):
        if len(bottom) != 2:
            raise Exception("Need two inputs to compute distance.")

    def reshape(self, bottom, top):
        if bottom[0].count != bottom[1].count:
            raise Exception("Inputs must have the same dimension.")
        self.diff = np.zeros_like(bottom[0].data, dtype=np.float32)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.diff[...] = bottom[0].data - bottom[1].data
        top[0].data[...] = np.sum(self.diff ** 2) / bottom[0].num / 2.

    def backward(self, top, propagate_down, bottom):
        for i, sign in enumerate((1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * self.diff / bottom[i].num


LINREG = """layer { type: 'DummyData' name: 'x' top: 'x'
  dummy_data_param { shape { dim: 10 dim: 3 dim: 2 } data_filler { type: 'gaussian' } } }
layer { type: 'DummyData' name: 'y' top: 'y'
  dummy_data_param { shape { dim: 10 dim: 5 } data_filler { type: 'gaussian' } } }
layer { type: 'InnerProduct' name: 'ip' bottom: 'x' top: 'ip'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
"""


class PythonLayerTest(FolderTest):
    def net(self, text, phase=caffe.TRAIN):
        return caffe.Net(self.file("net.prototxt", text), phase)

    def chain(self):
        return self.net("force_backward: true " + INPUT + LAYER.format("one", "data", "TimesTen") +
                        LAYER.format("two", "one", "TimesTen"))

    def test_forward_and_backward(self):
        net = self.chain()
        net.blobs["data"].data[...] = 8
        net.forward()
        self.assertTrue((net.blobs["two"].data == 800).all())
        net.blobs["two"].diff[...] = 7
        net.backward()
        self.assertTrue((net.blobs["data"].diff == 700).all())

    def test_reshape(self):
        net = self.chain()
        net.blobs["data"].reshape(4, 4, 4, 4)
        net.forward()
        for blob in net.blobs.values():
            self.assertEqual(blob.data.shape, (4, 4, 4, 4))

    def test_exceptions_come_through_and_name_the_layer(self):
        with self.assertRaises(RuntimeError) as caught:
            self.net(INPUT + LAYER.format("bad", "data", "Failing"))
        self.assertIn("not today", str(caught.exception))
        if sys.version_info >= (3, 11):
            self.assertIn('"bad"', caught.exception.__notes__[0])
        net = self.net(INPUT + LAYER.format("later", "data", "FailsLater"))
        self.assertRaises(KeyError, net.forward)
        self.assertRaises(KeyError, net.forward)  # the net is not locked for ever

    def test_unknown_modules_and_classes(self):
        for where in ("module: 'no_such_module' layer: 'X'", "module: '%s' layer: 'NoClass'" % MODULE):
            with self.assertRaises((ImportError, AttributeError)):
                self.net(INPUT + "layer { type: 'Python' name: 'p' bottom: 'data' top: 'p' python_param { %s } }" % where)

    def test_parameters(self):
        net = self.net("force_backward: true " + INPUT + LAYER.format("layer", "data", "Learned"))
        net.forward()
        net.backward()
        layer = net.layer_dict["layer"]
        self.assertIsInstance(layer, Learned)
        self.assertEqual((layer.blobs[0].data[0], layer.blobs[0].diff[0]), (0, 1))
        layer.blobs[0].data[0] = 1
        net.save(self.path("w.caffemodel"))
        layer.blobs[0].data[0] = -1
        net.copy_from(self.path("w.caffemodel"))
        self.assertEqual(layer.blobs[0].data[0], 1)

    def test_param_str_and_phase(self):
        text = "layer { type: 'Python' name: 'p' top: 'p' python_param { module: '%s' layer: 'Told' param_str: \"{'n': 42}\" } }"
        for phase in (caffe.TRAIN, caffe.TEST):
            self.assertEqual(self.net(text % MODULE, phase).forward()["p"], 100 * phase + 42)

    def test_linear_regression_matches_the_built_in_loss(self):
        python = LINREG + "layer { type: 'Python' name: 'loss' bottom: 'ip' bottom: 'y' top: 'loss' loss_weight: 1 " \
            "python_param { module: '%s' layer: 'EuclideanLoss' } }" % MODULE
        built_in = LINREG + "layer { type: 'EuclideanLoss' name: 'loss' bottom: 'ip' bottom: 'y' top: 'loss' }"
        a, b = self.net(python), self.net(built_in)
        a.forward()
        for name in ("x", "y"):
            b.blobs[name].data[...] = a.blobs[name].data
        for p, q in zip(a.params["ip"], b.params["ip"]):
            q.data[...] = p.data
        b.forward(start="ip")
        self.assertAlmostEqual(float(a.blobs["loss"].data.ravel()[0]), float(b.blobs["loss"].data), places=4)
        a.backward()
        b.backward()
        np.testing.assert_allclose(a.params["ip"][0].diff, b.params["ip"][0].diff, rtol=1e-4, atol=1e-6)

    def test_it_trains_in_a_solver(self):
        net = self.file("linreg.prototxt", LINREG + "layer { type: 'Python' name: 'loss' bottom: 'ip' bottom: 'y' "
                        "top: 'loss' loss_weight: 1 python_param { module: '%s' layer: 'EuclideanLoss' } }" % MODULE)
        solver = caffe.SGDSolver(self.file("s.prototxt", "train_net: '%s' base_lr: 0.05 lr_policy: 'fixed' max_iter: 5 "
                                           "display: 0" % net))
        before = solver.net.params["ip"][0].data.copy()
        solver.step(3)
        self.assertFalse((solver.net.params["ip"][0].data == before).all())


if __name__ == "__main__":
    unittest.main()
