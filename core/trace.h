// Tracing: spans of kernels, collectives and the pipeline, written as Chrome's trace JSON (chrome://tracing, Perfetto).
// Off unless started; a span costs one atomic read then. Thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/clock_offset.h"

namespace moka {

// Microseconds on the monotonic clock.
int64_t NowMicros();

// Starts keeping spans in memory. At most max_spans are kept; later ones are counted and said in the file.
void StartTrace(int64_t max_spans = 1 << 20);
bool TraceIsOn();
// Records a finished span.
void TraceSpan(std::string_view name, std::string_view category, int64_t begin_micros, int64_t end_micros);
// The same on a lane of its own in place of the calling thread's (what a simulation did, say).
void TraceSpan(std::string_view name, std::string_view category, int64_t begin_micros, int64_t end_micros,
               int64_t lane);
// Names a lane: the calling thread's, or one with its own number.
void NameTraceLane(std::string_view name);
void NameTraceLane(std::string_view name, int64_t lane);

// The owner of the spans where several processes are traced together, as the ranks of a training are.
struct TraceProcess {
  int rank = -1;  // -1: there is one process
  int ranks = 1;
  std::string name = {};    // of its row: "rank 2 on node7"
  ClockOffset before = {};  // measured when the trace was started
  ClockOffset after = {};   // and when it was stopped: times are written on the common clock
};
// Writes the spans, by lane and time, an outer one before those within it, and stops. Errors: kCantCreate, kIo.
void StopTrace(const std::filesystem::path& path, const TraceProcess& process = {});

// Records its own lifetime.
class ScopedSpan {
 public:
  ScopedSpan(std::string_view name, std::string_view category)
      : name_(name), category_(category), begin_(TraceIsOn() ? NowMicros() : -1) {}
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;
  ~ScopedSpan() {
    if (begin_ >= 0) TraceSpan(name_, category_, begin_, NowMicros());
  }

 private:
  std::string_view name_;
  std::string_view category_;
  int64_t begin_;
};

}  // namespace moka
