// A measurement of the time to an accuracy for people and programs: a table, rows of CSV, a chart.
#pragma once

#include <string>

#include "tools/measure/accuracy_bench.h"

namespace moka {

// A line about a run that has ended: "reached accuracy 0.91 after 12.3 s".
std::string RunSentence(const AccuracyRun& run, const AccuracyTarget& target);

// A table of the runs and one of the settings. What is not known is "–".
std::string AccuracyText(const AccuracyBench& bench);

// A header and a row for each run that has ended; empty cells for what is not known.
std::string AccuracyCsv(const AccuracyBench& bench);

// The metric over the clock: a thin line for each seed, the one with the middle clock of a setting bold, a colour a
// setting, the target across.
std::string AccuracySvg(const AccuracyBench& bench);

}  // namespace moka
