"""`moka compare` against arrays that the Python net wrote: they agree, and a changed one is named."""

import os
import subprocess
import unittest

import numpy as np

import fixture
import moka.caffe as caffe

NET = """
layer { name: "data" type: "Input" top: "data" top: "label" input_param { shape { dim: 4 dim: 5 } shape { dim: 4 } } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param { num_output: 3 weight_filler { type: "xavier" } } }
layer { name: "relu" type: "ReLU" bottom: "ip" top: "act" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "act" bottom: "label" top: "loss" }
"""


DETECTIONS = """
layer { name: "in" type: "Input" top: "loc" top: "conf" top: "prior"
  input_param { shape { dim: 1 dim: 8 } shape { dim: 1 dim: 4 } shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: "found" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "prior" top: "found"
  detection_output_param { num_classes: 2 confidence_threshold: 0.5 } }
"""


class CompareTest(fixture.FolderTest):
    def arrays(self):
        net = caffe.Net(self.file("net.prototxt", NET), caffe.TRAIN)
        net.blobs["data"].data[...] = np.random.RandomState(1).randn(4, 5)
        net.blobs["label"].data[...] = [0, 2, 1, 0]
        net.forward()
        net.backward()
        arrays = {f"blob/{name}": blob.data.copy() for name, blob in net.blobs.items()}
        arrays |= {f"blobdiff/{name}": net.blobs[name].diff.copy() for name in ("ip", "act")}
        for i, blob in enumerate(net.params["ip"]):
            arrays[f"param/ip/{i}"] = blob.data.copy()
            arrays[f"paramdiff/ip/{i}"] = blob.diff.copy()
        arrays["note"] = np.array("made by a test")
        return arrays

    def compare(self, arrays, flags=("--phase", "TRAIN", "--gradients")):
        np.savez_compressed(self.path("blobs.npz"), **arrays)
        command = [os.environ["MOKA_BINARY"], "compare", self.path("net.prototxt"), self.path("blobs.npz"), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_equal_nets_agree(self):
        code, text = self.compare(self.arrays())
        self.assertEqual(code, 0, text)
        self.assertIn("all 7 agree", text)

    def test_what_is_not_compared_is_said(self):
        arrays = self.arrays()
        arrays["blob/elsewhere"] = np.zeros(3)
        del arrays["paramdiff/ip/1"]
        code, text = self.compare(arrays)
        self.assertEqual(code, 0, text)
        self.assertIn('not     array "blob/elsewhere": the net has nothing of that name', text)
        self.assertIn('not     gradient of parameter 1 of layer "ip": the file has no paramdiff/ip/1', text)
        self.assertRegex(text, r"all 6 agree; \d+ not compared")
        code, text = self.compare(self.arrays(), flags=("--phase", "TRAIN"))
        self.assertEqual(code, 0, text)
        self.assertRegex(text, r"not     \d+ gradients of the file: --gradients was not given")

    def test_gradients_that_are_not_there_are_not_equal(self):
        arrays = {name: a for name, a in self.arrays().items() if "diff/" not in name}
        code, text = self.compare(arrays)
        self.assertEqual(code, 65, text)
        self.assertIn("has no gradient of this net that can be compared", text)
        self.assertEqual(self.compare(arrays, flags=("--phase", "TRAIN"))[0], 0)

    def test_the_first_difference_is_named(self):
        arrays = self.arrays()
        arrays["blob/act"][2, 1] += 0.5
        code, text = self.compare(arrays)
        self.assertEqual(code, 22, text)
        self.assertIn('the first that differs: act of layer "relu" (at 7:', text)

    def test_wrong_inputs_are_refused(self):
        arrays = self.arrays()
        del arrays["blob/data"]
        code, text = self.compare(arrays)
        self.assertEqual(code, 65, text)
        self.assertIn('the input "data" has no values', text)

    def found(self, scores):
        """Caffe's arrays of two priors with these scores, of which it found the first alone."""
        net = caffe.Net(self.file("net.prototxt", DETECTIONS), caffe.TEST)
        net.blobs["conf"].data[...] = [[value for s in scores for value in (1 - s, s)]]
        net.blobs["prior"].data[...] = [[[0, 0, 0.2, 0.2, 0.5, 0.5, 0.9, 0.9], [0.1] * 8]]
        net.forward()
        arrays = {f"blob/{name}": blob.data.copy() for name, blob in net.blobs.items()}
        arrays["blob/found"] = arrays["blob/found"][:, :, :1]
        return arrays

    def test_padding_after_what_was_found_is_left_out(self):
        code, text = self.compare(self.found([0.9, 0.2]), flags=())
        self.assertEqual(code, 0, text)
        self.assertIn("the first [1,1,1,7] of [1,1,2,7]", text)

    def test_more_found_than_there_is_a_difference(self):
        code, text = self.compare(self.found([0.9, 0.8]), flags=())
        self.assertEqual(code, 22, text)
        self.assertIn("the rest here is not padding", text)


if __name__ == "__main__":
    unittest.main()
