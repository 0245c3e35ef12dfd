#!/usr/bin/env python3
"""The study of large batches: CIFAR-10, clothing and MNIST at batches of 32 to 8,192, each answer with its spread.

Usage: run.py MOKA FOLDER OUT_FOLDER --question NAME|LETTER [--seeds N] [--limit SECONDS] [--jobs N]
       run.py MOKA FOLDER OUT_FOLDER --plan [--question ...]      what would be trained, and about how long
       run.py MOKA FOLDER OUT_FOLDER --report [--question ...]    figures and docs/large_batch.md from the rows

FOLDER has data/cifar10-jpeg, data/clothing and data/mnist as `tools/data/get` makes them. Values are chosen on a tenth
of the training set that is held out (`moka data split`); the test part is for the final runs alone. Each training that
ends is a row of OUT_FOLDER/QUESTION.json, written at once and whole; a row that is there is not trained again, and a
run that was cut goes on where it was. Runs lie in FOLDER/runs/large_batch. Exit code 75: stopped before the end, by
--limit or a signal; the same command goes on. Questions are in questions.py, "agreement" in agreement.py.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import signal
import sys
import threading

import agreement
import report
from questions import QUESTIONS, Progress, named
from trainings import STOPPED, Lab

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Rows:
    """OUT_FOLDER/QUESTION.json: the machine, and a row for each training that ended."""

    def __init__(self, path):
        self.path, self.lock = path, threading.Lock()
        self.report = {"question": path.stem, "machine": {}, "rows": []}
        if path.exists():
            self.report = json.loads(path.read_text(encoding="utf-8"))
        self.by_key = {row["key"]: row for row in self.report["rows"]}

    def is_on(self, machine):
        """Rows that follow are trained on this machine; those of others stay with their facts."""
        if self.by_key and self.report["machine"] not in ({}, machine):
            self.report.setdefault("earlier_machines", []).append(self.report["machine"])
        self.report["machine"] = machine

    def add(self, row):
        with self.lock:
            self.by_key[row["key"]] = row
            self.report["rows"] = list(self.by_key.values())
            self.save()

    def take_over(self, trainings):
        """Takes rows of trainings that other questions have had, marked with whose they are; whether there were any."""
        wanted = {training.key(): training for training in trainings}
        found = False
        for path in sorted(self.path.parent.glob("*.json")):
            if path == self.path or path.stem == "agreement":
                continue
            for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
                if row["key"] in wanted and "trained_for" not in row:
                    self.add(row | {"trained_for": path.stem})
                    found = True
        return found

    def save(self):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".json.part")
        rows = ",\n".join("  " + json.dumps(row) for row in self.report["rows"])
        head = json.dumps({k: v for k, v in self.report.items() if k != "rows"}, indent=1)[:-2]
        with open(beside, "w", encoding="utf-8") as file:
            file.write(f'{head},\n "rows": [\n{rows}\n ]\n}}\n')
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)


def train_all(lab, rows, wanted, jobs):
    """Trains what `wanted()` names until it names nothing; whether it came to that."""
    for key in rows.by_key:  # a kill between a row and this leaves its run
        lab.forget(key)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while True:
            trainings = wanted()
            if not trainings:
                return True
            print(f"{rows.path.stem}: {len(rows.by_key)} rows, {len(trainings)} trainings known to be next", flush=True)
            running = [pool.submit(one, lab, rows, training) for training in trainings]
            for done in running:
                done.result()
            if lab.stops():
                return False


def one(lab, rows, training):
    if lab.stops() or rows.take_over([training]):
        return
    try:
        row = lab.train(training)
    except BaseException:
        lab.stop()
        raise
    if row is None:
        return
    row["machine"] = rows.report["machine"]
    rows.add(row)
    lab.forget(row["key"])
    value = training.fields[-1]
    accuracy = "diverged" if row["state"] == "diverged" else (
        f"{100 * row['accuracy']:.2f} %" if row["accuracy"] is not None else f"loss {row['losses'][-1][1]:.5f}")
    print(f"{rows.path.stem}: {training.arm}, {value[0]} {value[1]}, seed {training.seed}, {training.on}: {accuracy}, "
          f"{row['seconds']} s", flush=True)


def plan(questions, options, out):
    """Trainings and minutes: by the pictures a second of the rows there are, else by those of the task."""
    print("| question | letter | trainings | more at most | million pictures | minutes | at most |")
    print("|---|---|---|---|---|---|---|")
    totals = [0, 0, 0.0, 0.0, 0.0]
    for question in questions:
        rows = Rows(out / f"{question.name}.json").by_key
        progress = Progress(question, rows, options.seeds or question.seeds, options.tiny)
        trainings, more = progress.planned()
        minutes = sum(training.images() / pace(training, rows.values(), options.jobs) for training in trainings) / 60
        longest = max(training.images() / pace(training, rows.values(), options.jobs) for training in trainings) / 60
        row = [len(trainings), more, sum(t.images() for t in trainings) / 1e6, minutes, minutes + more * longest]
        totals = [a + b for a, b in zip(totals, row)]
        print(f"| {question.name} | {question.letter} | " + as_cells(row))
    print("| all | | " + as_cells(totals))


def as_cells(row):
    return f"{row[0]} | {row[1]} | {row[2]:.1f} | {row[3]:.0f} | {row[4]:.0f} |"


def pace(training, rows, jobs):
    """Pictures a second of all trainings that run side by side."""
    alike = [row for row in rows if row["state"] == "finished" and row["settings"]["task"] == training.task.name
             and row["solver"].get("precision") == dict(training.fields).get("precision")]
    seconds = sum(row["seconds"] for row in alike)
    return jobs * sum(row["images"] for row in alike) / seconds if seconds else training.task.rate


def write_report(questions, with_agreement, options, out):
    docs = pathlib.Path(options.docs)
    sections = []
    if with_agreement and (out / "agreement.json").exists():
        sections.append(report.of_agreement(Rows(out / "agreement.json").report))
    for question in questions:
        path = out / f"{question.name}.json"
        if path.exists():
            seeds = options.seeds or question.seeds
            sections.append(report.of_question(question, Rows(path).report, seeds, options.tiny))
    sections = [section for section in sections if section]
    (docs / "large_batch").mkdir(parents=True, exist_ok=True)
    for _, drawn in sections:
        for name, text in drawn.items():
            report.place(docs / "large_batch" / name, text)
    report.write_into(docs / "large_batch.md", [lines for lines, _ in sections])
    print(f"{docs / 'large_batch.md'}: {len(sections)} questions")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="\n".join(__doc__.splitlines()[2:]),
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("moka")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--question", action="append", default=[], help="a name, or a letter of several; default: all")
    parser.add_argument("--seeds", type=int, default=0, help="of final runs (default: each question's own, 3 or 5)")
    parser.add_argument("--limit", type=float, help="seconds after which the command stops, to be given again")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="trainings at once (default: as many as cores)")
    parser.add_argument("--threads", type=int, default=1, help="of a training")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--docs", default=str(ROOT / "docs"), help="where the report goes")
    parser.add_argument("--tiny", action="store_true", help="two iterations of small batches, to try the study itself")
    parser.add_argument("--keep-runs", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    words = options.question or ["agreement", *QUESTIONS]
    questions = list({q.name: q for word in words if word != "agreement" for q in named(word)}.values())
    moka, folder, out = str(pathlib.Path(options.moka).resolve()), options.folder.resolve(), options.out.resolve()
    if options.plan:
        return plan(questions, options, out)
    lab = Lab(moka, folder, folder / "runs/large_batch", options.limit, options.threads, options.keep_runs)
    if options.report and options.question and not options.tiny:
        sys.exit("--report writes all questions that have rows into the page; leave out --question")
    if options.report:
        return write_report(questions, "agreement" in words, options, out)
    signal.signal(signal.SIGTERM, lab.stop)
    signal.signal(signal.SIGINT, lab.stop)
    studies = [(Rows(out / f"{q.name}.json"), q) for q in questions]
    if "agreement" in words:
        studies.insert(0, (Rows(out / "agreement.json"), None))
    machine, ends = lab.machine() | {"jobs": options.jobs}, True
    for rows, question in studies:
        rows.is_on(machine)
        if question is None:
            agreement.write_lists(lab)

            def wanted(rows=rows):
                return [training for training in agreement.trainings() if training.key() not in rows.by_key]
        else:
            progress = Progress(question, rows.by_key, options.seeds or question.seeds, options.tiny)

            def wanted(rows=rows, progress=progress):
                while rows.take_over(progress.wanted()):
                    pass
                return progress.wanted()
        ends = train_all(lab, rows, wanted, options.jobs) and ends
        if question is None:
            for pair in agreement.outcome(rows.by_key):
                print(f"{'agrees ' if pair.holds() else 'DIFFERS'} {pair.difference:.1e}  {pair.name}")
                ends = ends and pair.holds()
        if lab.stops():
            return STOPPED
    return 0 if ends else 1


if __name__ == "__main__":
    sys.exit(main())
