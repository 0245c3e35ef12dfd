"""HDF5Data and HDF5Output from Python: rows written by one net train another."""

import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import FolderTest  # noqa: E402

import moka  # noqa: E402

WRITER = """layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: 8 dim: 4 } shape { dim: 8 } } }
layer { name: 'out' type: 'HDF5Output' bottom: 'x' bottom: 'y' hdf5_output_param { file_name: '%s' } }
"""
NET = """layer { name: 'rows' type: 'HDF5Data' top: 'data' top: 'label'
  hdf5_data_param { source: 'list.txt' batch_size: 10 shuffle: true } include { phase: TRAIN } }
layer { name: 'rows' type: 'HDF5Data' top: 'data' top: 'label'
  hdf5_data_param { source: 'list.txt' batch_size: 16 } include { phase: TEST } }
layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'
  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }
layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }
layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' include { phase: TEST } }
"""


class Hdf5DataTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.here = os.getcwd()
        os.chdir(self.folder)  # nets that run layer by layer look for files there

    def tearDown(self):
        os.chdir(self.here)
        super().tearDown()

    def write_rows(self, name, rows, labels):
        net = moka.Net.from_text(WRITER % name, moka.TEST)
        for begin in range(0, len(rows), 8):
            net.blobs["x"].data[...] = rows[begin:begin + 8]
            net.blobs["y"].data[...] = labels[begin:begin + 8]
            net.forward()
        self.assertFalse(os.path.exists(name))  # it is there when the net is gone
        del net
        self.assertTrue(os.path.exists(name))

    def write_data_set(self):
        rows = np.random.RandomState(3).randn(160, 4).astype(np.float32)
        labels = (rows @ [1, -2, 0.5, 1] > 0).astype(np.float32)
        self.write_rows("a.h5", rows[:96], labels[:96])
        self.write_rows("b.h5", rows[96:], labels[96:])
        self.file("list.txt", "a.h5\nb.h5\n")
        return rows, labels

    def test_rows_come_back_over_the_ends_of_files(self):
        rows, labels = self.write_data_set()
        net = moka.Net.from_text(NET, moka.TEST)
        self.assertEqual(net.blobs["data"].data.shape, (16, 4, 1, 1))
        for batch in range(13):
            net.forward()
            wanted = np.arange(batch * 16, batch * 16 + 16) % 160
            np.testing.assert_array_equal(net.blobs["data"].data.reshape(16, 4), rows[wanted])
            np.testing.assert_array_equal(net.blobs["label"].data.ravel(), labels[wanted])

    def test_nets_train_from_rows(self):
        self.write_data_set()
        self.file("net.prototxt", NET)
        solver = self.file("s.prototxt", "net: 'net.prototxt' base_lr: 0.5 lr_policy: 'fixed' momentum: 0.9 max_iter: 150 "
                           "test_iter: 10 test_interval: 75 display: 0 random_seed: 1 snapshot_after_train: false")
        result = moka.train(solver)
        self.assertGreater(result["tests"][-1]["accuracy"], 0.9)
        layerwise = moka.get_solver(solver)
        layerwise.step(150)
        accuracy = 0
        for _ in range(10):
            accuracy += float(layerwise.test_nets[0].forward()["accuracy"]) / 10
        self.assertGreater(accuracy, 0.9)

    def test_a_bad_list_is_an_error(self):
        self.file("list.txt", "a.h5\n")
        with self.assertRaisesRegex(moka.Error, r"list.txt:1.*a.h5"):
            moka.Net.from_text(NET, moka.TEST)


if __name__ == "__main__":
    unittest.main()
