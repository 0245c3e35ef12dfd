// Requests of one client that follow each other through a net which keeps states between runs: what it kept after one
// is what it begins the next with. The engine's thread alone uses this, so that what never ran has begun nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace moka {

// A request's place in a sequence.
struct SequencePart {
  std::string id = {};  // empty: in none, the request begins with zeros
  bool starts = false;
  bool ends = false;
};

struct SequenceLimits {
  std::chrono::microseconds idle = std::chrono::minutes(1);  // then one is forgotten
  int64_t most = 4096;                                       // at once
};

class Sequences {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Sequences(const SequenceLimits& limits = {}) : limits_(limits) {}

  // The state to begin a part with; zeros are empty. Errors: kBadData for one that has not begun, or was idle for
  // too long; kUnavailable for too many at once.
  std::vector<float> Begin(const SequencePart& part, Clock::time_point now = Clock::now());
  // Keeps the state behind a part, or ends the sequence.
  void End(const SequencePart& part, std::vector<float> state, Clock::time_point now = Clock::now());
  int64_t size() const { return std::ssize(sequences_); }

 private:
  struct Kept {
    std::vector<float> state = {};
    Clock::time_point used = {};
  };
  SequenceLimits limits_;
  std::map<std::string, Kept> sequences_;
};

}  // namespace moka
