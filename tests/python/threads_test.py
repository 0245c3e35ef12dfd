"""Several nets in several threads, one net in several threads, and callbacks that need the interpreter."""

import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from fixture import SIMPLE_NET, FolderTest  # noqa: E402

import moka  # noqa: E402
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

    def status_in_child(self, work):
        """How a forked child ends that does the work: 0, or 1 for an exception. A child that hangs is killed."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work()
                status = 0
            finally:
                os._exit(status)
        for _ in range(600):
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.WEXITSTATUS(status)
            time.sleep(0.05)
        os.kill(child, 9)
        os.waitpid(child, 0)
        self.fail("the child hangs")

    def test_forked_children_compute(self):
        net = caffe.Net(self.file("net.prototxt", NET), caffe.TEST)
        x = np.random.RandomState(0).randn(4, 3, 8, 8).astype(np.float32)
        expected = net.forward(x=x)["y"].copy()

        def work():
            np.testing.assert_array_equal(net.forward(x=x)["y"], expected)
            net.backward(y=np.ones((4, 5), np.float32))
            fresh = caffe.Net(self.path("net.prototxt"), caffe.TEST)
            fresh.forward(x=x)
            self.assertEqual(self.status_in_child(lambda: fresh.forward(x=x)), 0)
        for _ in range(2):
            self.assertEqual(self.status_in_child(work), 0)
            np.testing.assert_array_equal(net.forward(x=x)["y"], expected)

    def test_forked_children_have_no_readers(self):
        rows = 64
        for name in ("a.txt", "b.txt"):
            self.file(name, "one two\n" * rows)
        self.file("words.txt", "<pad>\n<s>\n</s>\n<unk>\none\ntwo\n")
        text = """layer { name: 'pairs' type: 'TextPairData' top: 'x' data_param { batch_size: 2 }
          text_pair_data_param { output: SOURCE source_file: 'FOLDER/a.txt' target_file: 'FOLDER/b.txt'
            source_vocabulary: 'FOLDER/words.txt' target_vocabulary: 'FOLDER/words.txt'
            source_length: 4 target_length: 4 } }""".replace("FOLDER", self.folder)
        net = caffe.Net(self.file("net.prototxt", text), caffe.TEST)
        net.forward()

        def work():
            with self.assertRaisesRegex(moka.Error, "a forked process has no threads that read .*spawn"):
                for _ in range(rows):
                    net.forward()
            caffe.Net(self.path("net.prototxt"), caffe.TEST).forward()
        self.assertEqual(self.status_in_child(work), 0)

    def test_the_process_ends_beside_a_thread_that_trains(self):
        self.file("net.prototxt", SIMPLE_NET)
        self.file("s.prototxt", "net: 'net.prototxt' test_iter: 1 test_interval: 1000 base_lr: 0.01 "
                  "lr_policy: 'fixed' max_iter: 9 random_seed: 1 display: 0")
        script = """if True:
            import threading, time
            import moka, moka.caffe as caffe
            moka.set_log_level(2)
            solver = caffe.SGDSolver("s.prototxt")
            solver.add_callback(lambda: None, lambda: None)
            threading.Thread(target=lambda: solver.step(10 ** 9), daemon=True).start()
            while solver.iter < 3: time.sleep(0.01)
            print(solver.iter >= 3)"""
        for _ in range(3):
            done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False,
                                  cwd=self.folder, timeout=120)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True\n", ""))


if __name__ == "__main__":
    unittest.main()
