"""Pairs of sentences as Moka's TextPairData gives them: pieces of words, their numbers, and batches of one length.

A line in lower case falls into words and marks (data/text/tokens.h), "##" before each that no blank stands before, and
each of these into the longest pieces that the vocabulary has, from left to right (data/text/vocabulary.h). The bare
numbers of a vocabulary's file are those of its lines; the first four are <pad>, <s>, </s> and <unk>.
"""

import functools
import gzip
import unicodedata

import torch

BEGIN, END, UNKNOWN = 1, 2, 3
JOINED = "##"


@functools.cache
def kind_of(character):
    """"blank", "mark" or "word"."""
    category = unicodedata.category(character)
    if category[0] == "Z" or category == "Cc" or character in "\u200b\ufeff":
        return "blank"
    return "mark" if category[0] in "PS" and character != "_" else "word"


def parts_of(line):
    """Words and marks of a line; "##" begins those that no blank stands before."""
    parts, before = [], "blank"
    for character in line.lower():
        kind = kind_of(character)
        if kind == "mark" or (kind == "word" and before != "word"):
            parts.append("" if before == "blank" else JOINED)
        if kind != "blank":
            parts[-1] += character
        before = kind
    return parts


class Pieces:
    """A vocabulary, and the pieces that words fall into by it."""

    def __init__(self, path):
        words = path.read_text(encoding="utf-8").split("\n")
        self.numbers = {word: i for i, word in enumerate(words) if i > UNKNOWN and word}
        self.longest = max(map(len, self.numbers))
        self.cut = functools.cache(self._cut)  # words come again and again

    def _cut(self, part):
        joined = part.startswith(JOINED) and part != JOINED
        at, numbers = len(JOINED) if joined else 0, []
        while at < len(part):
            prefix = JOINED if joined or numbers else ""
            ends = range(min(len(part), at + self.longest), at, -1)
            end = next((end for end in ends if prefix + part[at:end] in self.numbers), None)
            numbers.append(self.numbers[prefix + part[at:end]] if end else UNKNOWN)
            at = end or at + 1
        return numbers

    def of(self, line):
        return [number for part in parts_of(line) for number in self.cut(part)]


def numbered(path, pieces):
    """Numbers of each line of a .gz."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        return [pieces.of(line) for line in file]


def as_rows(sentences, width):
    """[R,width] int64 with zeros behind the numbers, and how many each row has."""
    rows, lengths = torch.zeros(len(sentences), width, dtype=torch.long), torch.tensor([len(s) for s in sentences])
    rows[torch.arange(width) < lengths[:, None]] = torch.tensor([number for s in sentences for number in s])
    return rows, lengths


def read_pairs(sources, targets, most, leave_out):
    """Pairs of two lists of numbered sentences: sources with </s> behind them, targets with <s> before and </s> behind.

    A sentence has at most `most` numbers, one mark included: pairs of longer ones are left out, or else cut.
    """
    pairs = [(s[:most - 1] + [END], [BEGIN] + t[:most - 1] + [END]) for s, t in zip(sources, targets, strict=True)
             if not leave_out or max(len(s), len(t)) < most]
    return *as_rows([s for s, _ in pairs], most), *as_rows([t for _, t in pairs], most + 1)


def batches_by_length(lengths, bounds, size, generator):
    """Numbers of the pairs of successive batches, each of one bucket of lengths so far as they go, without end.

    As data/pipeline/length_buckets.h has it. Buckets are permuted and cut into batches. Their rests, joined, make
    further batches, but for the last of them, which are the longest: these fill the batch that the epoch before has
    begun, and begin the next epoch's. Batches come in a random order.
    """
    bucket_of = torch.bucketize(lengths, torch.tensor(bounds))
    buckets = [(bucket_of == i).nonzero().flatten() for i in range(len(bounds) + 1)]
    begun = lengths.new_empty(0)
    while True:
        head = (size - len(begun)) % size
        tail = (len(lengths) - head) % size
        whole = [len(bucket) // size for bucket in buckets]
        if sum(len(bucket) % size for bucket in buckets) < head + tail:
            whole[max(i for i, count in enumerate(whole) if count)] -= 1
        permuted = [bucket[torch.randperm(len(bucket), generator=generator)] for bucket in buckets]
        rests = torch.cat([bucket[count * size:] for bucket, count in zip(permuted, whole)])
        further, ends = rests[:len(rests) - head - tail], rests[len(rests) - head - tail:]
        batches = torch.cat([bucket[:count * size] for bucket, count in zip(permuted, whole)] + [further]).split(size)
        if head:
            yield torch.cat([begun, ends[:head]])
        for i in torch.randperm(len(batches), generator=generator):
            yield batches[i]
        begun = ends[head:]
