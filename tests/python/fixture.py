"""What the tests share: files of nets in a folder that goes with the test."""

import os
import shutil
import tempfile
import unittest

import moka

moka.set_log_level(2)


class FolderTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        moka.set_random_seed(7)

    def tearDown(self):
        shutil.rmtree(self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def file(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)
        return self.path(name)


# A net of noise, convolution, inner product and loss, as Caffe's own tests of pycaffe use it.
SIMPLE_NET = """name: 'testnet' force_backward: true
layer { type: 'DummyData' name: 'data' top: 'data' top: 'label'
  dummy_data_param { shape { dim: 5 dim: 2 dim: 3 dim: 4 } shape { dim: 5 dim: 1 dim: 1 dim: 1 }
    data_filler { type: 'gaussian' std: 1 } data_filler { type: 'constant' } } }
layer { type: 'Convolution' name: 'conv' bottom: 'data' top: 'conv'
  convolution_param { num_output: 11 kernel_size: 2 pad: 3
    weight_filler { type: 'gaussian' std: 1 } bias_filler { type: 'constant' value: 2 } }
  param { decay_mult: 1 } param { decay_mult: 0 } }
layer { type: 'InnerProduct' name: 'ip' bottom: 'conv' top: 'ip_blob'
  inner_product_param { num_output: 13 weight_filler { type: 'gaussian' std: 2.5 }
    bias_filler { type: 'constant' value: -3 } } }
layer { type: 'SoftmaxWithLoss' name: 'loss' bottom: 'ip_blob' bottom: 'label' top: 'loss' }
"""
