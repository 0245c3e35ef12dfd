#!/usr/bin/env python3
"""PyTorch peer of models/multi30k_attention: the same net, pieces of words, batches, rates and update rule.

Usage: translate_torch.py --data FOLDER [--seed 1] [--epochs 10] [--out result.json]
       ... --epochs 3 --warmup 100 --test-interval 151    a shorter schedule
       ... --target 0.66      ends at that accuracy and prints the lines of race.py instead
       FOLDER: data/multi30k as tools/data/get multi30k makes it: texts, and the vocabularies de.txt and en.txt

Follows models/multi30k_attention/solver.prototxt and train_val.prototxt:
  net       a bidirectional GRU reads; of two GRUs that write the first asks it by dot products, the second sees what
            was found; the vectors of the target's pieces are the weights of its scores. xavier filler, vectors of std
            0.1; a GRU's gates r and z have one bias, where torch adds two: the second is no parameter
  data      batches of pairs of nearly one length (text_pairs.py); longer pairs than 48 are left out, in tests cut
  loss      cross-entropy a piece of labels smoothed by 0.1 in training
  rate      a line from 0 to --lr over --warmup iterations, then the cosine to --min-lr
  update    the norm of all gradients is at most --clip; Adam, whose delta is added to the uncorrected root (Kingma and
            Ba, section 2); tests take the mean of the weights, in which an old one counts min(decay, (1+t)/(10+t))
Sentences are padded to the longest of their batch, and only pieces that are there are scored. Accuracy is the part of
pieces that are right, the test loss the mean of 13 batches' means, as test_iter has it; pairs are tested by length.
"""

import argparse
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

from cifar_torch import MeanOfWeights, rate_at
from race import Race, add_options, imported, save
from text_pairs import Pieces, batches_by_length, numbered, read_pairs

LONGEST, TEST_BATCH = 48, 78
BUCKETS = (*range(8, 25), 26, 28, 32, 38)
SOURCE_WORDS, TARGET_WORDS = 5000, 4000


def read_texts(folder):
    """Numbered pairs for training and for tests."""
    german, english = Pieces(folder / "de.txt"), Pieces(folder / "en.txt")
    texts = [(numbered(folder / f"{part}.de.gz", german), numbered(folder / f"{part}.en.gz", english))
             for part in ("train", "val")]
    return read_pairs(*texts[0], LONGEST, leave_out=True), read_pairs(*texts[1], LONGEST, leave_out=False)


class Pairs:
    """Rows of numbers, from which batches are taken."""

    def __init__(self, source, source_lengths, target, target_lengths):
        self.source, self.source_lengths = source, source_lengths
        self.target, self.target_lengths = target, target_lengths
        self.longer = torch.maximum(source_lengths, target_lengths - 1)

    def batch(self, chosen):
        """[S,N] and [T+1,N] with the lengths [N], S and T as long as needed."""
        lengths, target_lengths = self.source_lengths[chosen], self.target_lengths[chosen]
        return (self.source[chosen, :lengths.max()].t(), lengths,
                self.target[chosen, :target_lengths.max()].t(), target_lengths)

    def test_batches(self):
        """Batches of all pairs, sorted by length, with what each piece counts in the loss."""
        parts = (self.target_lengths - 1).split(TEST_BATCH)
        weights = torch.cat([torch.full((len(part),), 1 / (len(parts) * part.sum())) for part in parts])
        for chosen in self.longer.argsort().split(TEST_BATCH):
            batch = self.batch(chosen)
            yield batch, weights[chosen].expand(len(batch[2]) - 1, -1)[pieces_of(batch[2], batch[3])]


def pieces_of(target, lengths):
    """[T,N]: whether a piece is to be written there."""
    return torch.arange(len(target) - 1)[:, None] < lengths - 1


def xavier(rows, columns):
    reach = math.sqrt(3 / columns)  # Caffe's: by the inputs alone
    return nn.Parameter(torch.empty(rows, columns).uniform_(-reach, reach))


class Linear(nn.Linear):
    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs)
        self.weight = xavier(outputs, inputs)
        nn.init.zeros_(self.bias)


class Gru(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.input_weight, self.state_weight = xavier(3 * width, inputs), xavier(3 * width, width)
        self.bias, self.new_bias = nn.Parameter(torch.zeros(3 * width)), nn.Parameter(torch.zeros(width))

    def forward(self, x, state):
        """[T,N,width] of x [T,N,inputs] and the state [N,width] before it."""
        second = F.pad(self.new_bias, (2 * len(self.new_bias), 0))
        weights = [self.input_weight, self.state_weight, self.bias, second]
        return torch.gru(x, state[None], weights, True, 1, 0.0, False, False, False)[0]


class Translator(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.source_vectors = nn.Parameter(torch.randn(SOURCE_WORDS, width) * 0.1)
        self.target_vectors = nn.Parameter(torch.randn(TARGET_WORDS, width) * 0.1)
        self.forwards, self.backwards = Gru(width, width), Gru(width, width)
        self.memory = Linear(2 * width, width)
        self.begin_ask, self.begin_write = Linear(2 * width, width), Linear(2 * width, width)
        self.ask, self.write = Gru(width, width), Gru(2 * width, width)
        self.join = Linear(3 * width, width)
        self.score_bias = nn.Parameter(torch.zeros(TARGET_WORDS))
        self.drop = nn.Dropout(dropout)

    def read(self, source, lengths):
        """What both GRUs say of each word, [S,N,2 width], and their last states, [N,2 width]."""
        vectors = self.drop(F.embedding(source, self.source_vectors))
        at_start = vectors.new_zeros(vectors.shape[1:])
        ends = (lengths - 1).view(1, -1, 1).expand_as(vectors)
        turned = (ends - torch.arange(len(source)).view(-1, 1, 1)).clamp(min=0)
        forwards, backwards = self.forwards(vectors, at_start), self.backwards(vectors.gather(0, turned), at_start)
        last = torch.cat([forwards.gather(0, ends[:1]), backwards.gather(0, ends[:1])], 2)[0]
        return torch.cat([forwards, backwards.gather(0, turned)], 2), last

    def forward(self, source, lengths, target, target_lengths):
        """Scores [P,words] of all pieces that are to be written, and these pieces [P]."""
        words, last = self.read(source, lengths)
        memory = self.memory(self.drop(words)).transpose(0, 1)[:, None]  # [N,1,S,width]: of one head
        vectors = self.drop(F.embedding(target[:-1], self.target_vectors))
        asked = self.ask(vectors, torch.tanh(self.begin_ask(last)))
        there = (torch.arange(len(source)) < lengths[:, None])[:, None, None]
        found = F.scaled_dot_product_attention(asked.transpose(0, 1)[:, None], memory, memory, there, scale=1.0)
        found = found[:, 0].transpose(0, 1)
        written = self.write(self.drop(torch.cat([asked, found], 2)), torch.tanh(self.begin_write(last)))
        chosen = pieces_of(target, target_lengths)
        joined = torch.tanh(self.join(torch.cat([written, found, vectors], 2)[chosen]))
        return F.linear(self.drop(joined), self.target_vectors, self.score_bias), target[1:][chosen]


class Solver:
    """Adam of clipped gradients, and the mean of the weights."""

    def __init__(self, net, options):
        self.parameters, self.options = list(net.parameters()), options
        self.adam = torch.optim.Adam(self.parameters, betas=(options.momentum, options.momentum2), fused=True)
        self.mean = MeanOfWeights(net, options.ema_decay)

    @torch.no_grad()
    def step(self, rate):
        nn.utils.clip_grad_norm_(self.parameters, self.options.clip)
        corrected = math.sqrt(1 - self.options.momentum2 ** (self.mean.updates + 1))
        self.adam.param_groups[0].update(lr=rate, eps=self.options.delta / corrected)  # torch adds eps to v's root / it
        self.adam.step()
        self.adam.zero_grad()
        self.mean.update()


@torch.inference_mode()
def test(net, batches):
    net.eval()
    right, pieces, loss = 0, 0, 0.0
    for batch, weights in batches:
        scores, labels = net(*batch)
        right += (scores.argmax(1) == labels).sum().item()
        pieces += len(labels)
        loss += (F.cross_entropy(scores, labels, reduction="none") * weights).sum().item()
    net.train()
    return right / pieces, loss


def prepare(options):
    """The net, its solver and a function that takes a step on a batch at a rate; it gives the loss."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    net = Translator(options.width, options.dropout)
    solver = Solver(net, options)

    def step(batch, rate):
        scores, labels = net(*batch)
        loss = F.cross_entropy(scores, labels, label_smoothing=options.smoothing)
        loss.backward()
        solver.step(rate)
        return loss.item()

    return net, solver, step


def train(options, pairs, step, tests):
    """Takes the steps; tests(iteration) is asked where a test is due, and says whether to end."""
    generator = torch.Generator().manual_seed(options.seed)
    for iteration, chosen in enumerate(batches_by_length(pairs.longer, BUCKETS, options.batch, generator)):
        done = iteration == options.iterations
        if (done or (iteration and iteration % options.test_interval == 0)) and (tests(iteration) or done):
            return
        step(pairs.batch(chosen), rate_at(options, iteration, options.min_lr))


def train_whole(options):
    pairs, tested = (Pairs(*rows) for rows in torch.load(imported(options.data, read_texts)))
    tested = list(tested.test_batches())
    net, solver, step = prepare(options)
    recipe = {key: value for key, value in vars(options).items() if key not in ("data", "out")}
    result = {"recipe": recipe, "torch": torch.__version__, "tests": [], "losses": [],
              "parameters": sum(p.numel() for p in net.parameters())}
    started, recent = time.monotonic(), []

    def told_step(batch, rate):
        recent.append(step(batch, rate))
        if len(recent) == 50:
            result["losses"].append(sum(recent) / 50)
            recent.clear()

    def tests(iteration):
        accuracy, loss = test(solver.mean.tested(), tested)
        seconds = time.monotonic() - started
        result["tests"].append({"iteration": iteration, "accuracy": accuracy, "loss": loss, "seconds": seconds})
        print(f"iteration {iteration}: accuracy {accuracy:.4f}, test loss {loss:.4f}, {seconds:.0f} s", flush=True)
        return iteration == options.stop_at

    train(options, pairs, told_step, tests)
    return result


def warm_up(options):
    """Steps and a test on made-up pairs, with a net of its own."""
    _, solver, step = prepare(options)
    lengths = torch.full((options.batch,), LONGEST)
    made = torch.ones(LONGEST, options.batch, dtype=torch.long), lengths
    for _ in range(3):
        step((*made, *made), 0.0)
    test(solver.mean.tested(), [((*made, *made), torch.ones(()))])


def train_to_target(options):
    """The same training on the clock of race.py."""
    file = imported(options.data, read_texts)
    race = Race(options.target, options.metric, options.batch, f"torch {torch.__version__}")
    warm_up(options)
    _, solver, step = prepare(options)
    race.begin()
    pairs, tested = (Pairs(*rows) for rows in torch.load(file))
    tested = list(tested.test_batches())
    race.loaded()

    def tests(iteration):
        with race.testing():
            values = test(solver.mean.tested(), tested)
        return race.test(iteration, iteration * options.batch / len(pairs.longer), *values)

    train(options, pairs, step, tests)
    race.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, type=pathlib.Path, help="folder of Multi30k's texts and vocabularies")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=float, default=10, help="of 453 iterations")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--smoothing", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--min-lr", type=float, default=0.00005)
    parser.add_argument("--warmup", type=int, default=200, help="iterations")
    parser.add_argument("--warmup-start-lr", type=float, default=0.0)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--momentum2", type=float, default=0.999)
    parser.add_argument("--delta", type=float, default=1e-8)
    parser.add_argument("--clip", type=float, default=2.0, help="norm of all gradients")
    parser.add_argument("--ema-decay", type=float, default=0.998)
    parser.add_argument("--test-interval", type=int, default=453, help="iterations")
    parser.add_argument("--stop-at", type=int, default=0, help="a test of the schedule at which to stop; 0: none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", help="JSON file for the result")
    add_options(parser)
    options = parser.parse_args()
    options.iterations = round(options.epochs * 453)
    if options.target is not None:
        return train_to_target(options)
    result = train_whole(options)
    save(result, options.out)


if __name__ == "__main__":
    main()
