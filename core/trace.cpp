#include "core/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

struct Span {
  std::string_view name;
  std::string_view category;
  int64_t begin;
  int64_t end;
  int64_t thread;
};

struct TraceState {
  std::atomic<bool> on = false;
  std::mutex mutex;
  std::vector<Span> spans;
  size_t limit = 0;
  int64_t dropped = 0;
};

TraceState& State() {
  static TraceState state;  // the one trace sink of the process
  return state;
}

std::string JsonString(std::string_view text) {
  std::string s = "\"";
  for (const char c : Printable(text)) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + "\"";
}

}  // namespace

int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void StartTrace(int64_t max_spans) {
  TraceState& state = State();
  const std::scoped_lock lock(state.mutex);
  state.spans.clear();
  state.limit = static_cast<size_t>(max_spans);
  state.spans.reserve(state.limit);
  state.dropped = 0;
  state.on = true;
}

bool TraceIsOn() { return State().on.load(std::memory_order_relaxed); }

void TraceSpan(std::string_view name, std::string_view category, int64_t begin_micros, int64_t end_micros) {
  if (TraceIsOn()) TraceSpan(name, category, begin_micros, end_micros, syscall(SYS_gettid));
}

void TraceSpan(std::string_view name, std::string_view category, int64_t begin_micros, int64_t end_micros,
               int64_t lane) {
  TraceState& state = State();
  if (!TraceIsOn()) return;
  const std::scoped_lock lock(state.mutex);
  if (state.spans.size() < state.limit) {
    state.spans.push_back({name, category, begin_micros, end_micros, lane});
  } else {
    ++state.dropped;
  }
}

void StopTrace(const std::filesystem::path& path) {
  TraceState& state = State();
  const std::scoped_lock lock(state.mutex);
  state.on = false;
  std::string json =
      StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":", state.dropped, "},\"traceEvents\":[");
  for (size_t i = 0; i < state.spans.size(); ++i) {
    const Span& span = state.spans[i];
    json += StrCat(i > 0 ? ",\n" : "\n", "{\"ph\":\"X\",\"pid\":1,\"tid\":", span.thread, ",\"ts\":", span.begin,
                   ",\"dur\":", span.end - span.begin, ",\"cat\":", JsonString(span.category),
                   ",\"name\":", JsonString(span.name), "}");
  }
  json += "\n]}\n";
  state.spans.clear();
  WriteFileAtomically(path, json);
}

}  // namespace moka
