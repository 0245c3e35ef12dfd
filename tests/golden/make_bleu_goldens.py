"""Records what sacrebleu 2.6 says of small texts: tokens, counts and scores.

Usage: python3 make_bleu_goldens.py      writes bleu.json

Each case has translations, one or more references of each, and whether letters are lowered. Beside the scores stand the
tokens of every translation, so that a difference is found where it arises. The last case is drawn: pieces that the
tokenizer treats in its own ways (digits, points, dashes, entities, blanks and letters beyond ASCII), put together at
random. Python's lower case differs from Moka's in a few letters (a dotted I, the sigma at a word's end); none is here.
"""

import json
import os
import random

from sacrebleu.metrics import BLEU

HERE = os.path.dirname(os.path.abspath(__file__))
PIECES = ["a", "dog", "The", "dogs", "3", "1.5", "2,000", ".", ",", "...", "-", "--", "x-ray", "7-", "-7", "1-2", "&amp;",
          "&quot;", "&lt;", "&gt;", "&", "&amp;lt;", "<skipped>", "!", "?", "(", ")", "[b]", "{c}", "'", "don't", "\"", "$5",
          "50%", "@", "#", "_", "^", "~", "|", "/", "and/or", "ü", "Übung", "ÉTÉ", "naïve", "„Öl“", "–", "…", "5.", ".5",
          "ä.", ".ä", "ß,ü", "東京", "。", "🙂", "\u00a0", "\u2003", "\u200b", "\x1f", "\x85", "Москва", "Αθηνα", "a.b", "a,b",
          "1.a", "a.1", ";", ":", "=", "+", "*", "\\", "`"]


def drawn(count, generator):
    blanks = [" ", " ", " ", "", "  ", "\t"]
    lines = []
    for _ in range(count):
        line = ""
        for _ in range(generator.randrange(0, 14)):
            line += generator.choice(PIECES) + generator.choice(blanks)
        lines.append(line)
    return lines


def near(lines, generator):
    """The lines with some pieces changed, so that there are runs to find."""
    changed = []
    for line in lines:
        words = line.split(" ")
        for i in range(len(words)):
            if generator.random() < 0.2:
                words[i] = generator.choice(PIECES)
        changed.append(" ".join(words))
    return changed


def case(name, translations, references, lowercase=False):
    metric = BLEU(lowercase=lowercase, force=True)
    score = metric.corpus_score(translations, references)
    signature = str(metric.get_signature())
    return {"name": name, "lowercase": lowercase, "translations": translations, "references": references,
            "tokens": [metric._preprocess_segment(line).split(" ") if metric._preprocess_segment(line) else []
                       for line in translations],
            "score": score.score, "precisions": score.precisions, "matches": score.counts, "totals": score.totals,
            "brevity": score.bp, "length": score.sys_len, "reference_length": score.ref_len,
            "text": score.format(width=2), "signature": signature[:signature.index("|version")]}


def main():
    two = ["A man in a blue shirt is standing on a ladder cleaning a window.",
           "Two young, White males are outside near many bushes."]
    generator = random.Random(8)
    lines = drawn(300, generator)
    cases = [
        case("equal", two, [two]),
        case("near", ["a man in a blue shirt stands on a ladder and cleans a window.",
                      "two young white men are outside near many bushes."], [two]),
        case("near_lower", ["a man in a blue shirt stands on a ladder and cleans a window.",
                            "two young white men are outside near many bushes."], [two], lowercase=True),
        case("short", ["A man in a shirt.", "Two young men."], [two]),
        case("long", [line + " " + line for line in two], [two]),
        case("no_match", ["xx yy zz ww vv", "uu tt ss rr qq"], [two]),
        case("no_four", ["A man sleeps here today", "Two young, old people outside near"], [two]),
        case("one_word", ["man"], [["man"]]),
        case("three_words", ["a man stands"], [["a man stands"]]),
        case("nothing", ["", ""], [two]),
        case("one_line_empty", ["", "Two young, White males are outside near many bushes."], [two]),
        case("reference_empty", two, [["", "Two young, White males are outside near many bushes."]]),
        case("blanks", ["  A man \u00a0in\ta blue\u3000shirt .  ", "Two\u2009young , White males"], [two]),
        case("two_references", ["A man is standing on a ladder.", "Two men are outside near bushes."],
             [two, ["A man stands on a ladder, cleaning.", "Two young men are outside near the bushes."]]),
        case("nearest_of_equal_distance", ["a b c d e f"], [["a b c d e f g h"], ["a b c d"]]),
        case("clipped", ["the the the the the the the", "the cat the cat on the mat"],
             [["the cat is on the mat", "the cat is on the mat"], ["there is a cat on the mat", "a cat sat on the mat"]]),
        case("capitals", ["EIN MANN MIT ÜBERGROẞEM ÖLKANISTER", "МОСКВА ÉTÉ ŁÓDŹ"],
             [["ein mann mit übergroßem ölkanister", "москва été łódź"]], lowercase=True),
        case("capitals_kept", ["EIN MANN MIT ÜBERGROẞEM ÖLKANISTER", "МОСКВА ÉTÉ ŁÓDŹ"],
             [["ein mann mit übergroßem ölkanister", "москва été łódź"]]),
        case("drawn", lines, [near(lines, generator)]),
        case("drawn_lower", lines, [near(lines, generator), near(lines, generator)], lowercase=True),
    ]
    with open(os.path.join(HERE, "bleu.json"), "w", encoding="utf-8") as file:
        rows = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in cases)
        file.write('{"cases": [\n' + rows + "\n]}\n")
    for entry in cases:
        print(entry["name"], entry["text"], entry["signature"])


if __name__ == "__main__":
    main()
