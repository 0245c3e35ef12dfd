// Spans go into a vector under a mutex, with names interned, and become JSON only at the end. The switch is one relaxed
// atomic, which is all that a span costs when tracing is off.
#include "core/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_set>
#include <vector>

#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

struct Span {
  std::string_view name;  // one of TraceState's names, as is the category
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
  // The trace's own: a step's name dies with its program, and a verb may have several, one after the other.
  std::unordered_set<std::string, HashOfText, std::equal_to<>> names;
  std::map<int64_t, std::string> lanes;  // names

  std::string_view Kept(std::string_view text) {
    const auto known = names.find(text);
    return known != names.end() ? *known : *names.emplace(text).first;
  }
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
  state.names.clear();
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
    state.spans.push_back({state.Kept(name), state.Kept(category), begin_micros, end_micros, lane});
  } else {
    ++state.dropped;
  }
}

void NameTraceLane(std::string_view name) { NameTraceLane(name, syscall(SYS_gettid)); }

void NameTraceLane(std::string_view name, int64_t lane) {
  TraceState& state = State();
  const std::scoped_lock lock(state.mutex);
  state.lanes[lane] = name;
}

void StopTrace(const std::filesystem::path& path, const TraceProcess& process) {
  TraceState& state = State();
  const std::scoped_lock lock(state.mutex);
  state.on = false;
  const int id = process.rank + (process.rank < 0 ? 2 : 1);  // 0 is a system's idle process
  std::string json = StrCat("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"dropped_spans\":", state.dropped);
  if (process.rank >= 0) {
    json +=
        StrCat(",\"rank\":", process.rank, ",\"ranks\":", process.ranks, ",\"clock_offset_us\":", process.after.micros,
               ",\"clock_error_us\":", std::max(process.before.error_micros, process.after.error_micros));
  }
  json += "},\"traceEvents\":[";
  auto add = [&, is_first = true](std::string_view event) mutable {
    json += StrCat(is_first ? "\n" : ",\n", event);
    is_first = false;
  };
  const auto describe = [&](std::string_view what, int64_t lane, const std::string& key, const std::string& value) {
    add(StrCat("{\"ph\":\"M\",\"pid\":", id, ",\"tid\":", lane, ",\"name\":\"", what, "\",\"args\":{\"", key,
               "\":", value, "}}"));
  };
  if (!process.name.empty()) {
    describe("process_name", 0, "name", JsonString(process.name));
    describe("process_sort_index", 0, "sort_index", std::to_string(process.rank));
  }
  // Spans are recorded as they end: of two of the same time the later one is the outer.
  std::ranges::reverse(state.spans);
  std::ranges::stable_sort(state.spans, [](const Span& a, const Span& b) {
    return std::tuple(a.thread, a.begin, -a.end) < std::tuple(b.thread, b.begin, -b.end);
  });
  int64_t named = -1;
  for (const Span& span : state.spans) {
    if (span.thread != named) {
      named = span.thread;
      if (const auto lane = state.lanes.find(named); lane != state.lanes.end()) {
        describe("thread_name", named, "name", JsonString(lane->second));
      }
    }
    add(StrCat("{\"ph\":\"X\",\"pid\":", id, ",\"tid\":", span.thread,
               ",\"ts\":", OnCommonClock(span.begin, process.before, process.after), ",\"dur\":", span.end - span.begin,
               ",\"cat\":", JsonString(span.category), ",\"name\":", JsonString(span.name), "}"));
  }
  json += "\n]}\n";
  state.spans.clear();
  WriteFileAtomically(path, json);
}

}  // namespace moka
