#!/usr/bin/env python3
"""Peak memory of one inference net: `moka time --phase TEST` against PyTorch's eager inference_mode, a process each.

Usage: inference_memory.py MOKA MODEL_FOLDER TORCHVISION_NAME [--batch 32] [--out result.json]

For every contender a fresh process builds the net and runs a few batches; the kernel's high-water mark of its resident
memory (VmHWM) is read, and how much of it was there before the net was built (the loaded libraries). PyTorch runs both
in its default and in its channels-last layout.
"""

import argparse
import json
import os
import subprocess
import sys

MIB = 1 << 20


def status(field):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field}")


def run_torch(name, batch, layout, threads):
    import torch
    import torchvision

    torch.set_num_threads(threads)
    memory_format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    warm = torch.nn.functional.conv2d(torch.zeros(1, 3, 8, 8), torch.zeros(8, 3, 3, 3))  # loads what is loaded lazily
    del warm
    before = status("VmRSS")
    with torch.inference_mode():
        net = getattr(torchvision.models, name)().eval().to(memory_format=memory_format)
        x = torch.rand(batch, 3, 224, 224).contiguous(memory_format=memory_format)
        for _ in range(3):
            net(x)
    print(json.dumps({"peak_bytes": status("VmHWM"), "before_bytes": before, "version": torch.__version__}))


def torch_result(options, layout):
    command = [sys.executable, __file__, options.moka, options.model, options.name, "--batch", str(options.batch),
               "--threads", str(options.threads), "--torch-layout", layout]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def moka_run(arguments):
    """Peak resident bytes of a child, and what it printed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.dup2(write, 1)
        os.execv(arguments[0], arguments)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    _, code, usage = os.wait4(pid, 0)
    if code != 0:
        raise RuntimeError(f"{arguments} ended with {code}")
    return usage.ru_maxrss * 1024, text


def moka_result(options):
    _, version = moka_run([options.moka, "version"])
    # A compiled small net: what the process holds once its libraries are at work, as PyTorch's small convolution.
    lenet = os.path.join(os.path.dirname(os.path.normpath(options.model)), "lenet")
    before, _ = moka_run([options.moka, "time", lenet, "--phase", "TEST", "--dry-run"])
    arguments = [options.moka, "time", options.model, "--phase", "TEST", "--iterations", "2", "--warmup", "1", "--threads",
                 str(options.threads), f"layer[0].input_param.shape[0].dim[0]={options.batch}"]
    peak, _ = moka_run(arguments)
    return {"peak_bytes": peak, "before_bytes": before, "version": version.split("\n")[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("moka")
    parser.add_argument("model")
    parser.add_argument("name")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--torch-layout", choices=["default", "channels_last"], help=argparse.SUPPRESS)
    parser.add_argument("--out", help="JSON file for the result")
    options = parser.parse_args()
    if options.torch_layout:
        run_torch(options.name, options.batch, options.torch_layout, options.threads)
        return
    results = {"batch": options.batch, "net": options.name, "moka": moka_result(options)}
    for layout in ("default", "channels_last"):
        results[f"torch {layout}"] = torch_result(options, layout)
    best = min((results["torch default"], results["torch channels_last"]), key=lambda r: r["peak_bytes"])
    results["peak_ratio"] = results["moka"]["peak_bytes"] / best["peak_bytes"]
    results["net_ratio"] = (results["moka"]["peak_bytes"] - results["moka"]["before_bytes"]) / (
        best["peak_bytes"] - best["before_bytes"])
    for key, value in results.items():
        if isinstance(value, dict):
            print(f"{key:20} peak {value['peak_bytes'] / MIB:7.0f} MiB, {value['before_bytes'] / MIB:5.0f} MiB of it "
                  f"before the net ({value['version']})")
    print(f"ratio of the peaks {results['peak_ratio']:.3f}, of what the nets added {results['net_ratio']:.3f}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
