#!/usr/bin/env python3
"""What peers share, without PyTorch: tools/bench/compare, tools/bench/peers/{permutation,race,report,to_target,works}.py.

Usage: peers_test.py PEERS
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

PEERS = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(PEERS))
import permutation  # noqa: E402
import race  # noqa: E402
import report  # noqa: E402
import works  # noqa: E402

# A peer whose accuracy is its iteration divided by 100, and a table that has only it.
PEER = """
import argparse, os
import race
parser = argparse.ArgumentParser()
for flag in ("--seed", "--threads", "--data", "--extra"):
    parser.add_argument(flag)
race.add_options(parser)
options = parser.parse_args()
print("seed", options.seed, "threads", options.threads, os.environ["OMP_NUM_THREADS"], options.data, options.extra)
run = race.Race(options.target, options.metric, 10, "none 1")
run.begin()
for iteration in (20, 40, 60, 80):
    with run.testing():
        pass
    if run.test(iteration, iteration / 10, iteration / 100, 1 - iteration / 100):
        break
run.end()
"""
TABLE = """
import os
TARGETS = {"net/solver": ("peer.py", {"--data": "digits"}, ["--extra", "x"], "make it")}
def environment(threads, tuned):
    return {**os.environ, "OMP_NUM_THREADS": str(threads)}
"""

# Moka and every peer in one: a step takes the milliseconds of the first of STEPS whose words are all among its own.
CONTENDER = """#!/usr/bin/env python3
import json, os, sys
STEPS = {("--int8 ",): 10, ("--worker", "--precision bfloat16"): 20, ("--worker",): 50, ("--activations uint8",): 16,
         ("--activations int8",): 40, ("--layout cl", "--precision int8"): 25, (): 30}
words = sys.argv[1:]
joined = " ".join(words)
with open(__file__ + ".log", "a") as log:
    print(joined, file=log)
if words[0] == "device":
    peak = float(os.environ["BFLOAT16_PEAK"])
    print(json.dumps({"isa": "x", "fma_gflops": 1, "bfloat16_gflops": peak, "int8_gops": 4, "copy_gbs": 1}))
    sys.exit()
ms = next(ms for wanted, ms in STEPS.items() if all(word in joined for word in wanted))
print(json.dumps({"ready": True, "gflop_by_type": {"uint8": 0.02}, "gigabytes": 0, "image_size": 224}), flush=True)
for line in sys.stdin:
    answer = {"outside_kernels_share": 0} if line.startswith("outside") else {"ms": [ms] * int(line.split()[1])}
    print(json.dumps({**answer, "peak_bytes": 1 << 20}), flush=True)
"""


class CompareTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.contender = self.folder / "contender"
        self.contender.write_text(CONTENDER, encoding="utf-8")
        self.contender.chmod(0o755)

    def compare(self, *words, bfloat16_peak="2"):
        """The result's JSON, the table, and what was started with which words."""
        flags = [f"--{flag}={self.contender}" for flag in ("moka", "python", "peer-python")]
        done = subprocess.run([sys.executable, str(PEERS.parent / "compare"), "resnet50", "--infer", *flags, "--seconds",
                               "0.01", "--out", str(self.folder), *words], check=False, capture_output=True, text=True,
                              env={**os.environ, "BFLOAT16_PEAK": bfloat16_peak})
        self.assertEqual(done.returncode, 0, done.stderr)
        log = pathlib.Path(f"{self.contender}.log").read_text(encoding="utf-8").splitlines()
        return json.loads(next(self.folder.glob("*.json")).read_text(encoding="utf-8")), done.stdout, log

    def test_integers_are_beside_integers_and_own_bfloat16(self):
        result, table, log = self.compare("--batch", "32", "--int8", "ranges.json")
        self.assertEqual(list(result["contenders"]), ["moka", "moka bfloat16", "onnxruntime uint8", "torch cl compile"])
        self.assertEqual(sorted(result["first_pass"]),
                         ["onnxruntime int8", "onnxruntime uint8", "torch cl compile", "torch nchw compile"])
        self.assertEqual((result["beside"], result["best_peer"]), ("int8", "onnxruntime uint8"))
        self.assertAlmostEqual(result["ratio"]["median"], 1.6)
        self.assertAlmostEqual(result["ratio_own"]["median"], 2)
        self.assertEqual((result["required"], result["required_own"]), (1.5, 1.3))
        self.assertAlmostEqual(result["moka"]["fma_share"], 0.5)  # of the integers' peak
        self.assertIn("**1.60** [1.60..1.60] | ≥ 1.5 | 2.00 [2.00..2.00] | ≥ 1.3 |", table)
        self.assertIn("times Moka's bfloat16", table)
        moka = [line for line in log if "--worker" in line]
        self.assertIn(f"--int8 {pathlib.Path.cwd() / 'ranges.json'}", moka[0])
        self.assertNotIn("--int8", moka[1])

    def test_without_bfloat16_it_is_left_out(self):
        result, table, _ = self.compare("--batch", "8", "--int8", "ranges.json", "--variants", "uint8",
                                        bfloat16_peak="0")
        self.assertEqual(list(result["contenders"]), ["moka", "onnxruntime uint8"])
        self.assertNotIn("ratio_own", result)
        self.assertIn("| **1.60** [1.60..1.60] | – | – | – | – (1 MiB) |", table)

    def test_bfloat16_is_beside_bfloat16_and_own_float32(self):
        result, _, log = self.compare("--batch", "32", "--peers", "torch", "--precision", "bfloat16")
        self.assertEqual(list(result["contenders"])[:2], ["moka", "moka float32"])
        self.assertAlmostEqual(result["ratio_own"]["median"], 2.5)
        peers = [line for line in log if "torch_bench.py" in line]
        self.assertTrue(all(line.endswith("--precision bfloat16") for line in peers), peers)


class RowsTest(unittest.TestCase):
    def test_a_ratio_is_asked_for_beside_its_own_kind(self):
        self.assertEqual(works.find("resnet50", "infer", 32)[3:], (1.35, {"beside": None}))
        self.assertEqual(works.find("resnet50", "infer", 1, "int8")[3:], (1.5, {"beside": "int8", "own": 1.3}))
        self.assertEqual(works.find("vgg16", "infer", None, "int8")[2:], (16, None, {"beside": "int8"}))
        self.assertEqual(works.find("dcgan", "train", 64, "caffe")[4]["items"], 64)

    def test_programs_know_the_words_of_their_ways(self):
        for factors in (None, "bfloat16", "int8"):
            torch = [words for words, _ in works.torch_variants("resnet50", "infer", factors).values()]
            exported = works.exported_variants(factors).values()
            for program, ways in (("torch_bench.py", torch), ("exported_bench.py", exported)):
                text = (PEERS / program).read_text(encoding="utf-8")
                for word in sum(ways, []):
                    self.assertIn(f'"{word}"', text)

    def test_every_table_is_renewed(self):
        page = self.enterContext(tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8"))
        performance = PEERS.parents[2] / "docs/performance.md"
        shutil.copy(performance, page.name)
        with contextlib.redirect_stdout(None):
            report.write(PEERS.parents[2] / "docs/results/performance", pathlib.Path(page.name))
        renewed = pathlib.Path(page.name).read_text(encoding="utf-8")
        self.assertEqual(renewed, performance.read_text(encoding="utf-8"))


class RaceTest(unittest.TestCase):
    def lines_of(self, target, metric, values):
        lines = []
        run = race.Race(target, metric, 50, "v", out=lambda line, flush: lines.append(json.loads(line)))
        run.begin()
        for i, value in enumerate(values):
            with run.testing():
                time.sleep(0.01)
            if run.test(i + 1, i / 2, value, -value):
                break
        run.end()
        return lines

    def test_tests_are_told_up_to_the_target(self):
        *tests, last = self.lines_of(0.5, "accuracy", [0.1, 0.6, 0.9])
        self.assertEqual([(t["iteration"], t["epoch"], t["accuracy"]) for t in tests], [(1, 0, 0.1), (2, 0.5, 0.6)])
        self.assertLess(tests[0]["clock_s"], tests[1]["clock_s"])
        self.assertGreaterEqual(tests[0]["clock_s"], 0.01)
        self.assertTrue(last["reached"])
        self.assertGreater(last["init_s"], 0)
        self.assertGreater(last["training_images_per_s"], last["images_per_s"])
        self.assertEqual(last["version"], "v")

    def test_a_missed_target_and_a_loss(self):
        self.assertFalse(self.lines_of(0.5, "accuracy", [0.1, 0.2])[-1]["reached"])
        *tests, last = self.lines_of(-0.5, "test_loss", [0.1, 0.6, 0.9])
        self.assertEqual([t["test_loss"] for t in tests], [-0.1, -0.6])
        self.assertTrue(last["reached"])

    def test_what_a_training_told_is_written_where_it_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            race.save({"losses": [0.5]}, None)
            race.save({"losses": [0.5]}, f"{folder}/told.json")
            self.assertEqual(json.loads(pathlib.Path(folder, "told.json").read_text(encoding="utf-8")), {"losses": [0.5]})

    def test_the_process_is_older_than_its_modules(self):
        self.assertGreater(race.since_start(), 0)
        self.assertLess(race.since_start(), 600)


class PermutationTest(unittest.TestCase):
    def test_it_is_the_order_of_moka(self):
        # The same rows stand in tests/core/rng_test.cpp.
        self.assertEqual(permutation.permuted(20, 0x7A11DA7E, 0)[:10], [1, 10, 6, 2, 5, 14, 0, 16, 4, 9])
        self.assertEqual(permutation.permuted(5, 0x123456789ABCDEF, (7 << 33) + 3), [3, 1, 2, 0, 4])

    def test_it_is_a_bijection(self):
        for count in (1, 2, 7, 64, 100):
            self.assertEqual(sorted(permutation.permuted(count, 11, 4)), list(range(count)))


class TableTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name in ("race.py", "to_target.py"):
            shutil.copy(PEERS / name, self.folder)
        (self.folder / "peer.py").write_text(PEER, encoding="utf-8")
        (self.folder / "works.py").write_text(TABLE, encoding="utf-8")
        (self.folder / "torch.py").write_text("", encoding="utf-8")  # this peer does without; the program asks for it

    def start(self, *words, program=None):
        return subprocess.run([sys.executable, str(program or self.folder / "to_target.py"), *words], check=False,
                              capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, "MOKA_PEERS_DATA": str(self.folder)})

    def test_a_peer_takes_the_place_of_the_program(self):
        (self.folder / "digits").mkdir()
        words = ("--seed", "7", "--target", "0.55", "--metric", "top1", "--threads", "3")
        done = self.start("models/net", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        said, *lines = done.stdout.splitlines()
        self.assertEqual(said, f"seed 7 threads 3 3 {self.folder}/digits x")
        lines = [json.loads(line) for line in lines]
        self.assertEqual([line["top1"] for line in lines[:-1]], [0.2, 0.4, 0.6])
        self.assertTrue(lines[-1]["reached"])
        self.assertEqual(self.start("models/net/solver.prototxt", "--check").returncode, 0)

    def test_what_is_missing_is_named(self):
        done = self.start("models/net", "--check")
        self.assertEqual(done.returncode, 66)
        self.assertIn("digits, which is not there; make it", done.stderr)
        done = self.start("models/net/solver_fast.prototxt", "--check")
        self.assertEqual(done.returncode, 66)
        self.assertIn("no peer trains net/solver_fast; there are net/solver", done.stderr)

    def test_the_table_names_programs_and_solvers_that_are_there(self):
        models = PEERS.parents[2] / "models"
        for recipe, (program, data, words, made_by) in works.TARGETS.items():
            self.assertTrue((models / f"{recipe}.prototxt").is_file(), recipe)
            text = (PEERS / program).read_text(encoding="utf-8")
            for flag in [*data, *(word for word in words if word.startswith("--"))]:
                self.assertIn(f'"{flag}"', text, recipe)
            self.assertTrue(made_by)


if __name__ == "__main__":
    unittest.main()
