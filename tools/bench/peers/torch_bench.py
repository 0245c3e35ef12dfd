#!/usr/bin/env python3
"""PyTorch worker for tools/bench/compare: one net, one way to run it, steps on demand.

Usage: torch_bench.py NET train|infer --batch N --threads N [--layout nchw|cl] [--way WAY] [--precision P]

WAY: eager; compile (torch.compile, with weight freezing for inference); jit (traced, frozen, optimize_for_inference);
sparse (seq2seq: sparse embedding gradients). The first line printed says what is there; then each line "run N" read is
answered by {"ms": [N step times], "peak_bytes": ...} until the input ends or says "quit". Training is forward, backward
and an update by the fused optimiser. Precision int8 is for compile in inference: the net is exported, quantised by
ranges of random batches (torchao's X86InductorQuantizer: weights a channel, activations a tensor) and compiled, with
integers from one convolution to the next. The allocator and OMP_NUM_THREADS are the caller's to set.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

import shapes
import torch_nets
import turns


def sgd(net):
    return torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9, weight_decay=5e-4, fused=True)


def loss_of(outputs, labels):
    if isinstance(outputs, tuple):  # GoogLeNet: the classifiers part of the way up count 0.3
        return sum(w * F.cross_entropy(y, labels) for w, y in zip((1, 0.3, 0.3), outputs))
    return F.cross_entropy(outputs, labels)


def autocast(options):
    return torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bfloat16")


def train_step(net, x, labels, options):
    net.train()
    way = options.way
    if way == "compile":
        net = torch.compile(net)
    optimizer = sgd(net)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(options):
            loss = loss_of(net(x), labels)
        loss.backward()
        optimizer.step()

    return step


def quantized(net, x):
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
    from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

    quantizer = x86.X86InductorQuantizer().set_global(x86.get_default_x86_inductor_quantization_config())
    with torch.no_grad():
        net = prepare_pt2e(torch.export.export(net, (x,)).module(), quantizer)
        for _ in range(shapes.CALIBRATION_BATCHES):
            net(torch.rand_like(x) * 2 - 1)
        return convert_pt2e(net)


def infer_step(net, x, options):
    net.eval()
    way = options.way
    if options.precision == "bfloat16":  # weights of it need no conversion in each pass, as autocast has it
        net, x = net.bfloat16(), x.bfloat16()
    elif options.precision == "int8":
        net = quantized(net, x)
    if way == "jit":
        with torch.no_grad():
            net = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, x)))
    elif way == "compile":
        torch._inductor.config.freezing = True
        net = torch.compile(net)

    def step():
        with torch.no_grad() if way != "eager" else torch.inference_mode():
            net(x)

    return step


def gan_step(batch, layout, options):
    """One step of both halves: D on real and made images, then G through the D just updated."""
    g, d = torch_nets.Generator(), torch_nets.Discriminator()
    for module in [*g.modules(), *d.modules()]:
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, std=0.02)
    g, d = g.to(memory_format=layout), d.to(memory_format=layout)
    optimizers = [torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999), fused=True) for net in (g, d)]
    if options.way == "compile":
        g, d = torch.compile(g), torch.compile(d)
    real = (torch.rand(batch, 3, 64, 64) * 2 - 1).to(memory_format=layout)
    ones, zeros = torch.ones(batch), torch.zeros(batch)
    weights = list(d.parameters())

    def step():
        optimizers[1].zero_grad(set_to_none=True)
        with autocast(options):
            made = g(torch.rand(batch, 100, 1, 1) * 2 - 1)
            loss = (F.binary_cross_entropy_with_logits(d(real), ones)
                    + F.binary_cross_entropy_with_logits(d(made.detach()), zeros))
        loss.backward()
        optimizers[1].step()
        for w in weights:  # their gradients in G's half are not wanted
            w.requires_grad_(False)
        optimizers[0].zero_grad(set_to_none=True)
        with autocast(options):
            loss = F.binary_cross_entropy_with_logits(d(made), ones)
        loss.backward()
        optimizers[0].step()
        for w in weights:
            w.requires_grad_(True)

    return step


def make_step(options):
    layout = torch.channels_last if options.layout == "cl" else torch.contiguous_format
    train = options.mode == "train"
    if options.net == "seq2seq":
        import seq2seq_torch

        step = seq2seq_torch.make_step(seq2seq_torch.make_model(options.way), options.mode)

        def cast_step():
            with autocast(options):
                step()

        return cast_step
    if options.net == "dcgan" and train:
        return gan_step(options.batch, layout, options)
    if options.net == "dcgan":
        net, shape, classes = torch_nets.Generator(), (100, 1, 1), 0
    else:
        make, shape, classes = torch_nets.NETS[options.net]
        net = make()
    net = net.to(memory_format=layout)
    x = (torch.rand(options.batch, *shape) * 2 - 1).to(memory_format=layout)
    if not train:
        return infer_step(net, x, options)
    spatial = shape[1:] if options.net == "unet" else ()
    return train_step(net, x, torch.randint(0, classes, (options.batch, *spatial)), options)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net", choices=[*torch_nets.NETS, "dcgan", "seq2seq"])
    parser.add_argument("mode", choices=["train", "infer"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--layout", choices=["nchw", "cl"], default="nchw")
    parser.add_argument("--way", choices=["eager", "compile", "jit", "sparse"], default="eager")
    parser.add_argument("--precision", choices=["float32", "bfloat16", "int8"], default="float32",
                        help="bfloat16: autocast in training, weights of it in inference")
    options = parser.parse_args()
    compiled = options.net != "seq2seq" and options.mode == "infer" and options.way == "compile"
    if options.precision == "int8" and not compiled:
        parser.error("--precision int8 is for infer with --way compile, of nets of convolutions")
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    step = make_step(options)
    turns.serve(step, torch.__version__, options.batch)


if __name__ == "__main__":
    main()
