#!/usr/bin/env python3
"""Inference worker of tools/bench/compare for runtimes that take exported nets: ONNX Runtime, OpenCV DNN, ncnn.

Usage: exported_bench.py NET onnxruntime|opencv|ncnn --batch N --threads N --folder FOLDER [--activations TYPE]

The net is the one of torch_nets.py, exported once to FOLDER by a process of its own, so that PyTorch is not in this
process's memory. The protocol is torch_bench.py's. ncnn knows batch 1 only. --activations: ONNX Runtime on 8-bit
integers, the net quantised statically (QDQ) with weights in int8, a scale a channel, and activations in that type.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import shapes
import turns

PREPARED = {"onnxruntime": "onnx", "opencv": "onnx", "ncnn": "ncnn.param"}


def export(net, batch, path):
    """Runs in a process of its own."""
    import torch

    import torch_nets

    make, shape, _ = torch_nets.NETS[net]
    model, x = make().eval(), torch.rand(batch, *shape)
    if path.suffix == ".onnx":
        torch.onnx.export(model, (x,), str(path), dynamo=False, input_names=["x"], output_names=["y"])
    else:
        import pnnx

        pnnx.export(model, str(path.with_name(path.name.split(".")[0] + ".pt")), x, fp16=False)


def inputs(net, batch, seed):
    return np.random.default_rng(seed).random((batch, *shapes.SHAPES[net]), dtype=np.float32)


class Calibration:
    """Batches like the one that is measured, as ONNX Runtime asks for them."""

    def __init__(self, net, batch):
        self.batches = ({"x": inputs(net, batch, 2 + i)} for i in range(shapes.CALIBRATION_BATCHES))

    def get_next(self):
        return next(self.batches, None)


def quantize(net, batch, activations, source, path):
    """Runs in a process of its own."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    types = {"uint8": quantization.QuantType.QUInt8, "int8": quantization.QuantType.QInt8}
    with tempfile.TemporaryDirectory() as folder:
        whole = f"{folder}/whole.onnx"  # every bias a constant, batch norms in the convolutions
        quant_pre_process(source, whole, skip_symbolic_shape=True)
        quantization.quantize_static(whole, path, Calibration(net, batch), quant_format=quantization.QuantFormat.QDQ,
                                     per_channel=True, activation_type=types[activations],
                                     weight_type=quantization.QuantType.QInt8)


def exported(net, batch, kind, folder, activations=None):
    folder = folder.absolute()
    path = folder / f"{net}_{batch}{'_' + activations if activations else ''}.{PREPARED[kind]}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, __file__, net, kind, "--batch", str(batch), "--threads", "1", "--folder",
                        str(folder), "--export", str(path), *(["--activations", activations] if activations else [])],
                       check=True, stdout=sys.stderr, cwd=folder)
    return path


def onnxruntime_step(path, x, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    # Threads that wait for work would otherwise spin while another contender has its turn.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x}), onnxruntime.__version__


def opencv_step(path, x, threads):
    import cv2

    cv2.setNumThreads(threads)
    net = cv2.dnn.readNetFromONNX(str(path))

    def step():
        net.setInput(x)
        return net.forward()

    return step, cv2.__version__


def ncnn_step(path, x, threads):
    import ncnn

    if len(x) != 1:
        raise ValueError("ncnn runs one image at a time")
    net = ncnn.Net()
    net.opt.num_threads = threads
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = False
    net.opt.use_bf16_storage = False
    net.load_param(str(path))
    net.load_model(str(path.with_suffix(".bin")))
    image = ncnn.Mat(x[0])
    first, last = net.input_names()[0], net.output_names()[0]

    def step():
        with net.create_extractor() as extractor:
            extractor.input(first, image)
            return extractor.extract(last)

    return step, ncnn.__version__


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net")
    parser.add_argument("kind", choices=PREPARED)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--activations", choices=["uint8", "int8"], help="of a net on 8-bit integers")
    parser.add_argument("--export", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.activations and options.kind != "onnxruntime":
        parser.error("--activations is ONNX Runtime's")
    if options.export and options.activations:
        source = exported(options.net, options.batch, options.kind, options.folder)
        return quantize(options.net, options.batch, options.activations, source, options.export)
    if options.export:
        return export(options.net, options.batch, options.export)
    x = inputs(options.net, options.batch, 1)
    path = exported(options.net, options.batch, options.kind, options.folder, options.activations)
    make = {"onnxruntime": onnxruntime_step, "opencv": opencv_step, "ncnn": ncnn_step}[options.kind]
    step, version = make(path, x, options.threads)
    turns.serve(step, version, options.batch)


if __name__ == "__main__":
    main()
