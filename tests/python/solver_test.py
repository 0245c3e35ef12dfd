"""Solvers: steps against numpy and against the compiled trainer, tests, snapshots, callbacks."""

import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka  # noqa: E402
import moka.caffe as caffe  # noqa: E402

# Constant data, so that every run sees the same.
NET = """layer { name: 'd' type: 'DummyData' top: 'x' top: 'y'
  dummy_data_param { shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 }
    data_filler { type: 'constant' value: 0.5 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'z' param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }
  inner_product_param { num_output: 4 weight_filler { type: 'constant' value: 0.25 } } }
layer { name: 'loss' type: 'EuclideanLoss' bottom: 'z' bottom: 'y' top: 'loss' }
"""
# Layers in place, a blob read twice, running statistics, shared parameters; padding makes the constant data vary.
WIDE = """layer { name: 'd' type: 'DummyData' top: 'x' top: 'y'
  dummy_data_param { shape { dim: 3 dim: 2 dim: 6 dim: 6 } shape { dim: 3 }
    data_filler { type: 'constant' value: 0.5 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'c1' type: 'Convolution' bottom: 'x' top: 'c1'
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'msra' } } }
layer { name: 'bn' type: 'BatchNorm' bottom: 'c1' top: 'c1' }
layer { name: 'sc' type: 'Scale' bottom: 'c1' top: 'c1' scale_param { bias_term: true } }
layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' relu_param { negative_slope: 0.1 } }
layer { name: 'c2' type: 'Convolution' bottom: 'c1' top: 'c2' param { name: 'w2' }
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'c3' type: 'Convolution' bottom: 'c2' top: 'c3' param { name: 'w2' }
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false weight_filler { type: 'msra' } } }
layer { name: 'sum' type: 'Eltwise' bottom: 'c1' bottom: 'c3' top: 'sum' }
layer { name: 'tanh' type: 'TanH' bottom: 'sum' top: 'sum' }
layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool' pooling_param { kernel_size: 2 stride: 2 } }
layer { name: 'mean' type: 'Pooling' bottom: 'sum' top: 'mean' pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: 'cat' type: 'Concat' bottom: 'pool' bottom: 'mean' top: 'cat' }
layer { name: 'ip' type: 'InnerProduct' bottom: 'cat' top: 'ip'
  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'loss' loss_weight: 0.7 }
layer { name: 'side' type: 'Reduction' bottom: 'mean' top: 'side' reduction_param { operation: SUMSQ } loss_weight: 0.01 }
"""
SOLVER = "base_lr: 0.1 lr_policy: 'step' gamma: 0.5 stepsize: 2 max_iter: 4 display: 0 snapshot_after_train: false\n"


class SolverTest(FolderTest):
    def solver_file(self, fields="", net=NET):
        self.file("net.prototxt", net)
        return self.file("solver.prototxt", "train_net: 'net.prototxt'\n" + SOLVER + fields)

    def simple(self):
        self.file("net.prototxt", SIMPLE_NET)
        return caffe.SGDSolver(self.file("solver.prototxt", """net: 'net.prototxt' test_iter: 10 test_interval: 10
          base_lr: 0.01 momentum: 0.9 weight_decay: 0.0005 lr_policy: 'inv' gamma: 0.0001 power: 0.75 display: 100
          max_iter: 20 snapshot_after_train: false snapshot_prefix: '%s'""" % self.path("model")))

    def test_sgd_with_momentum_and_decay_is_numpys(self):
        solver = caffe.SGDSolver(self.solver_file("momentum: 0.9 weight_decay: 0.01 iter_size: 2"))
        w, b = np.full((4, 3), 0.25), np.zeros(4)
        vw, vb = np.zeros_like(w), np.zeros_like(b)
        x, y = np.full((2, 3), 0.5), np.ones((2, 4))
        for step in range(4):
            self.assertAlmostEqual(solver.lr, 0.1 * 0.5 ** (step // 2), places=6)
            dz = (x @ w.T + b - y) / 2
            rate = 0.1 * 0.5 ** (step // 2)
            vw = 0.9 * vw + rate * (dz.T @ x + 0.01 * w)
            vb = 0.9 * vb + 2 * rate * dz.sum(0)
            w, b = w - vw, b - vb
            solver.step(1)
            weights, bias = solver.net.params["ip"]
            np.testing.assert_allclose(weights.data, w, rtol=1e-5)
            np.testing.assert_allclose(bias.data, b, rtol=1e-5)
            np.testing.assert_allclose(weights.diff, vw, rtol=1e-3, atol=1e-6)  # what was subtracted
        self.assertEqual(solver.iter, 4)

    def test_every_type_steps_as_the_trainer_does(self):
        for kind, fields in (("SGD", "momentum: 0.9"), ("Nesterov", "momentum: 0.9"), ("AdaGrad", ""),
                             ("RMSProp", "rms_decay: 0.9"), ("AdaDelta", "momentum: 0.9 delta: 1e-6"),
                             ("Adam", "momentum: 0.9 momentum2: 0.99")):
            file = self.solver_file("type: '%s' weight_decay: 0.01 %s" % (kind, fields))
            solver = caffe.get_solver(file)
            self.assertEqual(type(solver).__name__, kind + "Solver")
            solver.step(4)
            moka.train(file, save=self.path("trained.caffemodel"))
            net = caffe.Net(self.path("net.prototxt"), caffe.TRAIN, weights=self.path("trained.caffemodel"))
            for a, b in zip(net.params["ip"], solver.net.params["ip"]):
                np.testing.assert_allclose(a.data, b.data, rtol=1e-4, atol=1e-6, err_msg=kind)

    def test_a_net_of_many_layers_steps_as_the_trainer_does(self):
        file = self.solver_file("momentum: 0.9 weight_decay: 0.01 iter_size: 2 clip_gradients: 5", WIDE)
        first = caffe.Net(self.path("net.prototxt"), caffe.TRAIN)
        first.save(self.path("first.caffemodel"))
        solver = caffe.SGDSolver(file)
        solver.net.copy_from(self.path("first.caffemodel"))
        solver.step(4)
        moka.train(file, weights=self.path("first.caffemodel"), save=self.path("trained.caffemodel"))
        net = caffe.Net(self.path("net.prototxt"), caffe.TRAIN, weights=self.path("trained.caffemodel"))
        for layer in net.params:
            for i, (a, b) in enumerate(zip(net.params[layer], solver.net.params[layer])):
                np.testing.assert_allclose(a.data, b.data, rtol=1e-3, atol=1e-5, err_msg="%s/%d" % (layer, i))
            self.assertFalse((first.params[layer][0].data == net.params[layer][0].data).all(), layer)

    def test_solve_tests_and_ends(self):
        solver = self.simple()
        self.assertEqual(solver.iter, 0)
        solver.solve()
        self.assertEqual(solver.iter, 20)

    def test_apply_update(self):
        solver = self.simple()
        weights = solver.net.layers[1].blobs[0]
        weights.data[...] = 0
        weights.diff[...] = 1
        solver.apply_update()
        np.testing.assert_allclose(weights.data, -0.01, atol=1e-7)
        self.assertEqual(solver.iter, 0)

    def test_test_nets_have_the_train_nets_weights(self):
        solver = self.simple()
        self.assertEqual(len(solver.test_nets), 1)
        solver.net.params["ip"][0].data[...] = 4
        self.assertTrue((solver.test_nets[0].params["ip"][0].data == 4).all())
        nets = [solver.net] + list(solver.test_nets)
        del solver
        for net in nets:
            self.assertTrue(np.isfinite(sum(p.data.sum() for ps in net.params.values() for p in ps)))

    def test_snapshot_and_restore(self):
        fields = "momentum: 0.9 snapshot_prefix: '%s'" % self.path("model")
        file = self.solver_file(fields)
        solver = caffe.SGDSolver(file)
        solver.step(2)
        solver.snapshot()
        solver.step(2)
        other = caffe.SGDSolver(file)
        other.restore(self.path("model_iter_2.solverstate"))
        self.assertEqual(other.iter, 2)
        other.step(2)
        for a, b in zip(solver.net.params["ip"], other.net.params["ip"]):
            np.testing.assert_array_equal(a.data, b.data)

    def test_callbacks(self):
        solver = caffe.SGDSolver(self.solver_file())
        calls = []
        solver.add_callback(lambda: calls.append("start"), lambda: calls.append("gradients"))
        solver.step(2)
        self.assertEqual(calls, ["start", "gradients"] * 2)
        solver.add_callback(lambda: 1 / 0, lambda: None)
        self.assertRaises(ZeroDivisionError, solver.step, 1)

    def test_fields(self):
        solver = self.simple()
        self.assertEqual((solver.param.max_iter, solver.param.display), (20, 100))
        solver.param.base_lr = 0.5
        self.assertAlmostEqual(solver.lr, 0.5, places=6)

    def test_what_steps_do_not_do_is_refused(self):
        for fields in ("max_epochs: 1", "precision: 'bfloat16'", "ema_decay: 0.9", "max_time: '1h'",
                       "target_metric: 'loss' target_value: 1", "early_stop_patience: 2", "first_solver: 'a.prototxt'",
                       "loss_scale: 8", "distributed { strategy: 'local' }"):
            file = self.solver_file(fields)
            name = fields.split()[0].rstrip(":")
            with self.assertRaisesRegex(Exception, "solver.prototxt:3:1: %s: a solver in Python" % name):
                caffe.get_solver(file)
        solver = caffe.get_solver(self.solver_file("precision: 'float32' loss_scale: 1 keep_last: 2 random_seed: -5"))
        solver.step(1)
        self.assertEqual(solver.iter, 1)

    def test_the_random_seed_repeats_weights(self):
        file = self.solver_file("random_seed: 3", SIMPLE_NET)
        a, b = caffe.get_solver(file), caffe.get_solver(file)
        np.testing.assert_array_equal(a.net.params["conv"][0].data, b.net.params["conv"][0].data)


if __name__ == "__main__":
    unittest.main()
