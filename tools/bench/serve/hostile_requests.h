// Requests of those who mean harm or know no better: broken heads, lengths that contradict each other, chunks that lie,
// a second request hidden in the first, tensors that are not what they say.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moka {

struct HostileRequest {
  std::string name;
  std::string bytes;
  // Whether a status below 400 is no fault: bytes that were changed by chance may be right still.
  bool may_be_right = false;
};

// `model`: one of the server's with tensors. The same seed gives the same; `right`: a right request, of which some are
// made by changing bytes.
std::vector<HostileRequest> HostileRequests(const std::string& model, const std::string& right, uint64_t seed);

}  // namespace moka
