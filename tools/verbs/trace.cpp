// moka trace: where the time of traced ranks went, and their traces as one.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "core/text_table.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/measure/trace_files.h"

namespace moka {
namespace {

double Milliseconds(int64_t micros) { return static_cast<double>(micros) * 1e-3; }

std::string NameOf(const TraceTotals& rank) {
  return rank.name.empty() ? StrCat("process ", rank.process) : Printable(rank.name);
}

void PrintTraceTable(const std::vector<TraceTotals>& ranks) {
  const auto text = [](int64_t micros) { return MillisecondsText(static_cast<double>(micros) * 1e-6, 1); };
  std::vector<std::vector<std::string>> table = {
      {"ms", "spans", "wall", "compute", "collectives", "wait for them", "wait for input", "clock within us"}};
  int64_t dropped = 0;
  for (const TraceTotals& rank : ranks) {
    table.push_back({NameOf(rank), StrCat(rank.spans), text(rank.wall_micros), text(rank.compute_micros),
                     text(rank.collective_micros), text(rank.wait_micros), text(rank.input_micros),
                     StrCat(rank.error_micros)});
    dropped += rank.dropped;
  }
  PrintLines(TextTable(table, "l"));
  if (dropped > 0) Print("{} later spans did not fit into memory and are missing\n", dropped);
}

void PrintTraceJson(const std::vector<TraceTotals>& ranks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const TraceTotals& rank : ranks) {
    json.push_back({{"name", NameOf(rank)},
                    {"spans", rank.spans},
                    {"dropped_spans", rank.dropped},
                    {"wall_ms", Milliseconds(rank.wall_micros)},
                    {"compute_ms", Milliseconds(rank.compute_micros)},
                    {"collective_ms", Milliseconds(rank.collective_micros)},
                    {"wait_ms", Milliseconds(rank.wait_micros)},
                    {"input_ms", Milliseconds(rank.input_micros)},
                    {"clock_error_us", rank.error_micros}});
  }
  PrintJson(json, 1);
}

int RunTrace(const Arguments& arguments) {
  if (arguments.positionals.empty()) {
    throw Error(ErrorKind::kUsage, {}, "moka trace wants a file that --trace=FILE wrote", "see moka trace --help");
  }
  std::vector<std::filesystem::path> files(arguments.positionals.begin(), arguments.positionals.end());
  if (files.size() == 1) files = TraceFilesOfRanks(files[0]);
  const std::vector<TraceTotals> ranks = JoinTraces(files, arguments.Get("to"));
  arguments.Has("json") ? PrintTraceJson(ranks) : PrintTraceTable(ranks);
  return 0;
}

}  // namespace

Verb TraceVerb() {
  Verb verb;
  verb.name = "trace";
  verb.summary = "where the time of traced ranks went, and their traces joined into one";
  verb.usage = "FILE [FILE ...] [--to FILE]";
  verb.examples = {"mpirun -np 4 moka train models/lenet --trace trace.json",
                   "moka trace trace.json --to all.json      # with trace.rank1.json and so on beside it",
                   "moka trace node1.json node2.json --json"};
  verb.options = {{"to", "FILE", "write all as one trace, a row a rank (chrome://tracing, ui.perfetto.dev)"},
                  {"json", "", "print as JSON"}};
  verb.computes = false;
  verb.run = RunTrace;
  return verb;
}

}  // namespace moka
