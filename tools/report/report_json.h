// report.json of a run: every number of the report, for those who draw or compare them.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/report/report_content.h"

namespace moka {

// Numbers that are not finite are null.
nlohmann::ordered_json ReportJson(const ReportContent& content);

}  // namespace moka
