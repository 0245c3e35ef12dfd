"""Several nets in several threads, one net in several threads, and callbacks that need the interpreter."""

import os
import sys
import threading
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka.caffe as caffe  # noqa: E402

NET = """force_backward: true
layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 8 dim: 8 } } }
layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c'
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: 'xavier' } } }
layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'c' top: 'y'
  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }
"""


class ThreadsTest(FolderTest):
    def in_threads(self, count, work):
        failures = []

        def guarded(i):
            try:
                work(i)
            except BaseException as error:  # shown by the test
                failures.append(error)
        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive(), "a thread hangs")
        self.assertEqual(failures, [])

    def test_nets_of_their_own(self):
        file = self.file("net.prototxt", NET)
        first = caffe.Net(file, caffe.TEST)
        first.save(self.path("w.caffemodel"))
        x = np.random.RandomState(0).randn(4, 3, 8, 8).astype(np.float32)
        expected = first.forward(x=x)["y"].copy()

        def work(i):
            net = caffe.Net(file, caffe.TEST, weights=self.path("w.caffemodel"))
            for _ in range(10):
                np.testing.assert_allclose(net.forward(x=x)["y"], expected, rtol=1e-5, atol=1e-6)
                net.backward(y=np.ones((4, 5), np.float32))
        self.in_threads(4, work)

    def test_one_net_and_callbacks(self):
        net = caffe.Net(self.file("net.prototxt", NET), caffe.TEST)
        seen = []
        net.after_forward(seen.append)

        def work(i):
            for _ in range(10):
                net._forward(0, 3)
                net._backward(3, 0)
        self.in_threads(3, work)
        self.assertEqual(len(seen), 3 * 10 * 4)

    def test_shared_parameters(self):
        file = self.file("net.prototxt", NET)
        nets = [caffe.Net(file, caffe.TEST) for _ in range(3)]
        for net in nets[1:]:
            net.share_with(nets[0])
        x = np.ones((4, 3, 8, 8), np.float32)
        outs = [None] * 3

        def work(i):
            for _ in range(5):
                outs[i] = nets[i].forward(x=x)["y"].copy()
        self.in_threads(3, work)
        for out in outs[1:]:
            np.testing.assert_allclose(out, outs[0], rtol=1e-5)

    def test_solvers(self):
        self.file("net.prototxt", SIMPLE_NET)
        file = self.file("s.prototxt", "net: 'net.prototxt' test_iter: 1 test_interval: 3 base_lr: 0.01 "
                         "lr_policy: 'fixed' max_iter: 9 random_seed: 1 display: 0")
        results = [None] * 3

        def work(i):
            solver = caffe.SGDSolver(file)
            solver.step(9)
            results[i] = solver.net.params["ip"][0].data.copy()
        self.in_threads(3, work)
        for result in results[1:]:
            np.testing.assert_allclose(result, results[0], rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
