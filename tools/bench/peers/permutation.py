"""Moka's order without a stored permutation (Permutation of core/rng.h), for peers that keep the same records back."""

WORD = 0xFFFFFFFF


def philox(counter, key):
    """The first of Philox4x32-10's four words of random bits."""
    a, b, c, d = counter
    low, high = key
    for _ in range(10):
        p, q = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (q >> 32) ^ b ^ low, q & WORD, (p >> 32) ^ d ^ high, p & WORD
        low, high = (low + 0x9E3779B9) & WORD, (high + 0xBB67AE85) & WORD
    return a


def permuted(count, seed, stream):
    """Where each of range(count) goes: a Feistel network over the next power of four, walked until it lands inside."""
    half = ((count - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1

    def mixed(value, turn):
        counter = (value & WORD, value >> 32, stream & WORD, (stream >> 32) ^ (turn << 30))
        return philox(counter, (seed & WORD, seed >> 32))

    def place(i):
        while True:
            left, right = i >> half, i & mask
            for turn in range(4):
                left, right = right, (left ^ mixed(right, turn)) & mask
            i = (left << half) | right
            if i < count:
                return i

    return [place(i) for i in range(count)] if count > 1 else [0] * count
