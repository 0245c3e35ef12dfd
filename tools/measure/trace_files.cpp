// Reads Chrome's JSON, puts all ranks on the first one's clock and counts each moment for the innermost span.
#include "tools/measure/trace_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "comm/transport/clocks.h"
#include "core/error.h"
#include "core/file.h"
#include "core/json_bounds.h"
#include "core/json_whole.h"
#include "core/size.h"
#include "core/text.h"
#include "core/trace.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int64_t kTraceLimitBytes = int64_t{4} << 30;

struct Span {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t* micros = nullptr;  // what its time counts for
};

int64_t* KindOf(const Json& event, TraceTotals& totals) {
  const std::string category = event.value("cat", "");
  if (category == "collective") return &totals.collective_micros;
  if (category == "wait") return &totals.wait_micros;
  if (category == "data") return event.value("name", "") == "next batch" ? &totals.input_micros : nullptr;
  return &totals.compute_micros;
}

// Adds the time of a span, with a sign.
void CountSpan(int64_t* micros, const Span& span, int64_t sign) {
  if (micros != nullptr) *micros = (Size(*micros) + Size(sign) * (Size(span.end) - span.begin)).value();
}

// The spans of a lane, each of which lies within another or beside it.
void AddLane(std::vector<Span>& spans) {
  std::ranges::stable_sort(
      spans, [](const Span& a, const Span& b) { return std::pair(a.begin, b.end) < std::pair(b.begin, a.end); });
  std::vector<const Span*> open;
  for (const Span& span : spans) {
    while (!open.empty() && open.back()->end <= span.begin) open.pop_back();
    if (!open.empty()) CountSpan(open.back()->micros, span, -1);
    CountSpan(span.micros, span, 1);
    open.push_back(&span);
  }
}

[[noreturn]] void FailAsTrace(const std::string& name, const std::string& why) {
  throw Error(ErrorKind::kBadData, {}, StrCat(name, " is no trace", why), "give files that --trace=FILE wrote");
}

TraceTotals TotalsOf(const Json& trace) {
  TraceTotals totals;
  totals.process = -1;
  if (trace.contains("otherData")) {
    totals.dropped = JsonWholeOr<int64_t>(trace["otherData"], "dropped_spans", 0);
    totals.error_micros = JsonWholeOr<int64_t>(trace["otherData"], "clock_error_us", 0);
  }
  std::map<int64_t, std::vector<Span>> lanes;
  int64_t first = INT64_MAX;
  int64_t last = INT64_MIN;
  for (const Json& event : trace.at("traceEvents")) {
    totals.process = JsonWhole<int64_t>(event.at("pid"));
    const std::string phase = event.at("ph");
    if (phase == "M" && event.at("name") == "process_name") totals.name = event.at("args").at("name");
    if (phase != "X") continue;
    const auto begin = JsonWhole<int64_t>(event.at("ts"));
    const int64_t end = (Size(begin) + JsonWhole<int64_t>(event.at("dur"))).value();
    lanes[JsonWhole<int64_t>(event.at("tid"))].push_back({begin, end, KindOf(event, totals)});
    first = std::min(first, begin);
    last = std::max(last, end);
    ++totals.spans;
  }
  if (totals.spans > 0) totals.wall_micros = (Size(last) - first).value();
  for (auto& [lane, spans] : lanes) AddLane(spans);
  return totals;
}

}  // namespace

fs::path TraceFileOf(const fs::path& file, int rank) {
  if (rank <= 0) return file;
  return file.parent_path() / StrCat(file.stem().string(), ".rank", rank, file.extension().string());
}

std::vector<fs::path> TraceFilesOfRanks(const fs::path& file) {
  std::vector<fs::path> files = {file};
  std::error_code code;
  for (int rank = 1; fs::exists(TraceFileOf(file, rank), code); ++rank) files.push_back(TraceFileOf(file, rank));
  return files;
}

void StopTraceOfRank(const fs::path& file, Communicator& world, const ClockOffset& before) {
  TraceProcess process;
  process.rank = world.rank();
  process.ranks = world.size();
  process.name = world.NameOf(world.rank());
  process.before = before;
  process.after = MeasureClock(world);
  StopTrace(TraceFileOf(file, world.rank()), process);
}

std::vector<TraceTotals> JoinTraces(const std::vector<fs::path>& files, const fs::path& to) {
  std::vector<TraceTotals> all;
  std::map<int64_t, std::string> file_of;
  std::string joined = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  bool is_first = true;
  for (const fs::path& file : files) {
    const std::string name = Printable(file.string());
    const std::string text = ReadFile(file, kTraceLimitBytes);
    constexpr int64_t kShortestValue = 8;  // bytes, on average, of what --trace writes
    CheckJsonBounds(text, name, {.values = std::max(JsonBounds().values, std::ssize(text) / kShortestValue)});
    const Json trace = Json::parse(text, nullptr, false);
    try {
      all.push_back(TotalsOf(trace));
    } catch (const Json::exception&) {
      FailAsTrace(name, "");
    } catch (const Error& error) {  // times that are none
      FailAsTrace(name, StrCat(": ", error.text()));
    }
    const auto [other, is_new] = file_of.emplace(all.back().process, name);
    if (!is_new) {
      throw Error(ErrorKind::kUsage, {}, StrCat(name, " and ", other->second, " are traces of the same rank"),
                  "give one file of each rank of one training");
    }
    if (to.empty()) continue;
    for (const Json& event : trace["traceEvents"]) {
      joined += StrCat(is_first ? "\n" : ",\n", event.dump(-1, ' ', false, Json::error_handler_t::replace));
      is_first = false;
    }
  }
  if (!to.empty()) WriteFileAtomically(to, joined + "\n]}\n");
  return all;
}

}  // namespace moka
