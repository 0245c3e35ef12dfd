#!/usr/bin/env python3
"""Inference worker of tools/bench/compare for runtimes that take exported nets: ONNX Runtime, OpenCV DNN, ncnn.

Usage: exported_bench.py NET onnxruntime|opencv|ncnn --batch N --threads N --folder FOLDER

The net is the one of torch_nets.py, exported once to FOLDER by a process of its own, so that PyTorch is not in this
process's memory. The protocol is torch_bench.py's. ncnn knows batch 1 only.
"""

import argparse
import pathlib
import subprocess
import sys

import numpy as np

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


def exported(net, batch, kind, folder):
    path = folder.absolute() / f"{net}_{batch}.{PREPARED[kind]}"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, __file__, net, kind, "--batch", str(batch), "--threads", "1", "--folder",
                        str(folder), "--export", str(path)], check=True, stdout=sys.stderr, cwd=folder)
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
    parser.add_argument("--export", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.export:
        return export(options.net, options.batch, options.export)
    import shapes

    x = np.random.default_rng(1).random((options.batch, *shapes.SHAPES[options.net]), dtype=np.float32)
    path = exported(options.net, options.batch, options.kind, options.folder)
    make = {"onnxruntime": onnxruntime_step, "opencv": opencv_step, "ncnn": ncnn_step}[options.kind]
    step, version = make(path, x, options.threads)
    turns.serve(step, version, options.batch)


if __name__ == "__main__":
    main()
