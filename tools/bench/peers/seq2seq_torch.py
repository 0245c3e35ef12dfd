#!/usr/bin/env python3
"""PyTorch twin of tools/bench/nets/seq2seq: the same net, sizes, loss and update, for timing beside Moka.

Usage: seq2seq_torch.py [--phase train|infer] [--mode eager|sparse|compile] [--steps 8] [--rounds 5]

An encoder of two LSTM layers over the source's embeddings; a decoder of two that starts from the encoder's last states
and reads the target shifted by one; a projection to the vocabulary; mean cross entropy over all target tokens; plain
SGD. Prints target tokens a second, the median of the rounds. make_model and make_step are what a harness needs.
"""

import argparse
import contextlib
import statistics
import time

import torch
from torch import nn

VOCABULARY, WIDTH, LAYERS, STEPS, BATCH = 8000, 512, 2, 20, 64
TARGET_TOKENS = STEPS * BATCH  # a step


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary=VOCABULARY, width=WIDTH, layers=LAYERS, sparse=False):
        super().__init__()
        self.source = nn.Embedding(vocabulary, width, sparse=sparse)
        self.target = nn.Embedding(vocabulary, width, sparse=sparse)
        self.encoder = nn.LSTM(width, width, layers)
        self.decoder = nn.LSTM(width, width, layers)
        self.output = nn.Linear(width, vocabulary)

    def forward(self, source, target):  # [T,N] each; scores [T*N, vocabulary]
        _, state = self.encoder(self.source(source))
        hidden, _ = self.decoder(self.target(target), state)
        return self.output(hidden.flatten(0, 1))


def make_model(mode="eager", vocabulary=VOCABULARY, width=WIDTH, layers=LAYERS):
    """The net; mode: eager, sparse (sparse embedding gradients), compile (torch.compile of the whole net)."""
    model = Seq2Seq(vocabulary, width, layers, sparse=mode == "sparse")
    return torch.compile(model) if mode == "compile" else model


def make_step(model, phase, steps=STEPS, batch=BATCH, vocabulary=VOCABULARY, rate=0.1, momentum=0.0):
    """A function without arguments that does one training step (its loss) or one forward pass (its scores)."""
    generator = torch.Generator().manual_seed(1)
    source, target, following = (
        torch.randint(0, vocabulary, (steps, batch), generator=generator) for _ in range(3)
    )
    if phase == "infer":
        model.eval()

        def infer():
            with torch.inference_mode():
                return model(source, target)

        return infer
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)

    def train():
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(source, target), following.flatten())
        loss.backward()
        optimizer.step()
        return loss

    return train


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--phase", choices=["train", "infer"], default="train")
    parser.add_argument("--mode", choices=["eager", "sparse", "compile"], default="eager")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--onednn", choices=["on", "off"], default="on")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(1)
    torch.backends.mkldnn.enabled = args.onednn == "on"
    step = make_step(make_model(args.mode), args.phase)
    for _ in range(3):
        step()
    if args.profile:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            step()
        print(profile.key_averages().table(sort_by="self_cpu_time_total", row_limit=25))
        return
    rates = []
    for _ in range(args.rounds):
        begin = time.perf_counter()
        for _ in range(args.steps):
            step()
        rates.append(args.steps * TARGET_TOKENS / (time.perf_counter() - begin))
    print(f"torch {torch.__version__} {args.phase} {args.mode} onednn {args.onednn}: "
          f"{statistics.median(rates):.0f} target tokens/s [{min(rates):.0f}..{max(rates):.0f}]")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
