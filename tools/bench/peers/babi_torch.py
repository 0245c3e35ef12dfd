#!/usr/bin/env python3
"""PyTorch peer of models/babi_memn2n: the same net, questions, noise of times, rates and update rule, for comparison.

Usage: babi_torch.py --data babi_en.tar.gz [--seed 1] [--out result.json]
       ... --target 0.88      ends at that accuracy and prints the lines of race.py instead

Follows models/babi_memn2n/solver_linear.prototxt, solver.prototxt and train_val.prototxt:
  net       four tables of words and of times; a sentence is the sum of its words' rows, weighted by their positions, plus
            its time's row; three hops over the last 50 sentences, places without one have zeros; rows begin at N(0, 0.1)
  data      of 20 x 1,000 questions those that Moka keeps for validation are kept; up to a tenth of empty places between
            the sentences in training; epochs are reshuffled and follow each other without dropping a question
  loss      cross-entropy, summed over the batch
  rate      first 20 epochs without the softmax of the memories at one rate and without tests, on the clock; then 100
            epochs of a rate that is halved every 25
  update    w -= rate * g * min(1, 40 / |all g together|)
Tests are those of the second training; their loss is the mean over batches of 100, as the test net's.

How: a position's weight is a line over the columns, first + slope * column, so with the tables W, W * column and the
times one below the other a sentence is one bag of rows, and the four hops' tables lie side by side. A batch is one
embedding_bag without a place for words that are not there; what it takes is made for an epoch's batches at once.
--way compile makes a step (gradients, bound and update) one graph; eager is the other way of training, and slower.
"""

import argparse
import collections
import itertools
import math
import re
import tarfile

import torch
import torch.nn.functional as F

from cifar_torch import batches
from permutation import permuted
from race import Race, add_options, imported, save

WORDS, SENTENCES, DIM, HOPS = 177, 50, 50, 3
TIMES = 2 * WORDS  # where the times begin in the rows of all tables
VALIDATION_SEED, VALIDATION_PART = 0x7A11DA7E, 0.1
NOISE = 0.1
TEST_BATCH = 100
PREPARED = 563  # batches at once, an epoch
COLUMNS = torch.arange(1.0, DIM + 1).repeat(HOPS + 1)


def read_questions(archive):
    """Each training question, task after task, as (sentences before it, the latest first; its words; its answer).

    Then the numbers of all words and answers, by falling count, behind four marks.
    """
    questions, counts = [], collections.Counter()
    with tarfile.open(archive) as tar:
        tasks = {int(found[1]): name for name in tar.getnames()
                 if (found := re.fullmatch(r".*\ben/qa(\d+)_.*_train\.txt", name))}
        for task in sorted(tasks):
            for line in tar.extractfile(tasks[task]).read().decode().splitlines():
                number, _, text = line.lower().partition(" ")
                story = [] if number == "1" else story
                text, *answer = [part.strip() for part in text.split("\t")]
                words = re.findall(r"\w+", text)
                counts.update(words + answer[:1])
                if answer:
                    questions.append((story[:SENTENCES], words, answer[0]))
                else:
                    story = [words, *story]
    return questions, {word: i for i, word in enumerate(sorted(counts, key=lambda word: (-counts[word], word)), 4)}


def in_rows(questions, numbers):
    """Tensors of questions: which rows each is the sums of with which weights, and where each of its 51 bags begins.

    Bags are those of the sentences, with times without noise behind their words, and that of the question itself.
    """
    index, weight, bags, ends = [], [], [], [0]
    for story, asked, _ in questions:
        bags.append([])
        for place in range(SENTENCES + 1):
            bags[-1].append(len(index) - ends[-1])
            words = asked if place == SENTENCES else story[place] if place < len(story) else []
            for j, word in enumerate(words, 1):
                slope = 4 / (DIM * len(words)) * (j - (len(words) + 1) / 2)
                index += [numbers[word], WORDS + numbers[word]]
                weight += [1 - slope * (DIM + 1) / 2, slope]
            if place < len(story):
                index.append(TIMES + place + 1)
                weight.append(1.0)
        ends.append(len(index))
    return {"index": torch.tensor(index, dtype=torch.int32), "weight": torch.tensor(weight), "ends": torch.tensor(ends),
            "bags": torch.tensor(bags, dtype=torch.int32), "counts": torch.tensor([len(q[0]) for q in questions]),
            "answers": torch.tensor([numbers[q[2]] for q in questions])}


def read_archive(archive):
    """The tensors of the questions to train on and of those for validation."""
    questions, numbers = read_questions(archive)
    if len(numbers) + 4 != WORDS:
        raise SystemExit(f"{archive}: expected {WORDS - 4} words and answers, found {len(numbers)}")
    places, kept = permuted(len(questions), VALIDATION_SEED, 0), round(len(questions) * VALIDATION_PART)
    return [in_rows([q for q, place in zip(questions, places) if (place < kept) == is_kept], numbers)
            for is_kept in (False, True)]


def noisy_times(counts, generator):
    """Times of stories' sentences, one story after the other, where up to a tenth of the places are empty.

    counts: sentences of each story. A story's empty places are a random set (Floyd's way of drawing one).
    """
    most = torch.ceil(counts.float() * NOISE)
    empty = (torch.rand(len(counts), generator=generator) * (most + 1)).long()
    beyond = 2 * SENTENCES
    taken = torch.full((int(most.max()), len(counts)), beyond)
    for m, row in enumerate(taken):
        place = (torch.rand(len(counts), generator=generator) * (counts + m + 1)).long()
        place = torch.where((taken[:m] == place).any(0), counts + m, place)
        row.copy_(torch.where(m < empty, place, beyond))
    sentence = torch.arange(int(counts.sum())) - (counts.cumsum(0) - counts).repeat_interleave(counts)
    times = sentence + 1
    for m, row in enumerate(taken.sort(0).values):
        times += (row - m).repeat_interleave(counts) <= sentence
    return times.clamp(max=SENTENCES)


class Questions:
    def __init__(self, tensors):
        self.index, self.weight, self.bags = tensors["index"], tensors["weight"], tensors["bags"]
        self.counts, self.answers = tensors["counts"], tensors["answers"]
        self.begins, self.lengths = tensors["ends"][:-1], tensors["ends"].diff()

    def __len__(self):
        return len(self.answers)

    def batched(self, chosen, size, generator=None):
        """Batches (rows, weights, where bags begin, answers) of these questions; with noise if there is a generator."""
        lengths = self.lengths[chosen]
        ends = lengths.cumsum(0)
        at = torch.arange(int(ends[-1]), dtype=torch.int32)
        at += (self.begins[chosen] - ends + lengths).int().repeat_interleave(lengths)
        index, weight, answers = self.index.index_select(0, at), self.weight.index_select(0, at), self.answers[chosen]
        if generator:
            index.masked_scatter_(index > TIMES, noisy_times(self.counts[chosen], generator).int() + TIMES)
        cuts = [0, *ends[size - 1::size].tolist()]
        inside = (ends - lengths).view(-1, size) - torch.tensor(cuts[:-1])[:, None]
        begins = (self.bags[chosen].view(-1, size, SENTENCES + 1) + inside[:, :, None].int()).flatten(1)
        return [(index[a:b], weight[a:b], begins[i], answers[i * size:(i + 1) * size])
                for i, (a, b) in enumerate(itertools.pairwise(cuts))]

    def training(self, iterations, size, generator):
        """Successive batches, running on from epoch to epoch."""
        order = itertools.islice(batches(len(self), size, generator), iterations)
        while part := list(itertools.islice(order, PREPARED)):
            yield from self.batched(torch.cat(part), size, generator)


def found(state, keys, values, is_linear, way):
    """What a hop finds in the memory `values` for the state [N,1,dim] by its products with the memory `keys`."""
    if way == "eager":
        return (state @ keys.transpose(1, 2) @ values if is_linear
                else F.scaled_dot_product_attention(state, keys, values, scale=1.0))
    fit = (state * keys).sum(2)
    return ((fit if is_linear else fit.softmax(1))[:, :, None] * values).sum(1, keepdim=True)


def scores(tables, index, weight, begins, is_linear=False, way="eager"):
    """[N,words] for the tables of words and of times, [rows,4*dim]."""
    words, times = tables
    rows = torch.cat([words, words * COLUMNS, times])
    bags = F.embedding_bag(index, rows, begins, mode="sum", per_sample_weights=weight)
    hops = bags.view(-1, SENTENCES + 1, HOPS + 1, DIM).unbind(2)
    memories, state = [hop[:, :SENTENCES] for hop in hops], hops[0][:, SENTENCES:]
    for keys, values in itertools.pairwise(memories):
        state = state + found(state, keys, values, is_linear, way)
    return F.pad(F.linear(state[:, 0], words[1:, HOPS * DIM:]), (1, 0))  # the row of no word is zero and does not learn


def stepper(options, is_linear):
    """A function that takes a step of the tables on a batch at a rate, a tensor; it gives the loss."""
    def loss_of(tables, batch):
        return F.cross_entropy(scores(tables, *batch[:3], is_linear, options.way), batch[3], reduction="sum")

    def step(tables, batch, rate):
        if options.way == "compile":
            gradients, loss = torch.func.grad_and_value(loss_of)(tables, batch)
        else:
            loss = loss_of(tables, batch)
            gradients = torch.autograd.grad(loss, tables)
        with torch.no_grad():
            norm = torch.sqrt(sum((gradient * gradient).sum() for gradient in gradients))
            scale = rate * (options.clip / norm.clamp(min=options.clip))
            for table, gradient in zip(tables, gradients):
                table.sub_(gradient * scale)
        return loss.detach()

    return torch.compile(step, dynamic=True, fullgraph=True) if options.way == "compile" else step


def test(tables, kept):
    right, loss = 0, 0.0
    with torch.inference_mode():
        for *question, answers in kept:
            scored = scores(tables, *question)
            right += (scored.argmax(1) == answers).sum().item()
            loss += F.cross_entropy(scored, answers, reduction="sum").item()
    return right / (len(kept) * TEST_BATCH), loss / len(kept)


class Record(Race):
    """Prints and keeps all tests, and goes on to the end."""

    def __init__(self, *words):
        super().__init__(math.inf, "accuracy", *words, out=lambda *_, **__: None)
        self.tests = []

    def test(self, iteration, epoch, accuracy, loss):
        super().test(iteration, epoch, accuracy, loss)
        self.tests.append({"iteration": iteration, "accuracy": accuracy, "loss": loss, "seconds": self.clock()})
        print(f"iteration {iteration}: accuracy {accuracy:.4f}, test loss {loss:.4f}, {self.clock():.0f} s", flush=True)
        return False


def train(options, race, losses=None):
    """Both trainings, warmed up on stories of single words; gives the tables. Losses of all steps go into the list."""
    torch.manual_seed(options.seed)
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    generator = torch.Generator().manual_seed(options.seed)
    file = imported(options.data, read_archive)
    tables = [0.1 * torch.randn(rows, (HOPS + 1) * DIM) for rows in (WORDS, SENTENCES + 1)]
    for table in tables:
        table.requires_grad_(options.way == "eager")
    rate, stages = torch.zeros(()), [(True, options.linear_iterations), (False, options.iterations)]
    steps = [stepper(options, is_linear) for is_linear, _ in stages]
    bags = options.batch * (SENTENCES + 1)
    made = (torch.arange(2 * bags, dtype=torch.int32) % WORDS, torch.full((2 * bags,), 0.1),
            torch.arange(0, 2 * bags, 2, dtype=torch.int32), torch.ones(options.batch, dtype=torch.long))
    for step in [*steps] * 3:
        step(tables, made, rate)  # at rate 0
    test(tables, [made])
    race.begin()
    questions, kept = (Questions(tensors) for tensors in torch.load(file))
    kept = kept.batched(torch.arange(len(kept)), TEST_BATCH)
    race.loaded()

    def tested(iteration):
        with race.testing():
            accuracy, loss = test(tables, kept)
        return race.test(iteration, iteration * options.batch / len(questions), accuracy, loss)

    for step, (is_linear, iterations) in zip(steps, stages):
        for iteration, batch in enumerate(questions.training(iterations, options.batch, generator)):
            if not is_linear and iteration % options.test_interval == 0 and tested(iteration):
                race.end()
                return tables
            rate.fill_(options.lr * (1.0 if is_linear else 0.5 ** (iteration // options.halved)))
            loss = step(tables, batch, rate)
            if losses is not None:
                losses.append(loss.item())
    tested(options.iterations)
    race.end()
    return tables


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True, help="babi_en.tar.gz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--linear-iterations", type=int, default=11250, help="without the softmax of the memories")
    parser.add_argument("--iterations", type=int, default=56250, help="after those")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--halved", type=int, default=14063, help="iterations after which the rate is halved")
    parser.add_argument("--clip", type=float, default=40.0, help="the bound of all gradients' norm")
    parser.add_argument("--test-interval", type=int, default=2250, help="iterations")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--way", choices=["eager", "compile"], default="compile")
    parser.add_argument("--out", help="JSON file for the result")
    add_options(parser)
    options = parser.parse_args()
    words = (options.batch, f"torch {torch.__version__}")
    if options.target is not None:
        train(options, Race(options.target, options.metric, *words, before=options.linear_iterations))
        return
    record, losses = Record(*words), []
    tables = train(options, record, losses)
    recipe = {key: value for key, value in vars(options).items() if key not in ("data", "out")}
    means = [sum(part) / len(part) for part in (losses[i:i + PREPARED] for i in range(0, len(losses), PREPARED))]
    result = {"recipe": recipe, "torch": torch.__version__, "tests": record.tests, "losses": means,
              "parameters": sum(table.numel() for table in tables)}
    save(result, options.out)


if __name__ == "__main__":
    main()
