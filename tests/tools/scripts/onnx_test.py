#!/usr/bin/env python3
"""ONNX files of `moka export`, checked by ONNX's own checker and run by ONNX Runtime: every blob must be what `moka
compare` computes, within 1e-4 of the largest value. Small nets hold the layers that have a form in ONNX; of the zoo
there are nets that were trained for an iteration on drawn pictures. OpenCV, where Python has it, is a second judge: it
must compute the same outputs of all files whose ops it has.

Usage: onnx_test.py SOURCE MOKA. Exits with 77, which says why, where Python has no onnx, onnxruntime or numpy.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"skipped: {missing}; pip install onnx onnxruntime numpy")
    sys.exit(77)

try:
    import cv2
except ImportError:
    cv2 = None

SOURCE, MOKA = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
del sys.argv[1:3]
sys.path.insert(0, str(SOURCE / "tools/zoo"))
from sweeping import made_data  # noqa: E402

TOLERANCE = 1e-4
BATCH = 3  # neither of the batches that the exporter looks at would show a batch that it left in the file: 2 would


def layer(name, kind, bottoms, fields="", tops=None):
    bottom = " ".join(f'bottom: "{b}"' for b in bottoms.split())
    top = " ".join(f'top: "{t}"' for t in (tops or name).split())
    return f'layer {{ name: "{name}" type: "{kind}" {bottom} {top} {fields} }}\n'


def pooling(name, kind, kernel, stride, pad):
    return layer(name, "Pooling", "data",
                 f"pooling_param {{ pool: {kind} kernel_size: {kernel} stride: {stride} pad: {pad} }}")


# name: (shape of a sample, layers, shapes of parameters).
NETS = {
    "convolutions": ((4, 9, 11), [
        layer("conv", "Convolution", "data", "convolution_param { num_output: 6 kernel_size: 3 pad: 2 dilation: 2 group: 2 }"),
        layer("bn", "BatchNorm", "conv", "batch_norm_param { eps: 0.001 }"),
        layer("scale", "Scale", "bn", "scale_param { bias_term: true }"),
        layer("relu", "ReLU", "scale", tops="scale"),
        layer("alone", "BatchNorm", "conv"),
        layer("slope", "PReLU", "alone"),
        layer("up", "Deconvolution", "scale",
              "convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 group: 2 }"),
        layer("bias", "Bias", "conv"),
        layer("ip", "InnerProduct", "up", "inner_product_param { num_output: 5 }"),
        layer("rows", "InnerProduct", "conv", "inner_product_param { num_output: 3 axis: 3 }"),
        layer("prob", "Softmax", "ip")],
        {"conv/0": (6, 2, 3, 3), "conv/1": (6,), "bn/0": (6,), "bn/1": (6,), "bn/2": (1,), "scale/0": (6,),
         "scale/1": (6,), "alone/0": (6,), "alone/1": (6,), "alone/2": (1,), "slope/0": (6,), "up/0": (6, 2, 4, 4),
         "up/1": (4,), "bias/0": (6,), "ip/0": (5, 4 * 18 * 22), "ip/1": (5,), "rows/0": (3, 11), "rows/1": (3,)}),
    "pooling": ((2, 10, 7), [
        pooling(f"{kind}_{kernel}_{stride}_{pad}".lower(), kind, kernel, stride, pad)
        for kind in ("MAX", "AVE") for kernel, stride, pad in ((2, 2, 0), (3, 2, 0), (3, 2, 1), (3, 3, 2), (4, 3, 1))
    ] + [
        layer("whole_max", "Pooling", "data", "pooling_param { pool: MAX global_pooling: true }"),
        layer("whole_mean", "Pooling", "data", "pooling_param { pool: AVE global_pooling: true }"),
        layer("across", "LRN", "data", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 k: 2 }"),
        layer("within", "LRN", "data", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.75 norm_region: WITHIN_CHANNEL }"),
        layer("ip", "InnerProduct", "whole_mean", "inner_product_param { num_output: 2 }")],
        {"ip/0": (2, 2), "ip/1": (2,)}),
    "formulas": ((3, 4, 5), [
        layer("relu", "ReLU", "data"), layer("leaky", "ReLU", "data", "relu_param { negative_slope: 0.1 }"),
        layer("elu", "ELU", "data", "elu_param { alpha: 0.7 }"), layer("sigmoid", "Sigmoid", "data"),
        layer("tanh", "TanH", "data"), layer("abs", "AbsVal", "data"), layer("bnll", "BNLL", "data"),
        layer("swish", "Swish", "data", "swish_param { beta: 1.5 }"), layer("hard", "HardSwish", "data"),
        layer("clip", "Clip", "data", "clip_param { min: -0.3 max: 0.4 }"),
        layer("power", "Power", "data", "power_param { power: 2 scale: 0.5 shift: 0.25 }"),
        layer("exp", "Exp", "data", "exp_param { base: 2 }"), layer("log", "Log", "exp"),
        layer("threshold", "Threshold", "data", "threshold_param { threshold: 0.1 }"),
        layer("sum", "Eltwise", "relu abs tanh", "eltwise_param { operation: SUM coeff: 1 coeff: -2 coeff: 0.5 }"),
        layer("product", "Eltwise", "sigmoid tanh", "eltwise_param { operation: PROD }"),
        layer("largest", "Eltwise", "data tanh clip", "eltwise_param { operation: MAX }"),
        layer("mvn", "MVN", "data"), layer("dropout", "Dropout", "tanh"),
        layer("ip", "InnerProduct", "data", "inner_product_param { num_output: 2 bias_term: false }")],
        {"ip/0": (2, 60)}),
    "moves": ((6, 4, 5), [
        layer("slice", "Slice", "data", "slice_param { axis: 1 slice_point: 1 slice_point: 3 }", tops="a b c"),
        layer("concat", "Concat", "c a b"),
        layer("flat", "Flatten", "data"),
        layer("reshape", "Reshape", "data", "reshape_param { shape { dim: 0 dim: 3 dim: -1 dim: 5 } }"),
        layer("joined", "Reshape", "data", "reshape_param { shape { dim: -1 dim: 5 } }"),
        layer("permute", "Permute", "data", "permute_param { order: 0 order: 2 order: 3 order: 1 }"),
        layer("tile", "Tile", "data", "tile_param { axis: 1 tiles: 2 }"),
        layer("pad", "Pad", "data", "pad_param { paddings: 0 paddings: 0 paddings: 1 paddings: 2 paddings: 0 paddings: 0 "
                                    "paddings: 1 paddings: 0 }"),
        layer("crop", "Crop", "pad data", "crop_param { axis: 1 offset: 1 offset: 0 offset: 1 }"),
        layer("larger", "ResizeBilinear", "data",
              'resize_bilinear_param { output_height: 9 output_width: 13 data_format: "NCHW" align_corners: true }'),
        layer("channels", "Softmax", "data"), layer("sums", "Reduction", "data", "reduction_param { axis: 1 }"),
        layer("highest", "ArgMax", "data", "argmax_param { axis: 1 }"),
        layer("place", "ArgMax", "data"),
        layer("floors", "Formula", "data", 'formula_param { formula: "floor(2*x0)" }'),
        layer("last", "ArgMax", "floors", "argmax_param { axis: 3 }"),
        layer("first", "ArgMax", "floors", "argmax_param { axis: 3 first_of_equals: true }"),
        layer("last_of_all", "ArgMax", "floors"),
        layer("first_of_all", "ArgMax", "floors", "argmax_param { first_of_equals: true }"),
        layer("ip", "InnerProduct", "flat", "inner_product_param { num_output: 2 }")],
        {"ip/0": (2, 120), "ip/1": (2,)}),
}


def write_weights(path, shapes):
    """A .safetensors file of random numbers; statistics are positive, as variances are."""
    draw = np.random.default_rng(7)
    header, data = {}, b""
    for name, shape in shapes.items():
        values = draw.uniform(0.5, 1.5, shape) if len(shape) == 1 else draw.uniform(-0.5, 0.5, shape)
        raw = values.astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def run(*words, cwd):
    return subprocess.run([MOKA, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


class OnnxTest(unittest.TestCase):
    judged = {}  # files that OpenCV was asked about, and whether it agrees

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def moka(self, *words):
        done = run(*words, cwd=self.folder)
        self.assertEqual(done.returncode, 0, f"moka {words}\n{done.stdout}{done.stderr}")
        return done.stdout

    def values_by_runtime(self, file, batch, low=-1.0, high=1.0):
        """Checks the file, runs it and returns what goes in, all that comes out, intermediate values too, and the names
        of the outputs."""
        onnx.checker.check_model(str(file), full_check=True)
        model = onnx.load(str(file))
        asked = {output.name for output in model.graph.output}
        model.graph.output.extend(value for value in model.graph.value_info if value.name not in asked)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        draw = np.random.default_rng(1)
        given = {}
        for value in session.get_inputs():
            self.assertEqual(value.shape[0], "N", "the batch is open")
            given[value.name] = draw.uniform(low, high, [batch, *value.shape[1:]]).astype(np.float32)
        names = [output.name for output in session.get_outputs()]
        return given, dict(zip(names, session.run(None, given))), asked

    @classmethod
    def tearDownClass(cls):
        if cls.judged:
            told = [name for name, agrees in cls.judged.items() if not agrees]
            print(f"OpenCV {cv2.__version__}: {len(cls.judged) - len(told)} of {len(cls.judged)} files agree"
                  + (f", and it does not read {', '.join(told)}" if told else ""))

    def ask_opencv(self, name, file, given, made, outputs, reads=True):
        """OpenCV computes these outputs of a file. One that it does not read is counted, or with `reads` a failure."""
        if cv2 is None:
            return
        before = cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        try:
            net = cv2.dnn.readNetFromONNX(str(file))
            for blob, value in given.items():
                net.setInput(value, blob)
            computed = dict(zip(sorted(outputs), net.forward(sorted(outputs))))
        except cv2.error as error:
            self.assertFalse(reads, f"{name}: {error}")
            self.judged[name] = False
            return
        finally:
            cv2.utils.logging.setLogLevel(before)
        for blob, value in computed.items():
            difference = np.abs(value.reshape(made[blob].shape) - made[blob]).max()
            self.assertLessEqual(difference, TOLERANCE * max(np.abs(made[blob]).max(), 1e-30), f"{name}: {blob} by OpenCV")
        self.judged[name] = True

    def compare(self, net, weights, arrays, least):
        """All blobs that both know agree; those of `least` are among them, or so many where it is a number."""
        np.savez(self.folder / "blobs.npz", **{f"blob/{name}": value for name, value in arrays.items()})
        told = self.moka("compare", net, "blobs.npz", "--weights", weights, "--tolerance", TOLERANCE)
        equal = {line.split()[2] for line in told.splitlines() if line.startswith("equal")}
        if isinstance(least, int):
            self.assertGreaterEqual(len(equal), least, told)
        else:
            self.assertLessEqual(set(least), equal, told)

    def test_small_nets_of_every_version(self):
        for name, (sample, layers, parameters) in NETS.items():
            dims = " ".join(f"dim: {d}" for d in (BATCH, *sample))
            text = f'name: "{name}"\nlayer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
            (self.folder / "net.prototxt").write_text(text + "".join(layers))
            write_weights(self.folder / "w.safetensors", parameters)
            for opset in (11, 13, 17, 18, 20, 22):
                with self.subTest(net=name, opset=opset):
                    self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--to", "onnx", "--out", "net.onnx",
                              "--opset", opset)
                    given, made, outputs = self.values_by_runtime(self.folder / "net.onnx", BATCH)
                    self.compare("net.prototxt", "w.safetensors", given | made, outputs)
                    self.ask_opencv(f"{name}, opset {opset}", self.folder / "net.onnx", given, made, outputs)

    def test_external_weights_are_found_beside_the_file(self):
        sample, layers, parameters = NETS["convolutions"]
        dims = " ".join(f"dim: {d}" for d in (BATCH, *sample))
        text = f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n'
        (self.folder / "net.prototxt").write_text(text + "".join(layers))
        write_weights(self.folder / "w.safetensors", parameters)
        told = json.loads(self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--external", "--json"))
        self.assertEqual(told["written"], ["net.onnx", "net.onnx.data"])
        onnx.checker.check_model(str(self.folder / "net.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(str(self.folder / "net.onnx"), providers=["CPUExecutionProvider"])
        x = np.random.default_rng(2).uniform(-1, 1, (BATCH, *sample)).astype(np.float32)
        made = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"data": x})))
        self.compare("net.prototxt", "w.safetensors", {"data": x} | made, made)

    def test_pixels_go_in_as_they_are(self):
        sample = (3, 4, 4)
        dims = " ".join(f"dim: {d}" for d in (BATCH, *sample))
        transform = "transform_param { mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 }"
        (self.folder / "net.prototxt").write_text(
            f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} {transform} }}\n' +
            layer("ip", "InnerProduct", "data", "inner_product_param { num_output: 2 }"))
        write_weights(self.folder / "w.safetensors", {"ip/0": (2, 48), "ip/1": (2,)})
        self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--with-preprocess")
        given, made, _ = self.values_by_runtime(self.folder / "net.onnx", BATCH, 0, 255)
        prepared = (given["data"][:, ::-1] - np.array([104, 117, 123], np.float32).reshape(1, 3, 1, 1)) * 0.017
        self.compare("net.prototxt", "w.safetensors", {"data": prepared.astype(np.float32), "ip": made["ip"]}, 1)
        told = {entry.key: entry.value for entry in onnx.load(str(self.folder / "net.onnx")).metadata_props}
        self.assertEqual(json.loads(told["preprocessing"]), {"input": "data", "pixels": "0..255", "channels": "RGB",
                                                             "crop": [4, 4]})
        # What comes back takes the same pixels: they are prepared once.
        self.moka("import", "net.onnx", "--out", "again", "--batch", BATCH)
        card = (self.folder / "again/model.prototxt").read_text()
        self.assertIn("channels: RGB", card)
        for field in ("mean:", "std:", "scale:"):
            self.assertNotIn(field, card)
        self.compare("again/deploy.prototxt", "again/weights.safetensors", {"data": given["data"], "ip": made["ip"]}, {"ip"})

    def test_a_net_is_not_called_as_weights_are(self):
        dims = " ".join(f"dim: {d}" for d in (1, 3, 4, 4))
        (self.folder / "net.prototxt").write_text(
            f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ {dims} }} }} }}\n' +
            layer("ip", "InnerProduct", "data", "inner_product_param { num_output: 2 }"))
        write_weights(self.folder / "w.safetensors", {"ip/0": (2, 48), "ip/1": (2,)})
        for words, code, text in (
                (("--to", "onnx", "--out", "x.safetensors"), 64, "--to onnx writes a .onnx, and --out says x.safetensors"),
                (("--to", "npz", "--out", "x.onnx"), 64, "--to npz writes a .npz, and --out says x.onnx"),
                (("--to", "torch-names", "--out", "x.npz"), 64, "--to torch-names writes a .torch.safetensors"),
                (("--to", "onnx", "--out", "none/x.onnx"), 73, "there is no folder none"),
                (("--to", "caffe", "--deploy", "none/x.prototxt"), 73, "there is no folder none")):
            # The place is looked at before the net: this one is not there.
            done = run("export", "other.prototxt", "--weights", "w.safetensors", *words, cwd=self.folder)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--to", "onnx", "--out", "x.bin")
        self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["net.prototxt", "w.safetensors", "x.bin"])

    def test_what_integers_want_is_told(self):
        (self.folder / "net.prototxt").write_text(
            f'layer {{ name: "data" type: "Input" top: "data" input_param {{ shape {{ dim: 1 dim: 3 dim: 4 dim: 4 }} }} }}\n' +
            layer("ip", "InnerProduct", "data", "inner_product_param { num_output: 2 }"))
        write_weights(self.folder / "w.safetensors", {"ip/0": (2, 48), "ip/1": (2,)})
        (self.folder / "r.json").write_text('{"convolutions": {}}')
        (self.folder / "other.json").write_text('{"convolutions": {"c": {"input": [0, 1]}}}')
        for words, code, text in ((("--int8", "r.json", "--opset", 12), 64, "--int8 wants --opset 13 or later, not 12"),
                                  (("--int8", "r.json", "--to", "npz"), 64, "--int8 is for --to onnx"),
                                  (("--int8", "none.json"), 66, "none.json"),
                                  (("--int8", "other.json"), 78, 'layer "c" has no list "output"')):
            done = run("export", "net.prototxt", "--weights", "w.safetensors", *words, cwd=self.folder)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertIn(text, done.stderr)
        done = run("export", "net.prototxt", "--weights", "w.safetensors", "--int8", "r.json", cwd=self.folder)
        self.assertIn("no convolution runs on 8-bit integers", done.stderr)

    def test_recurrent_layers(self):
        """Three steps of two streams, which begin anew or go on from states that are given, and end early."""
        def given(name, *dims):
            sizes = " ".join(f"dim: {d}" for d in dims)
            return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {sizes} }} }} }}\n'

        def first(name, *dims):
            """Of an input with the batch's first dimension the first part, in a shape without it."""
            sizes = " ".join(f"dim: {d}" for d in dims)
            return (given(f"{name}s", 3, *(dims if dims[0] != 1 else dims[1:])) +
                    layer(f"{name}_cut", "Slice", f"{name}s", "slice_param { axis: 0 slice_point: 1 }",
                          f"{name}_first {name}_rest") +
                    layer(name, "Reshape", f"{name}_first", f"reshape_param {{ shape {{ {sizes} }} }}"))
        x, units = given("data", 3, 2, 4), "recurrent_param { num_output: 5 %s }"
        begins = 'layer { name: "cont" type: "ContinuationIndicator" top: "cont" ' \
                 "continuation_indicator_param { time_step: 3 batch_size: 2 } }\n"
        goes_on = layer("cont", "Power", "begin", "power_param { scale: 0 shift: 1 }")
        goes_on = begins.replace('top: "cont"', 'top: "begin"').replace('name: "cont"', 'name: "begin"') + goes_on
        lstm = {"lstm/0": (20, 4), "lstm/1": (20,), "lstm/2": (20, 5)}
        gru = {"gru/0": (15, 4), "gru/1": (15,), "gru/2": (15, 5), "gru/3": (5,)}
        forget = units % "lstm_additional_forget_bias: 0.5"
        exposed = units % "expose_hidden: true"
        nets = {
            "lstm": (x + begins + layer("lstm", "LSTM", "data cont", forget), lstm, {"lstm"}, {"LSTM": 1, "Gemm": 0}),
            "gru": (x + begins + layer("gru", "GRU", "data cont", units % ""), gru, {"gru"}, {"GRU": 1, "Gemm": 0}),
            "static": (x + first("s", 2, 3) + begins + layer("lstm", "LSTM", "data cont s", units % ""),
                       {"lstm/0": (20, 4), "lstm/1": (20,), "lstm/2": (20, 3), "lstm/3": (20, 5)}, {"lstm"}, {"LSTM": 1}),
            "states": (x + first("h", 1, 2, 5) + first("c", 1, 2, 5) + goes_on +
                       layer("lstm", "LSTM", "data cont h c", exposed, "lstm h_T c_T") +
                       layer("gru", "GRU", "data cont h", exposed, "gru last"), lstm | gru,
                       {"lstm", "h_T", "c_T", "gru", "last"}, {"LSTM": 1, "GRU": 1}),
            "lengths": (x + first("n", 2) + begins + layer("lstm", "LSTM", "data cont n", units % "") +
                        layer("gru", "GRU", "data cont n", units % ""), lstm | gru, {"lstm", "gru"}, {"LSTM": 1}),
        }
        for name, (text, parameters, outputs, counts) in nets.items():
            with self.subTest(name):
                (self.folder / "net.prototxt").write_text(text)
                write_weights(self.folder / "w.safetensors", parameters)
                self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--batch", 3, "--out", "net.onnx")
                onnx.checker.check_model(str(self.folder / "net.onnx"), full_check=True)
                types = [node.op_type for node in onnx.load(str(self.folder / "net.onnx")).graph.node]
                for kind, count in counts.items():
                    self.assertEqual(types.count(kind), count, types)
                session = onnxruntime.InferenceSession(str(self.folder / "net.onnx"), providers=["CPUExecutionProvider"])
                draw = np.random.default_rng(3)
                feeds = {one.name: draw.uniform(-1, 1, one.shape).astype(np.float32) for one in session.get_inputs()}
                if "ns" in feeds:
                    feeds["ns"][0] = [3, 1]
                made = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))
                self.compare("net.prototxt", "w.safetensors", feeds | made, outputs)
                self.ask_opencv(f"recurrence {name}", self.folder / "net.onnx", feeds, made, outputs, reads=False)

    def test_recurrences_that_have_no_form_are_refused(self):
        text = "".join(f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
                       for name, dims in (("data", "dim: 3 dim: 2 dim: 4"), ("cont", "dim: 3 dim: 2")))
        (self.folder / "net.prototxt").write_text(
            text + layer("lstm", "LSTM", "data cont", "recurrent_param { num_output: 5 }"))
        write_weights(self.folder / "w.safetensors", {"lstm/0": (20, 4), "lstm/1": (20,), "lstm/2": (20, 5)})
        done = run("export", "net.prototxt", "--weights", "w.safetensors", "--batch", 3, cwd=self.folder)
        self.assertEqual(done.returncode, 65)
        self.assertIn("its marks of beginnings (cont) are computed from what the net is given", done.stderr)

    def test_boxes_of_a_detector(self):
        """SSD's boxes on pictures of blood cells are those of `moka infer`, of one picture alone and of several."""
        try:
            from PIL import Image
        except ImportError as missing:
            self.skipTest(f"{missing}; pip install pillow")
        if not (SOURCE / "data/bccd/val/data.mdb").exists():
            self.skipTest("no data/bccd")
        net, least = SOURCE / "models/bccd_ssd", 0.05
        self.moka("data", "export", SOURCE / "data/bccd/val", "cells", "--limit", 6)
        files, pixels = [], []
        for file in sorted((self.folder / "cells").iterdir()):
            picture = Image.open(file).convert("RGB").resize((320, 240))
            file.unlink()
            files.append(file.with_suffix(".png"))
            picture.save(files[-1])
            pixels.append(np.asarray(picture, np.float32).transpose(2, 0, 1))
        told = json.loads(self.moka("infer", net, "cells", "--json", "--score", least))
        for opset in (13, 18):
            self.moka("export", net, "--out", "ssd.onnx", "--with-preprocess", "--opset", opset)
            onnx.checker.check_model(str(self.folder / "ssd.onnx"), full_check=True)
            session = onnxruntime.InferenceSession(str(self.folder / "ssd.onnx"), providers=["CPUExecutionProvider"])
            self.moka("export", net, "--out", "one.onnx", "--with-preprocess", "--opset", opset, "--batch", 1)
            onnx.checker.check_model(str(self.folder / "one.onnx"), full_check=True)
            one = onnxruntime.InferenceSession(str(self.folder / "one.onnx"), providers=["CPUExecutionProvider"])
            for given in (pixels[0], np.zeros_like(pixels[0]), np.full_like(pixels[0], 1e6)):
                wanted, = session.run(None, {"data": given[None]})
                np.testing.assert_array_equal(one.run(None, {"data": given[None]})[0], wanted)
            given = {"data": pixels[0][None]}
            made = {"detections": one.run(None, given)[0]}
            self.ask_opencv(f"boxes, opset {opset}", self.folder / "one.onnx", given, made, made)
            for batch in (1, 3):
                rows = [session.run(None, {"data": np.stack(pixels[i:i + batch])})[0][0, 0] for i in range(0, len(files), batch)]
                for i, file in enumerate(files):
                    mine = next(one for one in told if one["file"].endswith(file.name))["boxes"]
                    wanted = np.array([[b["index"], b["score"], *b["box"]] for b in mine])
                    own = rows[i // batch]
                    own = own[(own[:, 0] == i % batch) & (own[:, 2] > least)][:, 1:] * [1, 1, 320, 240, 320, 240]
                    own[:, 2:] = np.clip(own[:, 2:], 0, [320, 240, 320, 240])
                    self.assertEqual(len(own), len(wanted), file.name)
                    for found in own:  # boxes of scores that are nearly the same may come in another order
                        apart = np.abs(wanted - found) / [1, 1e-4, 0.05, 0.05, 0.05, 0.05]
                        self.assertLess(apart.max(axis=1).min(), 1, f"{file.name}: {found}")

    def test_regions_are_aligned(self):
        text = "".join(f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
                       for name, dims in (("data", "dim: 3 dim: 2 dim: 12 dim: 9"), ("rois", "dim: 3 dim: 5")))
        fields = "roi_align_param { pooled_h: 3 pooled_w: 2 spatial_scale: 0.5 %s }"
        text += layer("half", "ROIAlign", "data rois", fields % "aligned: true sampling_ratio: 2")
        text += layer("whole", "ROIAlign", "data rois", fields % "sampling_ratio: 0")
        text += layer("ip", "InnerProduct", "whole", "inner_product_param { num_output: 2 }")
        (self.folder / "net.prototxt").write_text(text)
        write_weights(self.folder / "w.safetensors", {"ip/0": (2, 12), "ip/1": (2,)})
        self.moka("export", "net.prototxt", "--weights", "w.safetensors", "--batch", 3, "--opset", 16, "--out", "net.onnx")
        onnx.checker.check_model(str(self.folder / "net.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(str(self.folder / "net.onnx"), providers=["CPUExecutionProvider"])
        regions = np.array([[2, 1, 2, 11, 17], [0, -5, -4, 20, 26], [-1, 0, 0, 9, 9]], np.float32)
        feeds = {"data": np.random.default_rng(4).uniform(-1, 1, (3, 2, 12, 9)).astype(np.float32), "rois": regions}
        made = dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))
        self.compare("net.prototxt", "w.safetensors", feeds | made, {"half", "ip"})
        done = run("export", "net.prototxt", "--weights", "w.safetensors", "--batch", 3, cwd=self.folder)
        self.assertEqual(done.returncode, 65)
        self.assertIn('layer "half" cannot be exported to ONNX: regions that are shifted by half a pixel', done.stderr)

    def test_zoo_nets(self):
        for name, labels in (("lenet", (2,)), ("cifar10_resnet20", (2,)), ("cifar10_full", (2,)),
                             ("mobilenet_v2", (2,))):
            with self.subTest(net=name):
                folder = SOURCE / "models" / name
                text = (folder / "train_val.prototxt").read_text()
                kind = "grey" if "data/mnist/" in text else "colour"
                made_data.DataMaker(MOKA, self.folder, kind).make(text)
                self.moka("train", folder, "layer[*].data_param.batch_size=2", "max_iter=1", "test_iter=[1]", "--run", name,
                          "--device", "cpu", "--quiet")
                self.moka("export", f"{name}-0001@last", "--to", "onnx", "--out", f"{name}.onnx")
                given, made, outputs = self.values_by_runtime(self.folder / f"{name}.onnx", 2)
                self.ask_opencv(name, self.folder / f"{name}.onnx", given, made, outputs)
                arrays = given | made | {"label": np.zeros(labels, np.float32)}
                self.compare(f"{name}-0001", f"{name}-0001@last", arrays, 5)


if __name__ == "__main__":
    unittest.main()
