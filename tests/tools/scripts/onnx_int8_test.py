#!/usr/bin/env python3
"""Nets on 8-bit integers as ONNX files of the QDQ format, there and back: what `moka export --int8` writes must decide in
ONNX Runtime as `moka infer --int8` does, for 99.5 % of 1,000 pictures, and so must what `moka import` makes of it again.
Files of ONNX Runtime's own quantisation are imported, too.

Usage: onnx_int8_test.py SOURCE MOKA. Exits with 77, which says why, where Python has no onnx, onnxruntime, numpy or
Pillow; parts whose pictures are not below SOURCE/data are skipped.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime import quantization
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}; pip install onnx onnxruntime numpy pillow")
    sys.exit(77)

SOURCE, MOKA = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]

ALIKE = 0.995
PICTURES = 1000


def layer(name, kind, bottoms, fields="", tops=None):
    bottom = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    return f'layer {{ name: "{name}" type: "{kind}" {bottom} top: "{tops or name}" {fields} }}\n'


def digits_net():
    def data(phase, batch):
        return (f'layer {{ name: "data" type: "Data" top: "data" top: "label" include {{ phase: {phase} }} '
                f'transform_param {{ scale: 0.00390625 }} data_param {{ source: "data/mnist/{phase.lower()}" '
                f'batch_size: {batch} backend: LMDB }} }}\n')

    def conv(name, bottom, outputs, kernel, fields=""):
        return layer(name, "Convolution", bottom, f"convolution_param {{ num_output: {outputs} kernel_size: {kernel} "
                                                  f'pad: {kernel // 2} {fields} weight_filler {{ type: "msra" }} }}')

    def relu(blob):
        return layer(f"relu_{blob}", "ReLU", blob, tops=blob)
    pool = "pooling_param { pool: MAX kernel_size: 2 stride: 2 }"
    return 'name: "small"\n' + "".join([
        data("TRAIN", 64), data("TEST", 100),
        conv("conv1", "data", 16, 3), relu("conv1"), layer("pool1", "Pooling", "conv1", pool),
        conv("conv2", "pool1", 32, 3, "bias_term: false"), layer("bn2", "BatchNorm", "conv2"),
        layer("scale2", "Scale", "bn2", "scale_param { bias_term: true }", tops="bn2"), relu("bn2"),
        conv("conv3", "bn2", 32, 3), layer("sum3", "Eltwise", "bn2 conv3"), relu("sum3"),
        conv("short", "sum3", 32, 1, "stride: 2"), conv("conv4", "sum3", 32, 3, "stride: 2"),
        layer("sum4", "Eltwise", "conv4 short"), relu("sum4"), conv("conv5", "sum4", 32, 3), relu("conv5"),
        layer("pool5", "Pooling", "conv5", "pooling_param { pool: AVE global_pooling: true }"),
        layer("ip", "InnerProduct", "pool5", 'inner_product_param { num_output: 10 weight_filler { type: "xavier" } }'),
        layer("accuracy", "Accuracy", "ip label", "include { phase: TEST }"),
        layer("loss", "SoftmaxWithLoss", "ip label")])


DIGITS = digits_net()


class Calibration(quantization.CalibrationDataReader):
    """Batches of pictures, as ONNX Runtime's quantisation asks for them."""

    def __init__(self, name, pixels):
        self.batches = iter([{name: pixels[i:i + 50]} for i in range(0, 200, 50)])

    def get_next(self):
        return next(self.batches, None)


class Int8Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "data").symlink_to(SOURCE / "data")

    def moka(self, *words):
        done = subprocess.run([MOKA, *map(str, words)], cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, f"moka {words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def pictures(self, data, mode):
        """Test pictures as files whose pixels are the same for every reader, and those pixels [N,C,H,W]."""
        if not (SOURCE / "data" / data / "test/data.mdb").exists():
            self.skipTest(f"no data/{data}")
        self.moka("data", "export", f"data/{data}/test", "pictures", "--limit", PICTURES)
        files, pixels = [], []
        for file in sorted((self.folder / "pictures").iterdir()):
            picture = Image.open(file).convert(mode)
            file.unlink()
            files.append(file.with_suffix(".png"))
            picture.save(files[-1])
            values = np.asarray(picture, np.float32)
            pixels.append(values[None] if mode == "L" else values.transpose(2, 0, 1))
        return files, np.stack(pixels)

    def by_moka(self, net, files, *words):
        told = {found["file"]: found["top"] for found in
                json.loads(self.moka("infer", net, "pictures", "--json", "--top", 10, *words))}
        scores = np.zeros((len(files), 10))
        for i, file in enumerate(files):
            for one in told[str(file.relative_to(self.folder))]:
                scores[i, one["index"]] = one["score"]
        return scores

    def by_runtime(self, file, pixels, batch=PICTURES):
        onnx.checker.check_model(str(self.folder / file), full_check=True)
        session = onnxruntime.InferenceSession(str(self.folder / file), providers=["CPUExecutionProvider"])
        name = session.get_inputs()[0].name
        return np.concatenate([session.run(None, {name: pixels[i:i + batch]})[0] for i in range(0, len(pixels), batch)])

    def assert_alike(self, wanted, found, share=ALIKE):
        self.assertGreaterEqual(np.mean(wanted.argmax(1) == found.argmax(1)), share)

    def train_digits(self):
        (self.folder / "net.prototxt").write_text(DIGITS)
        (self.folder / "solver.prototxt").write_text(
            'net: "net.prototxt" base_lr: 0.05 momentum: 0.9 lr_policy: "fixed" max_iter: 200 test_iter: 10 '
            "test_interval: 200 random_seed: 1")
        self.moka("train", "solver.prototxt", "--run", "small", "--device", "cpu", "--quiet")
        return "small-0001"

    def test_digits_by_a_net_with_sums_of_both_signs(self):
        files, pixels = self.pictures("mnist", "L")
        run = self.train_digits()
        self.moka("quantise", run, "--batches", 8, "--iterations", 1, "--out", "small.int8.json")
        self.moka("export", run, "--with-preprocess", "--out", "real.onnx")
        told = json.loads(self.moka("export", run, "--with-preprocess", "--int8", "small.int8.json", "--json"))
        self.assertEqual(told["int8_convolutions"], 6)
        wanted = self.by_moka(run, files, "--int8", "small.int8.json")
        self.assertGreater(np.mean(wanted.argmax(1) == [int(file.name[0]) for file in files]), 0.8)
        integers, reals = self.by_runtime(f"{run}.onnx", pixels), self.by_runtime("real.onnx", pixels)
        self.assert_alike(wanted, integers)
        # Scores are nearer to Moka's on integers than those of real numbers are.
        apart = np.abs(wanted - reals).mean()
        self.assertLess(np.abs(wanted - integers).mean(), apart / 4)
        model = onnx.load(str(self.folder / f"{run}.onnx"))
        kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
        zeros = {kinds[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"}
        self.assertEqual(zeros, {onnx.TensorProto.UINT8, onnx.TensorProto.INT8})
        # What comes back has ranges of the same layers, though an input that another convolution made has that one's.
        told = json.loads(self.moka("import", f"{run}.onnx", "--out", "again", "--json"))
        self.assertEqual(told["int8_convolutions"], 6)
        again = self.by_moka("again", files, "--int8", "again/int8.json")
        self.assert_alike(wanted, again)
        self.assertLess(np.abs(wanted - again).mean(), apart / 4)
        self.assert_alike(wanted, self.by_moka("again", files), 0.98)
        first = json.loads((self.folder / "small.int8.json").read_text())["convolutions"]
        second = json.loads((self.folder / "again/int8.json").read_text())["convolutions"]
        self.assertEqual(set(first), set(second))
        for name, ranges in first.items():
            np.testing.assert_allclose(second[name]["weights"], ranges["weights"], rtol=1e-6)

    def test_pictures_by_a_net_of_the_zoo(self):
        files, pixels = self.pictures("cifar10", "RGB")
        net = SOURCE / "models/cifar10_fast"
        self.moka("quantise", net, "--batches", 4, "--iterations", 1, "--out", "fast.int8.json")
        told = json.loads(self.moka("export", net, "--with-preprocess", "--int8", "fast.int8.json", "--json",
                                    "--batch", 100, "--out", "fast.onnx"))  # it takes pictures and their mirrors apart
        self.assertGreater(told["int8_convolutions"], 4)
        wanted = self.by_moka(net, files, "--int8", "fast.int8.json")
        self.assert_alike(wanted, self.by_runtime("fast.onnx", pixels, 100))

    def test_files_of_another_quantisation(self):
        """ONNX Runtime leaves ReLUs out in front of uint8, and rounds products and pictures, too."""
        files, pixels = self.pictures("mnist", "L")
        run = self.train_digits()
        self.moka("export", run, "--with-preprocess", "--out", "real.onnx")
        name = onnx.load(str(self.folder / "real.onnx")).graph.input[0].name
        for kind, per_channel in ((quantization.QuantType.QUInt8, True), (quantization.QuantType.QInt8, False)):
            with self.subTest(kind=kind):
                quantization.quantize_static(
                    str(self.folder / "real.onnx"), str(self.folder / "other.onnx"), Calibration(name, pixels),
                    quant_format=quantization.QuantFormat.QDQ, per_channel=per_channel, activation_type=kind,
                    weight_type=quantization.QuantType.QInt8,
                    extra_options={"ActivationSymmetric": kind == quantization.QuantType.QInt8})
                wanted = self.by_runtime("other.onnx", pixels)
                out = f"other{kind.value}"
                told = json.loads(self.moka("import", "other.onnx", "--out", out, "--json"))
                self.assertEqual(told["int8_convolutions"], 5)  # the sixth has a batch norm of its own behind it
                self.assert_alike(wanted, self.by_moka(out, files), 0.98)
                self.assert_alike(wanted, self.by_moka(out, files, "--int8", f"{out}/int8.json"), 0.98)


if __name__ == "__main__":
    unittest.main()
