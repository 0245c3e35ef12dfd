"""moka.train and what the package moka gives."""

import os
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import FolderTest  # noqa: E402

import moka  # noqa: E402

NET = """layer { name: 'd' type: 'DummyData' top: 'x' top: 'y'
  dummy_data_param { shape { dim: 8 dim: 3 } shape { dim: 8 }
    data_filler { type: 'constant' value: 1 } data_filler { type: 'constant' value: 1 } } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'z'
  inner_product_param { num_output: 4 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'z' bottom: 'y' top: 'loss' }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'z' bottom: 'y' top: 'accuracy' include { phase: TEST } }
"""


class TrainTest(FolderTest):
    def test_train_returns_how_it_went(self):
        self.file("net.prototxt", NET)
        file = self.file("s.prototxt", "net: 'net.prototxt' base_lr: 0.5 lr_policy: 'fixed' max_iter: 1 test_iter: 1 "
                         "test_interval: 5 display: 0 snapshot_after_train: false")
        result = moka.train(file, max_iter=10, overrides=["layer[ip].inner_product_param.num_output=5"],
                            save=self.path("w.safetensors"))
        self.assertEqual(result["iteration"], 10)
        self.assertLess(result["loss"], 1.0)
        self.assertEqual(result["tests"][0]["accuracy"], 1.0)
        self.assertTrue(os.path.getsize(self.path("w.safetensors")) > 0)
        one = moka.train(file, overrides="layer[ip].inner_product_param.num_output=5",
                         weights=self.path("w.safetensors"), max_iter=1)
        self.assertLess(one["tests"][0]["loss"], result["loss"] + 0.1)
        with self.assertRaises(moka.Error):
            moka.train(file, max_itr=10)

    def test_fields_are_numbers_arrays_and_paths(self):
        self.file("net.prototxt", NET)
        file = pathlib.Path(self.file("s.prototxt", "base_lr: 0.5 lr_policy: 'multistep' max_iter: 1 display: 0 "
                                      "snapshot_after_train: false"))
        saved = file.with_name("w.safetensors")
        for max_iter in (3.0, np.float32(3), np.int64(3)):
            result = moka.train(file, net=file.with_name("net.prototxt"), max_iter=max_iter, gamma=0.5, save=saved,
                                stepvalue=np.array([1.0, 2.0]))
            self.assertEqual(result["iteration"], 3)
        self.assertEqual(moka.train(file, net=file.with_name("net.prototxt"), gamma=0.5, weights=saved)["iteration"], 1)
        with self.assertRaisesRegex(moka.Error, '"max_iter" takes an integer .*found "3.5"'):
            moka.train(file, net=file.with_name("net.prototxt"), max_iter=3.5)

    def test_names(self):
        self.assertTrue(all(hasattr(moka, name) for name in moka.__all__))
        self.assertRegex(moka.__version__, r"^\d+\.\d+\.\d+$")
        net = moka.Net.from_text("layer { name: 'i' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }", moka.TEST)
        self.assertEqual(net.inputs, ["x"])


if __name__ == "__main__":
    unittest.main()
