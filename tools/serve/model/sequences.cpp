// Few sequences live at once, so that all are looked through for idle ones whenever one begins.
#include "tools/serve/model/sequences.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "core/text.h"

namespace moka {

std::vector<float> Sequences::Begin(const SequencePart& part, Clock::time_point now) {
  if (part.id.empty()) return {};
  std::erase_if(sequences_, [&](const auto& one) { return now - one.second.used > limits_.idle; });
  const auto found = sequences_.find(part.id);
  if (part.starts) {
    if (found == sequences_.end() && size() >= limits_.most)
      throw Error(ErrorKind::kUnavailable, StrCat("there are ", limits_.most, " sequences, the most at once"));
    sequences_[part.id] = {.used = now};
    return {};
  }
  if (found == sequences_.end()) {
    throw Error(
        ErrorKind::kBadData, {}, StrCat("sequence ", Printable(part.id), " has not begun"),
        fmt::format("its first request says sequence_start; one is forgotten when it was idle for {:g} s, or its "
                    "model was loaded anew",
                    std::chrono::duration<double>(limits_.idle).count()));
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
