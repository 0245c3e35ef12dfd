// How a class is called wherever a report names it.
#include "tools/report/report_content.h"

#include <algorithm>

#include "core/text.h"

namespace moka {

std::string ClassText(const ReportContent& content, int64_t number) {
  const auto found = std::ranges::find(content.classes, number, &ReportClass::number);
  if (found == content.classes.end() || found->name.empty()) return std::to_string(number);
  const std::string digits = std::to_string(number);
  return found->name == digits ? digits : StrCat(digits, " ", found->name);
}

}  // namespace moka
