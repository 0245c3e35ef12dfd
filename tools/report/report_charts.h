// The pictures of a report, as SVG whose colours the page's style sheet adapts to light and dark.
#pragma once

#include <string>

#include "tools/report/report_content.h"

namespace moka {

// Precision over recall of the curves.
std::string PrecisionRecallChart(const ReportContent& content);
// Accuracy over confidence in bins beside what it should be, and how many samples a bin has.
std::string ReliabilityChart(const Reliability& reliability);
// A square for each pair of classes that occurs, as strong as its share of the row.
std::string ConfusionMap(const ReportContent& content);

}  // namespace moka
