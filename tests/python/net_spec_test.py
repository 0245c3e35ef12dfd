"""Nets written in Python, coordinate maps and drawings."""

import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka.caffe as caffe  # noqa: E402
from moka.caffe import layers as L  # noqa: E402
from moka.caffe import params as P  # noqa: E402
from moka.caffe.coord_map import coord_map_from_to, crop  # noqa: E402
from moka.caffe.draw import get_dot  # noqa: E402
from moka.caffe.proto import caffe_pb2  # noqa: E402
from google.protobuf import text_format  # noqa: E402


def lenet():
    n = caffe.NetSpec()
    n.data, n.label = L.DummyData(shape=[dict(dim=[2, 1, 28, 28]), dict(dim=[2])], transform_param=dict(scale=1. / 255),
                                  ntop=2)
    n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20, weight_filler=dict(type="xavier"))
    n.pool1 = L.Pooling(n.conv1, kernel_size=2, stride=2, pool=P.Pooling.MAX)
    n.ip1 = L.InnerProduct(n.pool1, num_output=10, weight_filler=dict(type="xavier"),
                           param=[dict(lr_mult=1), dict(lr_mult=2, decay_mult=0)])
    n.relu1 = L.ReLU(n.ip1, in_place=True)
    n.loss = L.SoftmaxWithLoss(n.ip1, n.label, loss_weight=2)
    return n


class NetSpecTest(FolderTest):
    def test_mistakes_are_named(self):
        n = caffe.NetSpec()
        n.data = L.Input(shape=dict(dim=[1, 3]))
        n.ip = L.InnerProduct(n.data, num_outputs=10)
        with self.assertRaisesRegex(AttributeError, 'layer "ip": InnerProductParameter or LayerParameter has no field '
                                                    '"num_outputs", did you mean "num_output"'):
            n.to_proto()
        n.ip = L.InnerProduct(n.data, weight_filler=dict(stdd=1))
        with self.assertRaisesRegex(AttributeError, 'FillerParameter has no field "stdd", did you mean "std"'):
            n.to_proto()
        with self.assertRaisesRegex(TypeError, "a is set to 3, expected a layer's top"):
            n.a = 3
        with self.assertRaisesRegex(TypeError, "both is set to 2 tops of one layer"):
            n.both = L.DummyData(shape=[dict(dim=[2]), dict(dim=[2])], ntop=2)

    def test_text(self):
        net = lenet().to_proto()
        self.assertEqual([layer.name for layer in net.layer], ["data", "conv1", "pool1", "ip1", "relu1", "loss"])
        self.assertEqual(text_format.MessageToString(net.layer[1]), """name: "conv1"
type: "Convolution"
bottom: "data"
top: "conv1"
convolution_param {
  num_output: 20
  kernel_size: 5
  weight_filler {
    type: "xavier"
  }
}
""")
        self.assertEqual(list(net.layer[4].top), ["ip1"])
        self.assertEqual((net.layer[3].param[1].lr_mult, net.layer[5].loss_weight[0]), (2, 2))
        self.assertEqual(net.layer[2].pooling_param.pool, caffe_pb2.PoolingParameter.MAX)

    def test_it_builds_and_runs(self):
        net = caffe.Net(self.file("net.prototxt", str(lenet().to_proto())), caffe.TRAIN)
        net.forward()
        self.assertGreater(float(net.blobs["loss"].data), 0)

    def test_names_made_from_types(self):
        data = L.DummyData(shape=dict(dim=[1, 2]))
        net = caffe.to_proto(L.Eltwise(L.ReLU(data), L.ReLU(data), eltwise_param=dict(operation=P.Eltwise.SUM)))
        self.assertEqual([layer.name for layer in net.layer], ["DummyData1", "ReLU1", "ReLU2", "Eltwise1"])

    def test_layers_without_tops(self):
        n = caffe.NetSpec()
        n.data = L.DummyData(shape=dict(dim=[1, 2]))
        n.silence = L.Silence(n.data, ntop=0)
        self.assertEqual(len(n.to_proto().layer[1].top), 0)
        self.assertRaises(TypeError, L.ReLU, "data")

    def test_coordinates(self):
        data = L.Input(shape=dict(dim=[1, 1, 32, 32]))
        conv = L.Convolution(data, num_output=10, kernel_size=3, stride=2, pad=0)
        relu = L.ReLU(conv)
        up = L.Deconvolution(relu, num_output=10, kernel_size=4, stride=2)
        axis, scale, shift = coord_map_from_to(up, data)
        self.assertEqual((axis, scale[0], shift[0]), (1, 1, -0.5))
        same = L.Convolution(data, num_output=4, kernel_size=5)
        cut = crop(data, same)
        self.assertEqual(cut.fn.params["crop_param"], dict(axis=2, offset=[2]))
        self.assertRaises(RuntimeError, coord_map_from_to, L.InnerProduct(data, num_output=1), data)

    def test_drawing(self):
        net = caffe_pb2.NetParameter()
        text_format.Merge(SIMPLE_NET, net)
        pool = net.layer.add(name="pool", type="Pooling", bottom=["conv"], top=["pool"])
        pool.pooling_param.kernel_size.append(3)
        dot = get_dot(net, phase=caffe.TEST)
        self.assertIn('"conv_Convolution"', dot)
        self.assertIn("kernel size: 2", dot)
        self.assertIn(r"pool\n(Pooling MAX)\nkernel size: 3", dot)
        caffe.draw = __import__("moka.caffe.draw", fromlist=["draw"])
        caffe.draw.draw_net_to_file(net, self.path("net.dot"))
        with open(self.path("net.dot")) as file:
            self.assertEqual(file.read(), get_dot(net))

    def test_solver_message_trains(self):
        self.file("net.prototxt", str(lenet().to_proto()))
        s = caffe_pb2.SolverParameter()
        s.train_net = self.path("net.prototxt")
        s.type, s.base_lr, s.lr_policy, s.max_iter = "Adam", 0.001, "fixed", 3
        s.solver_mode = caffe_pb2.SolverParameter.CPU
        solver = caffe.get_solver(self.file("s.prototxt", str(s)))
        solver.step(2)
        self.assertEqual(solver.iter, 2)
        self.assertTrue(np.isfinite(solver.net.blobs["loss"].data))


if __name__ == "__main__":
    unittest.main()
