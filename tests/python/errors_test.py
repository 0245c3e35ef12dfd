"""A user's mistakes end as exceptions with a text, never as the end of the process."""

import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka  # noqa: E402
import moka.caffe as caffe  # noqa: E402


class ErrorsTest(FolderTest):
    def caught(self, call, *args, **kwargs):
        with self.assertRaises(moka.Error) as caught:
            call(*args, **kwargs)
        self.assertIsInstance(caught.exception, RuntimeError)
        return caught.exception

    def net_error(self, text):
        return self.caught(caffe.Net, self.file("bad.prototxt", text), caffe.TEST)

    def test_missing_files(self):
        self.assertEqual(self.caught(caffe.Net, self.path("none.prototxt"), caffe.TEST).kind, "no input")
        net = self.file("net.prototxt", SIMPLE_NET)
        error = self.caught(caffe.Net, net, caffe.TEST, weights=self.path("none.caffemodel"))
        self.assertIn("none.caffemodel", str(error))
        self.caught(caffe.SGDSolver, self.path("none.prototxt"))

    def test_unknown_fields_have_their_place(self):
        error = self.net_error("layer { name: 'a' type: 'ReLU'\n  botom: 'x' }")
        self.assertEqual((error.kind, error.line), ("config", 2))
        self.assertTrue(error.place.endswith("bad.prototxt:2:3"), error.place)
        self.assertIn("bottom", str(error))

    def test_unknown_layers_and_bottoms(self):
        self.assertIn("ReLU", str(self.net_error("layer { name: 'a' type: 'RelU' bottom: 'x' top: 'a' }")))
        self.assertIn('"y"', str(self.net_error("layer { name: 'a' type: 'ReLU' bottom: 'y' top: 'a' }")))

    def test_several_errors_at_once(self):
        error = self.net_error("layer { name: 'a' type: 'ReLU' bottom: 'p' top: 'a' }\n"
                               "layer { name: 'b' type: 'ReLU' bottom: 'q' top: 'b' }")
        self.assertEqual(len(error.errors), 2)

    def test_wrong_shapes(self):
        net = caffe.Net(self.file("net.prototxt", """layer { name: 'in' type: 'Input' top: 'x'
          input_param { shape { dim: 2 dim: 3 } } }
          layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { num_output: 2 } }"""),
                        caffe.TEST)
        with self.assertRaises(ValueError):
            net.blobs["x"].data[...] = np.zeros((5, 7))
        net.blobs["x"].reshape(2, 4)
        self.assertIn('"ip"', str(self.caught(net.forward)))
        net.blobs["x"].reshape(2, 3)
        net.forward()
        self.caught(net.params["ip"][0].reshape, 5, 5)
        with self.assertRaises(Exception):
            net.forward(z=np.zeros((2, 3)))
        with self.assertRaises(ValueError):
            net.forward(start="nothing")
        self.caught(net._forward, 0, 99)

    def test_blobs_of_impossible_shapes(self):
        net = moka.Net.from_text("""layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }
          layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }""", moka.TEST)
        blob = net.blobs["x"]
        for shape in ((-1, 3), (10 ** 13, 3), (2 ** 62, 2 ** 62), (1,) * 9):
            self.caught(blob.reshape, *shape)
        blob.reshape(0, 3)
        self.assertIn('bottom "x"', str(self.caught(net.forward)))
        blob.reshape(2, 3)
        net.forward()

    def test_what_layer_by_layer_nets_cannot_wire(self):
        start = "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
        error = self.caught(moka.Net.from_text, start + """layer { name: 'p' type: 'ReLU' bottom: 'x' top: 'p' }
          layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }""", moka.TEST)
        self.assertIn("in place", str(error))
        self.caught(moka.Net.from_text, start + """layer { name: 's' type: 'Scale' bottom: 'x' top: 's'
          param { name: 'w' } param { name: 'w' } scale_param { bias_term: true } }""", moka.TEST)

    def test_exceptions_of_callbacks_leave_the_net_usable(self):
        net = caffe.Net(self.file("net.prototxt", SIMPLE_NET), caffe.TEST)
        failing = [True]

        def call(layer):
            if failing[0]:
                raise ValueError(layer)
        net.before_forward(call)
        self.assertRaises(ValueError, net.forward)
        failing[0] = False
        net.forward()

    def test_weights_of_another_net(self):
        net = caffe.Net(self.file("net.prototxt", SIMPLE_NET), caffe.TEST)
        net.save(self.path("w.caffemodel"))
        other = SIMPLE_NET.replace("num_output: 13", "num_output: 14")
        error = self.caught(caffe.Net, self.file("o.prototxt", other), caffe.TEST, weights=self.path("w.caffemodel"))
        self.assertIn('"ip"', str(error))
        self.caught(caffe.Net, self.path("net.prototxt"), caffe.TEST, weights=self.file("junk", "junk"))

    def test_bad_solvers(self):
        net = self.file("net.prototxt", SIMPLE_NET)
        self.caught(caffe.get_solver, self.file("s.prototxt", "net: '%s' lr_policy: 'fixd' base_lr: 1" % net))
        self.caught(caffe.get_solver, self.file("s.prototxt", "net: '%s' lr_policy: 'fixed' type: 'SDG' base_lr: 1" % net))

    def test_labels_outside_the_classes(self):
        net = caffe.Net(self.file("net.prototxt", SIMPLE_NET), caffe.TRAIN)
        net.blobs["label"].data[...] = 99
        self.assertIn("loss", str(self.caught(net.forward)))

    def test_what_is_not_offered_says_so(self):
        self.assertEqual(self.caught(caffe.set_mode_gpu).kind, "unavailable")
        self.caught(caffe.set_device, 0)
        os.environ["MOKA_GPU_CALLS"] = "cpu"
        try:
            caffe.set_device(0)
            caffe.set_mode_gpu()
        finally:
            del os.environ["MOKA_GPU_CALLS"]
        self.assertFalse(caffe.has_nccl())
        self.assertRaises(NotImplementedError, caffe.NCCL, None, "")
        self.assertRaises(NotImplementedError, caffe.set_solver_count, 2)
        caffe.set_mode_cpu()
        self.assertEqual((caffe.solver_count(), caffe.solver_rank()), (1, 0))
        self.assertIn("Python", caffe.layer_type_list())

    def test_memory_data_of_wrong_arrays(self):
        net = caffe.Net(self.file("net.prototxt", """layer { name: 'd' type: 'MemoryData' top: 'x' top: 'y'
          memory_data_param { batch_size: 2 channels: 1 height: 1 width: 3 } }"""), caffe.TEST)
        self.caught(net.forward)
        self.caught(net.set_input_arrays, np.zeros((3, 1, 1, 3), np.float32), np.zeros(3, np.float32))
        self.caught(net.set_input_arrays, np.zeros((4, 1, 1, 3)), np.zeros(4, np.float32))
        self.caught(net.set_input_arrays, np.zeros((4, 1, 1, 3), np.float32), np.zeros(2, np.float32))
        for shape in ((4, 3, 1, 1), (4, 1, 3, 1), (4, 3), (4, 1, 1, 3, 1)):  # as many numbers, laid out otherwise
            error = self.caught(net.set_input_arrays, np.zeros(shape, np.float32), np.zeros(4, np.float32))
            self.assertIn('layer "d" takes data of shape [n,1,1,3], found [4,', str(error))
            self.assertEqual(error.line, 1)
        error = self.caught(net.set_input_arrays, np.zeros((4, 1, 1, 3), np.float32), np.zeros((4, 2), np.float32))
        self.assertIn("one label a sample", str(error))

    def test_arrays_that_are_no_values_of_the_inputs(self):
        net = moka.Net.from_text("""layer { name: 'a' type: 'Input' top: 'a' input_param { shape { dim: 4 dim: 3 } } }
          layer { name: 'b' type: 'Input' top: 'b' input_param { shape { dim: 4 dim: 3 } } }
          layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 's' }""", moka.TEST)
        good = np.ones((4, 3), np.float32)
        net.forward(a=good, b=good)
        for shape in ((4, 1), (1, 3), (3, 4), (3,), (), (5, 3)):
            with self.assertRaisesRegex(ValueError, r"'b' has the shape"):
                net.forward(a=3 * good, b=np.ones(shape))
        for array in (np.full((4, 3), "1.5"), good + 1j, np.full((4, 3), None)):
            with self.assertRaisesRegex(TypeError, "'b' holds .*, expected real numbers"):
                net.forward(a=3 * good, b=array)
        self.assertTrue((net.blobs["a"].data == 1).all(), "nothing is written of a call that is refused")
        self.assertEqual(net.forward(a=np.ones((4, 3), int), b=good.tolist())["s"][0, 0], 2)
        with self.assertRaisesRegex(ValueError, "'a' has 8, 'b' has 4"):
            net.forward_all(a=np.ones((8, 3)), b=good)
        for call in (net.forward_all, net.forward_backward_all):
            with self.assertRaisesRegex(ValueError, "no array is given"):
                call()

    def test_numbers_and_functions_that_are_none(self):
        net = caffe.Net(self.file("net.prototxt", SIMPLE_NET), caffe.TRAIN)
        blob = net.blobs["data"]
        for dim in (4.7, "4", True, None, np.float32(4)):
            with self.assertRaisesRegex(TypeError, "dimension 1 of a blob is .*, expected a whole number"):
                blob.reshape(5, dim, 3, 4)
        blob.reshape(np.int64(5), np.uint8(2), 3, 4)
        for start, end in (("ip", "conv"), ("loss", "data")):
            self.assertIn("the first comes after the last", str(self.caught(net.forward, start=start, end=end)))
            self.assertIn("the first comes after the last", str(self.caught(net.backward, start=end, end=start)))
        error = self.caught(net.params["ip"].add_blob, 3)
        self.assertIn("add_blob", str(error))
        self.assertEqual(len(net.params["ip"]), 2)
        for name in ("before_forward", "after_forward", "before_backward", "after_backward"):
            with self.assertRaisesRegex(TypeError, name + ": argument 1 is 3, expected a function"):
                getattr(net, name)(3)
        solver = caffe.SGDSolver(self.file("s.prototxt", "net: 'net.prototxt' lr_policy: 'fixed' base_lr: 1 min_lr: 0.1 "
                                           "test_iter: 1 test_interval: 9"))
        for functions, position in (((None, print), 1), ((print, None), 2)):
            with self.assertRaisesRegex(TypeError, "argument %d is None" % position):
                solver.add_callback(*functions)
        self.caught(solver.step, -1)
        for rate in (-1, float("nan"), float("inf"), 1e300, 0.01):
            self.assertIn("base_lr", str(self.caught(setattr, solver.param, "base_lr", rate)))
        solver.param.base_lr = 0.5
        self.assertEqual(solver.param.base_lr, 0.5)

    def test_names_of_weights_say_their_format(self):
        net = caffe.Net(self.file("net.prototxt", SIMPLE_NET), caffe.TRAIN)
        for name in ("w.npy", "w", "w.CAFFEMODEL", "w.solverstate.h5"):
            error = self.caught(net.save, self.path(name))
            self.assertEqual(error.kind, "usage")
            self.assertIn(".caffemodel.h5", str(error))
            self.assertFalse(os.path.exists(self.path(name)))
        for name in ("w.caffemodel", "w.safetensors", "w.h5", "w.npz"):
            net.save(self.path(name))
            other = caffe.Net(self.path("net.prototxt"), caffe.TRAIN, weights=self.path(name))
            np.testing.assert_array_equal(other.params["ip"][0].data, net.params["ip"][0].data)
        with open(self.path("w.h5"), "rb") as file:
            self.assertEqual(file.read(4), b"\x89HDF")
        solver = self.file("s.prototxt", "net: 'net.prototxt' lr_policy: 'fixed' base_lr: 1 max_iter: 1000000000 "
                           "test_iter: 1 test_interval: 9")
        self.assertEqual(self.caught(moka.train, solver, save=self.path("w.npy")).kind, "usage")
        for place in ("none/w.caffemodel", "."):  # before the training, which would not end
            self.caught(moka.train, solver, save=self.path(place))


if __name__ == "__main__":
    unittest.main()
