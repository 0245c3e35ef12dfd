"""The tables of data/text/letters.cpp and the golden numbers of letters_test.cpp, from Python's Unicode tables.

    python3 tests/data/text/letters.py

prints kCapitals, kMarks and two hashes (64-bit FNV-1a): of all characters of the alphabets in lower case, and of the
marks up to U+058F. Run with Python 3.10 or 3.11, whose tables are Unicode 14's.
"""

import unicodedata

ALPHABETS = [(0x21, 0x590), (0x1E00, 0x1F00)]


def lower(code):
    text = chr(code).lower()
    return ord(text) if len(text) == 1 else 0x69  # U+0130, whose full mapping is two characters


def capitals(first, end):
    """Rows (first, last, step, distance), each as long as it can be with a step of 1 or 2."""
    pairs = [(c, lower(c) - c) for c in range(first, end) if lower(c) != c]
    at = 0
    while at < len(pairs):
        longest = (at, 1)
        for step in (1, 2):
            last = at
            while last + 1 < len(pairs) and pairs[last + 1] == (pairs[last][0] + step, pairs[at][1]):
                last += 1
            if last > longest[0]:
                longest = (last, step)
        yield pairs[at][0], pairs[longest[0]][0], longest[1], pairs[at][1]
        at = longest[0] + 1


def is_mark(code):
    return unicodedata.category(chr(code))[0] in "PS" and code != ord("_")


def marks(first, end):
    begin = None
    for code in range(first, end + 1):
        inside = code < end and is_mark(code)
        if inside and begin is None:
            begin = code
        if not inside and begin is not None:
            yield begin, code - 1
            begin = None


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


for begin, end in ((0x80, ALPHABETS[0][1]), ALPHABETS[1]):
    for row in capitals(begin, end):
        print("{0x%04X, 0x%04X, %d, %d}," % row)
# Numbers in circles and the like are no marks; blocks with a few gaps are taken whole.
WHOLE = [(0x2010, 0x2027), (0x2030, 0x205E), (0x207A, 0x207E), (0x208A, 0x208E), (0x20A0, 0x20CF)]
SYMBOLS = [(0x2190, 0x245F), (0x249C, 0x24E9), (0x2500, 0x2775), (0x2794, 0x2BFF)]
ranges = list(marks(0x80, 0x590)) + WHOLE + list(marks(0x2100, 0x2190)) + SYMBOLS
ranges += list(marks(0x2E00, 0x2E80)) + list(marks(0x3000, 0x3040)) + list(marks(0xFF00, 0xFFF0)) + [(0x1F000, 0x1FAFF)]
print(", ".join("{0x%04X, 0x%04X}" % r for r in ranges))
print("lower 0x%016x" % fnv("".join(chr(lower(c)) for first, end in ALPHABETS for c in range(first, end))))
print("marks 0x%016x" % fnv("".join(chr(c) for c in range(0x21, 0x590) if is_mark(c))))
