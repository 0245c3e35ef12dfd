// moka bench comm: all-reduces between ranks against the clock, with the flags and columns of nccl-tests.
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "comm/transport/mpi_world.h"
#include "comm/transport/same_on_all.h"
#include "comm/transport/thread_ranks.h"
#include "core/error.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/version.h"
#include "tools/measure/comm_bench.h"
#include "tools/train/rank_fields.h"

namespace moka {
namespace {

// "8", "64K", "1M", "2G": binary, as nccl-tests reads them.
int64_t SizeOf(const Arguments& arguments, const std::string& flag, int64_t fallback) {
  if (!arguments.Has(flag)) return fallback;
  const std::string text = arguments.Get(flag);
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string unit = text.substr(digits);
  const size_t power = unit.empty() ? 0 : std::string("KMG").find(unit) + 1;
  if (digits == 0 || digits > 12 || unit.size() > 1 || (!unit.empty() && power == 0)) {
    throw Error(ErrorKind::kUsage,
                StrCat("--", flag, " wants bytes such as 8, 64K, 1M or 2G, found \"", Printable(text), "\""));
  }
  const double bytes = std::stod(text.substr(0, digits)) * std::pow(1024.0, static_cast<double>(power));
  constexpr double kMost = 16e9;
  if (bytes < 4 || bytes > kMost) throw Error(ErrorKind::kUsage, StrCat("--", flag, " wants 4 to 16e9 bytes"));
  return static_cast<int64_t>(bytes);
}

// nccl-tests has a letter for these, too.
constexpr std::array<std::pair<const char*, const char*>, 6> kLetters = {
    {{"b", "minbytes"}, {"e", "maxbytes"}, {"f", "stepfactor"}, {"n", "iters"}, {"w", "warmup_iters"}, {"c", "check"}}};

Arguments SpellOut(Arguments arguments) {
  for (const auto& [letter, name] : kLetters) {
    if (!arguments.Has(letter)) continue;
    const auto given = arguments.options.extract(letter);
    if (arguments.Has(name))
      throw Error(ErrorKind::kUsage, StrCat("-", letter, " is --", name, ", which is given, too"));
    arguments.options[name] = given.mapped();
  }
  return arguments;
}

CommBenchOptions OptionsOf(const Arguments& arguments) {
  CommBenchOptions options;
  options.from_bytes = SizeOf(arguments, "minbytes", options.from_bytes);
  options.to_bytes = SizeOf(arguments, "maxbytes", options.to_bytes);
  if (options.to_bytes < options.from_bytes) throw Error(ErrorKind::kUsage, "--maxbytes is below --minbytes");
  options.step_factor = static_cast<double>(arguments.Int("stepfactor", 2, 2, 1024));
  options.iterations = static_cast<int>(arguments.Int("iters", options.iterations, 1, 100000));
  options.warmup = static_cast<int>(arguments.Int("warmup_iters", options.warmup, 0, 100000));
  options.checks = arguments.Int("check", 1, 0, 1) == 1;
  options.wire = ValueOfFlag("wire", [&] { return WireOf(arguments.Get("wire", "float32")); });
  return options;
}

void PrintBenchComm(const std::vector<CommBenchTable>& tables, int ranks, const Arguments& arguments, Wire wire) {
  if (arguments.Has("json")) {
    nlohmann::ordered_json json{{"ranks", ranks}, {"wire", NameOf(wire)}};
    for (const CommBenchTable& table : tables) {
      nlohmann::ordered_json one{{"algorithm", table.algorithm},
                                 {"alpha_us", table.line.alpha_s * 1e6},
                                 {"beta_ns_per_byte", table.line.beta_s * 1e9},
                                 {"r_squared", table.line.r_squared}};
      for (const CommBenchRow& row : table.rows) {
        one["rows"].push_back({{"bytes", row.bytes},
                               {"us", row.us},
                               {"algbw_gb_s", row.algbw_gb_s},
                               {"busbw_gb_s", row.busbw_gb_s},
                               {"wrong", row.wrong}});
      }
      json["algorithms"].push_back(std::move(one));
    }
    PrintJson(json, -1);
    return;
  }
  for (const CommBenchTable& table : tables) {
    Print("# {} ranks, {}, {} on the wire\n", ranks, table.algorithm, NameOf(wire));
    Print("# {:>11} {:>12} {:>8} {:>6} {:>12} {:>8} {:>8} {:>7}\n", "size", "count", "type", "redop", "time", "algbw",
          "busbw", "#wrong");
    Print("# {:>11} {:>12} {:>8} {:>6} {:>12} {:>8} {:>8}\n", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)");
    for (const CommBenchRow& row : table.rows) {
      Print("{:>13} {:>12} {:>8} {:>6} {:>12.2f} {:>8.3f} {:>8.3f} {:>7}\n", row.bytes, row.bytes / 4, "float", "sum",
            row.us, row.algbw_gb_s, row.busbw_gb_s, row.wrong < 0 ? "N/A" : std::to_string(row.wrong));
    }
    Print("# time = {:.2f} us + {:.4f} ns * bytes (R^2 {:.4f} over all sizes, by relative errors)\n",
          table.line.alpha_s * 1e6, table.line.beta_s * 1e9, table.line.r_squared);
  }
}

std::vector<AllReduceChoice> ChoicesOf(const std::string& name, const Communicator& world) {
  if (name == "all") return AllReduceChoices(world.size(), world.group(), world.numa_group());
  return {ValueOfFlag("algorithm", [&] { return ChoiceOfAllReduce(name, world.size(), world.group()); })};
}

// All ranks; the first prints. Returns the exit code.
int BenchWorld(Communicator& world, const Arguments& arguments) {
  const CommBenchOptions options = OptionsOf(arguments);
  const std::vector<AllReduceChoice> choices = ChoicesOf(arguments.Get("algorithm", "all"), world);
  arguments.WillRead({"json"});  // by the rank that prints
  std::vector<CommBenchTable> tables;
  tables.reserve(choices.size());
  for (const AllReduceChoice& choice : choices) tables.push_back(BenchAllReduce(world, choice, options));
  if (world.is_first()) PrintBenchComm(tables, world.size(), arguments, options.wire);
  for (const CommBenchTable& table : tables) {
    for (const CommBenchRow& row : table.rows) {
      if (row.wrong > 0) return static_cast<int>(ErrorKind::kVerification);
    }
  }
  return 0;
}

int RunBenchComm(const Arguments& given) {
  const Arguments arguments = SpellOut(given);
  if (arguments.Has("list")) {
    for (const AllReduceAlgorithm& algorithm : AllReduceAlgorithms()) {
      Print("{:<20} {}{}\n", algorithm.name, algorithm.doc, algorithm.has_fixed_order ? " (fixed order)" : "");
    }
    return 0;
  }
  if (IsLaunched() && !arguments.Has("ranks")) {
    const std::unique_ptr<Communicator> world = OpenWorld({.program = StrCat("moka ", Version(), " bench comm")});
    RequireSameFields(*world, FieldsOfStart(arguments));
    return BenchWorld(*world, arguments);
  }
  const auto ranks = static_cast<int>(arguments.Int("ranks", 0, 0, 256));
  if (ranks == 0) {
    throw Error(ErrorKind::kUsage, SourcePlace{}, "there is one rank only",
                "start it with mpirun -np N, or take --ranks=N for threads of this process");
  }
  std::vector<std::unique_ptr<Communicator>> worlds = MakeThreadRanks(ranks);
  std::vector<int> codes(static_cast<size_t>(ranks), 0);
  RunRanks(worlds,
           [&](Communicator& world) { codes[static_cast<size_t>(world.rank())] = BenchWorld(world, arguments); });
  return codes[0];
}

}  // namespace

Verb BenchCommVerb() {
  Verb verb;
  verb.name = "comm";
  verb.under = "bench";
  verb.summary = "all-reduces between ranks: time and bandwidth by size";
  verb.usage = "[--flags]";
  verb.examples = {"mpirun -np 4 moka bench comm -b 4K -e 64M -f 4", "moka bench comm --ranks 4 --algorithm ring",
                   "moka bench comm --list"};
  verb.options = {
      {"minbytes", "SIZE", "-b: smallest message (default 8; 64K, 1M, ...)"},
      {"maxbytes", "SIZE", "-e: largest message (default 32M)"},
      {"stepfactor", "N", "-f: from one size to the next (default 2)"},
      {"iters", "N", "-n: timed calls a size, of which the median is shown (default 20)"},
      {"warmup_iters", "N", "-w: calls before them (default 5)"},
      {"check", "0|1", "-c: compare the last result with the sum (default 1)"},
      {"algorithm", "NAME", "one of --list, with a group as two_level:4 or dimensions as torus:4x8 (default all)"},
      {"wire", "TYPE", "float32 (default), float16 or bfloat16 on the way"},
      {"ranks", "N", "threads of this process as ranks, without a launcher"},
      {"json", "", "print as JSON"},
      {"list", "", "name the algorithms"}};
  for (const auto& [letter, name] : kLetters) verb.options.push_back({letter, "N", ""});
  verb.run = RunBenchComm;
  return verb;
}

}  // namespace moka
