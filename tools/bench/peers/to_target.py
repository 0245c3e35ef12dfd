#!/usr/bin/env python3
"""Starts the peer of a model for `moka bench accuracy --against torch`, by the table TARGETS of works.py.

Usage: to_target.py MODEL --seed 1 --target 0.8 [--metric accuracy] [--threads 2]
       to_target.py MODEL --check        (is there a peer, and its data?)

MODEL is a folder of models/ or one of its solvers. The peer takes this process's place, with the environment in which
PyTorch is fastest (works.environment). Its data lie in data/peers, or where MOKA_PEERS_DATA says.
"""

import argparse
import importlib.util
import os
import pathlib
import sys

import works

PEERS = pathlib.Path(__file__).resolve().parent
NO_INPUT = 66


def recipe_of(model):
    """"cifar10_resnet20/solver_12epoch" for that file, "cifar10_resnet20/solver" for the folder or its solver."""
    path = pathlib.Path(model).resolve()
    return f"{path.parent.name}/{path.stem}" if path.suffix == ".prototxt" else f"{path.name}/solver"


def fail(text):
    print(f"error: {text}", file=sys.stderr)
    sys.exit(NO_INPUT)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--target")
    parser.add_argument("--metric", default="accuracy")
    parser.add_argument("--threads", default="2")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    recipe = recipe_of(options.model)
    if recipe not in works.TARGETS:
        fail(f"no peer trains {recipe}; there are {', '.join(sorted(works.TARGETS))}")
    program, data, words, made_by = works.TARGETS[recipe]
    folder = pathlib.Path(os.environ.get("MOKA_PEERS_DATA", "data/peers"))
    for name in data.values():
        if not (folder / name).exists():
            fail(f"the peer of {recipe} reads {folder / name}, which is not there; {made_by}")
    if importlib.util.find_spec("torch") is None:
        fail(f"{sys.executable} has no torch; tools/bench/compare --setup makes an environment that has")
    if options.check:
        return
    if options.target is None:
        parser.error("--target is missing")
    command = [sys.executable, str(PEERS / program), "--seed", options.seed, "--target", options.target, "--metric",
               options.metric, "--threads", options.threads, *words]
    for flag, name in data.items():
        command += [flag, str(folder / name)]
    os.execve(command[0], command, works.environment(int(options.threads), True))


if __name__ == "__main__":
    main()
