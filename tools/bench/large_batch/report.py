"""What the rows of the study say: a table, sentences and a figure for each question.

A sentence compares two arms: the difference of their means with its 95 % interval by Welch's t over the seeds. Arms
whose interval holds 0 are not told apart at this scale. A training that diverged counts as guessing, and is told.
"""

import math
import re
import statistics

import agreement
import svg
from questions import Progress

BEGIN, END = "<!-- study -->", "<!-- /study -->"
# Student's t, two-sided 95 %, for 1 to 30 degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
           2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)


def interval(a, b):
    """Half the 95 % interval of the difference of two means; infinite for less than two values of either."""
    if min(len(a), len(b)) < 2:
        return math.inf
    va, vb = statistics.variance(a) / len(a), statistics.variance(b) / len(b)
    if va + vb == 0:
        return 0.0
    degrees = (va + vb) ** 2 / (va ** 2 / (len(a) - 1) + vb ** 2 / (len(b) - 1))
    return STUDENT[max(0, min(len(STUDENT), int(degrees)) - 1)] * math.sqrt(va + vb)


def signed(value):
    return f"{value:+.2f}".replace("-", "−")


def in_words(difference, half, seeds):
    """ "not told apart at this scale: +0.12 ± 0.40 points over 3 seeds"."""
    if math.isinf(half):
        return f"not to be judged by {seeds} seed: {signed(difference)} points"
    verdict = "better" if difference > half else "worse" if difference < -half else "not told apart at this scale"
    return f"{verdict}: {signed(difference)} ± {half:.2f} points over {seeds} seeds"


class Results:
    """A question's final accuracies, in %, of the arms that have any."""

    def __init__(self, question, rows, seeds, tiny):
        self.question = question
        self.progress = Progress(question, rows, seeds, tiny)
        self.values, self.chosen, self.diverged, self.rows = {}, {}, {}, {}
        for arm in question.arms:
            value = self.progress.chosen(arm)
            if value is None:
                continue
            found = [self.progress.row(arm, value, seed, "test") for seed in range(1, self.progress.seeds + 1)]
            found = [row for row in found if row is not None]
            if not found:
                continue
            guessed = arm.task.chance
            self.rows[arm.name], self.chosen[arm.name] = found, value
            self.values[arm.name] = [100 * (guessed if row["accuracy"] is None else row["accuracy"]) for row in found]
            self.diverged[arm.name] = sum(row["state"] == "diverged" for row in found)

    def arms(self):
        return [arm for arm in self.question.arms if arm.name in self.values]

    def difference(self, arm):
        """(difference of the means, half its interval, seeds) from the arm's mark; None without one."""
        if arm.mark not in self.values:
            return None
        own, mark = self.values[arm.name], self.values[arm.mark]
        return statistics.mean(own) - statistics.mean(mark), interval(own, mark), min(len(own), len(mark))

    def verdict(self, arm):
        """The difference in words, behind how many trainings diverged."""
        wrecks = self.diverged[arm.name]
        told = f"{wrecks} of {len(self.values[arm.name])} diverged, " if wrecks else ""
        return told + in_words(*self.difference(arm))


def table(results):
    lines = ["| way | value | runs | mean | least to most | difference |", "|---|---|---|---|---|---|"]
    for arm in results.arms():
        values, compared = results.values[arm.name], results.difference(arm)
        wrecks = results.diverged[arm.name]
        tried = results.progress.tried(arm)[0] if arm.values else []
        value = results.chosen[arm.name]
        end = ", an end of what was tried" if len(tried) > 1 and value in (tried[0], tried[-1]) else ""
        lines.append(f"| {arm.name} | `{arm.field}` {value:g}{end} | {len(values)}"
                     + (f", {wrecks} diverged" if wrecks else "")
                     + f" | {statistics.mean(values):.2f} % | {min(values):.2f} to {max(values):.2f} | "
                     + (f"{signed(compared[0])} ± {compared[1]:.2f}" if compared else "–") + " |")
    return lines


def sentences(results):
    """What the numbers say of each arm beside its mark; for curves that have one mark, where each series falls."""
    question = results.question
    if question.name.startswith("limit") or question.name == "mnist":
        return falls(results)
    lines = []
    for arm in results.arms():
        compared = results.difference(arm)
        if compared:
            lines.append(f"- {arm.name} beside {arm.mark}: {results.verdict(arm)}.")
    return lines + (spreads(results) if question.figure == "spread" else [])


def falls(results):
    """Where each series is first below the mark by more than the interval, or diverges."""
    lines = []
    for series in dict.fromkeys(arm.series for arm in results.arms()):
        arms = sorted((arm for arm in results.arms() if arm.series == series and results.difference(arm)),
                      key=lambda arm: arm.batch)
        if not arms:
            continue
        below = [arm for arm in arms
                 if results.diverged[arm.name] or results.difference(arm)[0] < -results.difference(arm)[1]]
        if below:
            lines.append(f"- {series} first falls below {below[0].mark} at batch {below[0].batch:,}, of "
                         f"{', '.join(f'{arm.batch:,}' for arm in arms)}: {results.verdict(below[0])}.")
        elif any(math.isinf(results.difference(arm)[1]) for arm in arms):
            lines.append(f"- {series} is not to be judged yet: there is a batch with one seed.")
        else:
            lines.append(f"- {series} does not fall below {arms[0].mark} up to batch {arms[-1].batch:,}, where it is "
                         f"{results.verdict(arms[-1])}.")
    return lines


def tenth(rows, column, last):
    part = max(1, len(rows) // 10)
    return statistics.mean(row[column] for row in (rows[-part:] if last else rows[:part]))


def spreads(results):
    lines = []
    for arm in results.arms():
        rows = [row["spread"] for row in results.rows[arm.name] if row.get("spread")]
        if not rows:
            continue
        first, last, fed_first, fed_last = (statistics.mean(tenth(run, column, is_last) for run in rows)
                                            for column in (2, 5) for is_last in (False, True))
        lines.append(f"- {arm.name}: the standard deviation of pool5's elements goes from {first:.2f} in the first "
                     f"tenth of the iterations to {last:.2f} in the last, of what `fc6` is given from {fed_first:.2f} "
                     f"to {fed_last:.2f}.")
    return lines


def cost(rows, machine):
    """What the rows took; seconds of trainings that ran side by side are added. Rows of other questions cost nothing."""
    own = [row for row in rows if "trained_for" not in row]
    others = f"; {len(rows) - len(own)} more are rows of other questions" if len(own) < len(rows) else ""
    tuning = sum(row["settings"]["on"] == "val" for row in own)
    threads = machine.get("threads_of_a_training", 1)
    pictures, minutes = sum(row["images"] for row in own) / 1e6, sum(row["seconds"] for row in own) / 60
    return (f"Cost: {len(own)} trainings ({tuning} to choose values), {pictures:.2g} million pictures, {minutes:.0f} "
            f"minutes of trainings of {threads} thread{'s' if threads > 1 else ''}, {machine.get('jobs', 1)} at once "
            f"({'; '.join(machines(rows, machine))}){others}.")


def machines(rows, last):
    """Each machine that rows were trained on, in words."""
    facts = [row.get("machine", last) for row in rows] or [last]
    return dict.fromkeys(f"{m.get('cpu', '?')}, {m.get('isa', '?')}, {m.get('cores', '?')} cores, "
                         f"{m.get('version', '?')}" for m in facts)


def figures(results):
    """Names of files and their texts."""
    question, arms = results.question, results.arms()
    unit = "accuracy on the test pictures, %"
    if question.figure == "curves":
        points = [(arm.series, arm.batch, results.values[arm.name]) for arm in arms]
        return {f"{question.name}.svg": svg.curves(question.asks, points, unit, "batch")}
    made = {f"{question.name}.svg": svg.dots(question.asks, [(arm.name, arm.series, results.values[arm.name])
                                                            for arm in arms], unit)}
    if question.figure == "spread":
        panels = []
        for arm in arms:
            run = results.rows[arm.name][0].get("spread")
            if run:
                panels.append((arm.name, [[row[0], *row[4:7]] for row in run]))
        if panels:
            made[f"{question.name}_spread.svg"] = svg.bands("What fc6 is given over the iterations, seed 1", panels,
                                                            "value", "iteration")
    return made


def of_question(question, report, seeds, tiny):
    """The section of a question and its figures; None where it has no final row."""
    rows = {row["key"]: row for row in report["rows"]}
    results = Results(question, rows, seeds, tiny)
    if not results.arms():
        return None
    missing = len(results.progress.wanted())
    drawn = figures(results)
    lines = [f"### {question.asks}", ""] + [f"![{question.asks}](large_batch/{name})" for name in drawn] + [""]
    lines += sentences(results) + [""] + table(results) + [""]
    if missing:
        lines += [f"{missing} trainings of this question are still to be run.", ""]
    return lines + [cost(report["rows"], report["machine"]), ""], drawn


def of_agreement(report):
    rows = {row["key"]: row for row in report["rows"]}
    found = agreement.outcome(rows)
    if not found:
        return None
    lines = ["### A batch by iter_size, by ranks, or at once", "",
             f"The largest difference of the losses of {agreement.ITERATIONS} iterations of {agreement.BATCH} "
             f"pictures; {agreement.BOUND:g} is allowed.", "", "| pair | difference | |", "|---|---|---|"]
    lines += [f"| {pair.name} | {pair.difference:.1e} | {'agrees' if pair.holds() else 'differs'} |" for pair in found]
    return lines + ["", cost(report["rows"], report["machine"]), ""], {}


def write_into(page, sections):
    """Puts the sections between the marks of a page, or behind its text where it has none."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    made = BEGIN + "\n\n" + "\n".join(line for section in sections for line in section) + END
    if BEGIN in text:
        text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: made, text, flags=re.DOTALL)
    else:
        text = text.rstrip("\n") + "\n\n" + made + "\n"
    place(page, text)


def place(path, text):
    """Writes a file whole, or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
