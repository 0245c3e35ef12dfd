// The words of findings.
#include "data/check/findings.h"

namespace moka {

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError: return "error";
    case Severity::kWarning: return "warning";
    case Severity::kNote: break;
  }
  return "note";
}

}  // namespace moka
