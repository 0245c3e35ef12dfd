// The words of findings.
#include "data/check/findings.h"

#include "core/text.h"

namespace moka {

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: break;
  }
  return "note";
}

std::string Counted(int64_t count, const std::string& one, const std::string& many) {
  return StrCat(count, " ", count == 1 ? one : many);
}

}  // namespace moka
