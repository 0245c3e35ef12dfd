// report.html of a run: one page that needs nothing beside itself, in light and dark.
#pragma once

#include <string>
#include <string_view>

#include "tools/report/report_content.h"

namespace moka {

// All names are escaped; pictures are part of the page.
std::string ReportPage(const ReportContent& content);

// page.html of this folder, which the build embeds: what is between {{ and }} is replaced.
std::string_view PageTemplate();

}  // namespace moka
