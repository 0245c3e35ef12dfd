"""tools/bench/large_batch: how values are chosen, what a verdict is, and a short question that is killed and goes on.

Usage: large_batch_test.py FOLDER_OF_THE_STUDY MOKA
"""

import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

STUDY, MOKA = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
sys.path.insert(0, str(STUDY))

import questions  # noqa: E402
import report  # noqa: E402
import run  # noqa: E402
import svg  # noqa: E402
from trainings import ALEXNET  # noqa: E402


def make_pictures(folder, each):
    """Pictures of noise in folders of ten classes, as portable pixmaps."""
    noise = random.Random(1)
    for label in range(10):
        (folder / str(label)).mkdir(parents=True)
        for number in range(each):
            (folder / str(label) / f"{number:04}.ppm").write_bytes(b"P6 32 32 255\n" + noise.randbytes(3 * 32 * 32))


def answered(question, accuracy):
    """The rows of a question whose trainings have the accuracy that a function of their last field says."""
    rows = {}
    progress = questions.Progress(question, rows, question.seeds)
    while progress.wanted():
        for training in progress.wanted():
            rows[training.key()] = {"key": training.key(), "accuracy": accuracy(training), "state": "finished",
                                    "settings": training.settings(), "images": 1, "seconds": 1}
    return rows


class ChoiceTest(unittest.TestCase):
    def test_a_best_value_at_the_end_is_looked_beyond(self):
        arm = questions.Arm("arm", ALEXNET, 64, (0.1, 0.2, 0.4), beyond=2)
        double = questions.Arm("double", ALEXNET, 128, source=("arm", 2), mark="arm")
        question = questions.Question("one", "x", "One?", (arm, double))
        for peak, chosen, tuned in ((0.2, 0.2, 3), (0.8, 0.8, 5), (0.05, 0.05, 5), (100, 1.6, 5)):
            rows = answered(question, lambda training, peak=peak: 1 / (1 + abs(training.fields[-1][1] - peak)))
            progress = questions.Progress(question, rows, question.seeds)
            self.assertEqual(progress.chosen(arm), chosen)
            self.assertEqual(progress.chosen(double), 2 * chosen)
            self.assertEqual(sum(row["settings"]["on"] == "val" for row in rows.values()), tuned)
            self.assertEqual(sum(row["settings"]["on"] == "test" for row in rows.values()), 2 * question.seeds)

    def test_each_question_comes_to_an_end_and_is_reported(self):
        for question in questions.QUESTIONS.values():
            rows = answered(question, lambda training: 0.7 + 0.001 * training.seed)
            section = report.of_question(question, {"rows": list(rows.values()), "machine": {}}, question.seeds, False)
            lines, drawn = section
            self.assertEqual(len({arm.name for arm in question.arms}), len(question.arms), question.name)
            for arm in question.arms:
                self.assertTrue(any(arm.name in line for line in lines), arm.name)
            for text in drawn.values():
                xml.etree.ElementTree.fromstring(text)
            compared = [arm for arm in question.arms if arm.mark]
            self.assertTrue(compared)
            self.assertTrue(any("not told apart" in line or "does not fall" in line for line in lines), lines)

    def test_trainings_of_several_questions_are_trained_once(self):
        one = questions.Question("one", "x", "One?", (questions.Arm("plain", ALEXNET, 64, (0.1, 0.2, 0.4)),))
        arms = (questions.Arm("base", ALEXNET, 64, (0.1, 0.2, 0.4)), questions.Arm("more", ALEXNET, 128, (0.1,)))
        two = questions.Question("two", "y", "Two?", arms, seeds=4)
        rows_of_one = answered(one, lambda training: 1 / (1 + abs(training.fields[-1][1] - 0.2)))
        with tempfile.TemporaryDirectory() as scratch:
            kept = run.Rows(pathlib.Path(scratch) / "one.json")
            for row in rows_of_one.values():
                kept.add(row)
            rows = run.Rows(pathlib.Path(scratch) / "two.json")
            progress = questions.Progress(two, rows.by_key, two.seeds)
            while rows.take_over(progress.wanted()):
                pass
            self.assertEqual(rows.by_key.keys(), rows_of_one.keys())
            self.assertEqual([(t.arm, t.batch, t.seed) for t in progress.wanted()],
                             [("more", 128, 1), ("more", 128, 2), ("more", 128, 3), ("base", 64, 4), ("more", 128, 4)])
            self.assertEqual({row["trained_for"] for row in rows.by_key.values()}, {"one"})
            lines, _ = report.of_question(two, run.Rows(rows.path).report, two.seeds, False)
            self.assertIn("Cost: 0 trainings", lines[-2])
            self.assertIn(f"{len(rows_of_one)} more are rows of other questions", lines[-2])

    def test_a_verdict_is_the_difference_against_its_interval(self):
        half = report.interval([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
        self.assertAlmostEqual(half, 2.776 * (2 / 3) ** 0.5, places=6)
        self.assertEqual(report.in_words(0.12, 0.4, 3), "not told apart at this scale: +0.12 ± 0.40 points over 3 seeds")
        self.assertTrue(report.in_words(-0.5, 0.4, 3).startswith("worse: −0.50"))
        self.assertTrue(report.in_words(0.5, 0.4, 3).startswith("better: +0.50"))

    def test_ticks_are_round_and_inside(self):
        self.assertEqual(svg.ticks(0.9, 3.1, 2), [2])
        self.assertEqual(svg.ticks(60.2, 71), [62, 64, 66, 68, 70])


class StudyTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = pathlib.Path(self.scratch.name)
        self.rows = self.folder / "out/float16.json"

    def command(self, *words):
        return [sys.executable, str(STUDY / "run.py"), MOKA, str(self.folder), str(self.folder / "out"), *words]

    def study(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=300, check=False)

    def read(self):
        return json.loads(self.rows.read_text())["rows"] if self.rows.exists() else []

    def test_a_plan_trains_nothing(self):
        done = self.study("--plan")
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in questions.QUESTIONS:
            self.assertIn(f"| {name} |", done.stdout)
        self.assertFalse(self.rows.exists())

    def test_a_killed_question_goes_on_and_is_reported(self):
        for part, each in (("train", 30), ("test", 10)):
            make_pictures(self.folder / "pictures" / part, each)
            subprocess.run([MOKA, "data", "import", str(self.folder / "pictures" / part),
                            str(self.folder / "data/cifar10-jpeg" / part), "--quiet"], check=True, capture_output=True)
        words = ["--question", "c", "--tiny", "--seeds", "1", "--jobs", "1"]
        process = subprocess.Popen(self.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while len(self.read()) < 2 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = self.read()
        self.assertGreaterEqual(len(before), 2)
        done = self.study(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        after = self.read()
        self.assertEqual(after[:len(before)], before, "a row is not trained again")
        self.assertEqual(len(after), 5)
        self.assertFalse(list((self.folder / "runs/large_batch").glob("float16*")), "runs with a row are gone")

        docs = self.folder / "docs"
        docs.mkdir()
        (docs / "large_batch.md").write_text("# Before\n")
        for _ in range(2):
            done = self.study("--report", "--docs", str(docs), *words)
            self.assertEqual(done.returncode, 0, done.stderr)
        page = (docs / "large_batch.md").read_text()
        self.assertTrue(page.startswith("# Before\n"))
        self.assertEqual(page.count("### LARS in float16"), 1)
        self.assertIn("not to be judged by 1 seed", page)
        xml.etree.ElementTree.parse(docs / "large_batch/float16.svg")


if __name__ == "__main__":
    unittest.main()
