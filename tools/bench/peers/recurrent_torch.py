#!/usr/bin/env python3
"""torch.nn.LSTM and torch.nn.GRU beside tools/bench/recurrent_bench, in turns within one session.

Usage: recurrent_torch.py [--bench build/release/tools/bench/recurrent_bench] [--rounds 7] [--kinds whole,packed]
                          [--steps 20 --rows 64 --units 512]

Two stacked layers alone, time-major, forward or forward and backward (gradients of x and of every weight; the sum of
y times fixed values is what is differentiated), over whole rows or packed ones whose lengths fall evenly from all
steps to one (pack_padded_sequence, sorted; packing is part of the step). A round times Moka and PyTorch one after the
other for each; ratios are taken within a round. Prints the medians of both in milliseconds and the ratio, PyTorch's time over Moka's.
"""

import argparse
import statistics
import subprocess
import time

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def make_step(kind, backward, packed, steps, rows, units):
    torch.manual_seed(1)
    net = getattr(torch.nn, kind)(units, units, 2)
    x = torch.rand(steps, rows, units) * 2 - 1
    dy = torch.rand(steps, rows, units) * 2 - 1
    lengths = torch.tensor([-(-steps * (rows - i) // rows) for i in range(rows)])

    def run():
        if not packed:
            return net(x)[0]
        return pad_packed_sequence(net(pack_padded_sequence(x, lengths))[0])[0]

    if not backward:
        def forward():
            with torch.inference_mode():
                run()

        return forward
    x.requires_grad_()

    def both():
        net.zero_grad(set_to_none=True)
        x.grad = None
        (run() * dy).sum().backward()

    return both


def milliseconds(step, count):
    begin = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - begin) * 1e3 / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bench", default="build/release/tools/bench/recurrent_bench")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=4, help="steps a turn")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kinds", default="whole,packed")
    for name, value in (("steps", 20), ("rows", 64), ("units", 512)):
        parser.add_argument("--" + name, type=int, default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    size = (options.steps, options.rows, options.units)
    moka = subprocess.Popen([options.bench, *map(str, size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print("moka", moka.stdout.readline().strip(), "torch", torch.__version__)

    def moka_milliseconds(work, count):
        print(*work, count, file=moka.stdin, flush=True)
        return float(moka.stdout.readline())

    works = [(kind, words, rows) for rows in options.kinds.split(",") for kind in ("LSTM", "GRU")
             for words in ("forward", "backward")]
    torch_steps = {work: make_step(work[0], work[1] == "backward", work[2] == "packed", *size) for work in works}
    times = {work: [] for work in works}
    for turn in range(options.rounds + 1):
        for work in works:
            theirs = milliseconds(torch_steps[work], options.count)
            ours = moka_milliseconds(work, options.count)
            if turn > 0:  # the first is for warming up
                times[work].append((ours, theirs))
    moka.stdin.close()
    moka.wait()
    for (kind, words, rows), pairs in times.items():
        ratios = [theirs / ours for ours, theirs in pairs]
        print(f"{kind:4} {words:8} {rows:6} moka {statistics.median(o for o, _ in pairs):8.2f} ms  torch "
              f"{statistics.median(t for _, t in pairs):8.2f} ms  ratio {statistics.median(ratios):5.2f} "
              f"[{min(ratios):.2f}..{max(ratios):.2f}]")


if __name__ == "__main__":
    main()
