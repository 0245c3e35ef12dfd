// Few sequences live at once, so that all are looked through for idle ones whenever one begins.
#include "tools/serve/sequences.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {

std::vector<float> Sequences::Begin(const SequencePart& part, Clock::time_point now) {
  if (part.id.empty()) return {};
  std::erase_if(sequences_, [&](const auto& one) { return now - one.second.used > kMostIdle; });
  const auto found = sequences_.find(part.id);
  if (part.starts) {
    if (found == sequences_.end() && size() >= kMost)
      throw Error(ErrorKind::kUnavailable, StrCat("there are ", kMost, " sequences, the most at once"));
    sequences_[part.id] = {.used = now};
    return {};
  }
  if (found == sequences_.end()) {
    throw Error(ErrorKind::kBadData, {}, StrCat("sequence ", Printable(part.id), " has not begun"),
                StrCat("its first request says sequence_start; one is forgotten when it was idle for ",
                       int64_t{kMostIdle.count()}, " s, or its model was loaded anew"));
  }
  return found->second.state;
}

void Sequences::End(const SequencePart& part, std::vector<float> state, Clock::time_point now) {
  if (part.id.empty()) return;
  if (part.ends) {
    sequences_.erase(part.id);
  } else {
    sequences_[part.id] = {std::move(state), now};
  }
}

}  // namespace moka
