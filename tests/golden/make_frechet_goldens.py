"""Records Frechet distances of small sets of points, by numpy in float64.

Usage: python3 make_frechet_goldens.py      writes frechet.json: cases of {"name", "a", "b" (points), "distance"}

The trace of the root of C1 C2 is the sum of the roots of its eigenvalues, which are real and not negative though the
product is not symmetric; Moka goes by a symmetric matrix instead.
"""

import json
import os

import numpy as np


def distance(a, b):
    c1, c2 = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    c1, c2 = np.atleast_2d(c1), np.atleast_2d(c2)
    roots = np.sqrt(np.clip(np.linalg.eigvals(c1 @ c2).real, 0, None)).sum()
    return float(((a.mean(0) - b.mean(0)) ** 2).sum() + np.trace(c1) + np.trace(c2) - 2 * roots)


def main():
    rng = np.random.default_rng(7)

    def points(count, dimensions, scale, shift):
        mixed = rng.normal(size=(count, dimensions)) @ rng.normal(size=(dimensions, dimensions))
        return (scale * mixed + shift).astype(np.float32)

    cases = {
        "line": (points(9, 1, 1, 0), points(7, 1, 2, 3)),
        "space": (points(40, 5, 1, 0), points(30, 5, 0.5, 1)),
        "few": (points(4, 6, 1, 0), points(5, 6, 1, 0.5)),
        "far": (points(20, 3, 0.01, 1000), points(20, 3, 0.01, 1000.05)),
    }
    cases["same"] = (cases["space"][0], cases["space"][0])
    rows = [{"name": name, "a": a.astype(float).tolist(), "b": b.astype(float).tolist(),
             "distance": distance(a.astype(np.float64), b.astype(np.float64))} for name, (a, b) in cases.items()]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "frechet.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"cases": [\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")
    for row in rows:
        print(row["name"], row["distance"])


if __name__ == "__main__":
    main()
