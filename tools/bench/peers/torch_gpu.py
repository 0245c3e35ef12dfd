#!/usr/bin/env python3
"""PyTorch worker for tools/gpu/verify: one net on a GPU, one way to run it, steps on demand.

Usage: torch_gpu.py NET train|infer --batch N [--way eager|compile|compile-graph|graph] [--precision NAME]
                    [--device cuda|cpu] [--warm]

The nets are those of torch_nets.py and seq2seq_torch.py. Images lie channels last; training is forward, backward and a
fused update under autocast to the precision, inference runs on weights of it. WAY: eager; compile (torch.compile);
compile-graph (the same with mode "reduce-overhead", which replays CUDA graphs, for inference on frozen weights); graph
(the whole step recorded once as a CUDA graph and replayed). Speaks as turns.py does: a first line, then {"ms": [..],
"peak_bytes": N, "device_bytes": N} for every "run N". Training runs ahead of the device: its steps count for their part
of the time until all are done; an inference ends when the device is done. device_bytes is what PyTorch's allocator took
from the device at most, once nothing is left of compiling and recording, without the context. On a CPU (for rehearsals)
device_bytes is 0 and what replays CUDA graphs is refused. --warm: ends after the first steps, whose compiled code a
later process finds in its cache.
"""

import argparse
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

import seq2seq_torch
import torch_nets
import turns

TYPES = {"float32": torch.float32, "tf32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Setting:
    """Where and in which arithmetic a net runs."""

    def __init__(self, options):
        self.device, self.dtype = torch.device(options.device), TYPES[options.precision]
        self.way = options.way
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
        torch.backends.cudnn.benchmark = True

    def autocast(self):
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def scaler(self):
        """Loss scaling, which only float16 needs."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)

    def place(self, thing):
        is_image = not isinstance(thing, torch.Tensor) or thing.dim() == 4
        return thing.to(self.device, memory_format=torch.channels_last) if is_image else thing.to(self.device)

    def compiled(self, net):
        if self.way == "compile":
            return torch.compile(net)
        return torch.compile(net, mode="reduce-overhead") if self.way == "compile-graph" else net

    def begin_step(self):
        if self.way == "compile-graph":
            torch.compiler.cudagraph_mark_step_begin()


def update(setting, scaler, optimizer, loss):
    """The gradients of a loss, and a step with them."""
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()


def classifier_step(setting, name, batch):
    make, shape, classes = torch_nets.NETS[name]
    net = setting.place(make()).train()
    x = setting.place(torch.rand(batch, *shape) * 2 - 1)
    labels = torch.randint(0, classes, (batch,), device=setting.device)
    optimizer = torch.optim.SGD(net.parameters(), 1e-4, momentum=0.9, weight_decay=5e-4, fused=True)
    run, scaler = setting.compiled(net), setting.scaler()

    def step():
        setting.begin_step()
        optimizer.zero_grad(set_to_none=True)
        with setting.autocast():
            loss = F.cross_entropy(run(x), labels)
        update(setting, scaler, optimizer, loss)

    return step


def seq2seq_step(setting, batch):
    model = seq2seq_torch.Seq2Seq().to(setting.device)
    generator = torch.Generator().manual_seed(1)
    source, target, following = (
        torch.randint(0, seq2seq_torch.VOCABULARY, (seq2seq_torch.STEPS, batch), generator=generator).to(setting.device)
        for _ in range(3))
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, fused=True)
    run, scaler = setting.compiled(model), setting.scaler()

    def step():
        setting.begin_step()
        optimizer.zero_grad(set_to_none=True)
        with setting.autocast():
            loss = F.cross_entropy(run(source, target), following.flatten())
        update(setting, scaler, optimizer, loss)

    return step


def gan_step(setting, batch):
    """One step of both halves: D on real and made images, then G through the D just updated."""
    g, d = (setting.place(net()) for net in (torch_nets.Generator, torch_nets.Discriminator))
    for module in [*g.modules(), *d.modules()]:
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, std=0.02)
    is_graph = setting.way == "graph"
    for_g, for_d = (torch.optim.Adam(net.parameters(), 2e-4, (0.5, 0.999), fused=True, capturable=is_graph)
                    for net in (g, d))
    weights = list(d.parameters())
    make, judge, scaler = setting.compiled(g), setting.compiled(d), setting.scaler()
    real = setting.place(torch.rand(batch, 3, 64, 64) * 2 - 1)
    ones, zeros = torch.ones(batch, device=setting.device), torch.zeros(batch, device=setting.device)

    def step():
        setting.begin_step()
        with setting.autocast():
            made = make(torch.rand(batch, 100, 1, 1, device=setting.device) * 2 - 1)
            if setting.way == "compile-graph":  # G's next replay writes over its output
                made = made.clone()
            for_d.zero_grad(set_to_none=True)
            loss = (F.binary_cross_entropy_with_logits(judge(real), ones)
                    + F.binary_cross_entropy_with_logits(judge(made.detach()), zeros))
        update(setting, scaler, for_d, loss)
        for w in weights:  # their gradients in G's half are not wanted
            w.requires_grad_(False)
        for_g.zero_grad(set_to_none=True)
        with setting.autocast():
            loss = F.binary_cross_entropy_with_logits(judge(made), ones)
        update(setting, scaler, for_g, loss)
        for w in weights:
            w.requires_grad_(True)

    return step


def inference_step(setting, name, batch):
    make, shape, _ = torch_nets.NETS[name]
    net = setting.place(make()).to(setting.dtype).eval()
    x = setting.place(torch.rand(batch, *shape) * 2 - 1).to(setting.dtype)
    if setting.way.startswith("compile"):
        import torch._inductor.config  # noqa: PLC0415  the other ways do without

        torch._inductor.config.freezing = True  # batch norms are folded into the convolutions
    net = setting.compiled(net)

    def step():
        setting.begin_step()
        with torch.no_grad():
            net(x)

    return step


def recorded(step):
    """The step as a CUDA graph: tried on a stream of its own first, as recording wants it, then replayed."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(_kept=step):  # the graph reads and writes the memory of what the step holds
        graph.replay()

    return replay


def forget_peak(step):
    """What compiling, trying and recording took goes back, so that the most from here on is the steps' own."""
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    step()


def make_step(options):
    setting = Setting(options)
    if options.mode == "infer":
        step = inference_step(setting, options.net, options.batch)
    elif options.net == "seq2seq":
        step = seq2seq_step(setting, options.batch)
    elif options.net == "dcgan":
        step = gan_step(setting, options.batch)
    else:
        step = classifier_step(setting, options.net, options.batch)
    if options.way == "graph":
        step = recorded(step)
    else:
        for _ in range(3):  # what is compiled, searched or recorded on the first steps is
            step()
    if options.device == "cuda":
        forget_peak(step)
    return step


def serve(step, options):
    is_gpu = options.device == "cuda"
    wait = torch.cuda.synchronize if is_gpu else lambda: None
    step()
    wait()
    print(json.dumps({"ready": True, "version": torch.__version__, "batch": options.batch}), flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["quit"]:
            break
        steps = int(words[1])
        at_once = steps if options.mode == "train" else 1
        times = []
        while len(times) < steps:
            begin = time.perf_counter()
            for _ in range(at_once):
                step()
            wait()
            times += [(time.perf_counter() - begin) * 1e3 / at_once] * at_once
        print(json.dumps({"ms": times, "peak_bytes": turns.peak_bytes(),
                          "device_bytes": torch.cuda.max_memory_reserved() if is_gpu else 0}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net", choices=[*torch_nets.NETS, "dcgan", "seq2seq"])
    parser.add_argument("mode", choices=["train", "infer"])
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--way", choices=["eager", "compile", "compile-graph", "graph"], default="eager")
    parser.add_argument("--precision", choices=TYPES, default="bfloat16")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--warm", action="store_true")
    options = parser.parse_args()
    if options.mode == "infer" and options.net in ("dcgan", "seq2seq"):
        parser.error("inference is measured on classifiers")
    if options.way.endswith("graph") and options.device == "cpu":
        parser.error("a step on a CPU is no CUDA graph")
    if options.way == "graph" and options.precision == "float16" and options.mode == "train":
        parser.error("a step that chooses on the host, as loss scaling does, is no CUDA graph")
    torch.manual_seed(1)
    step = make_step(options)
    if not options.warm:
        serve(step, options)


if __name__ == "__main__":
    main()
