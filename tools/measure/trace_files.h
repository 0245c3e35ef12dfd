// Traces of several ranks as files: each rank writes one (--trace), and `moka trace` joins them into one that
// chrome://tracing and Perfetto show with a row a rank.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "comm/transport/communicator.h"
#include "core/clock_offset.h"

namespace moka {

// Where a rank's trace goes: `file` for the first, "trace.rank2.json" beside "trace.json" for the third.
std::filesystem::path TraceFileOf(const std::filesystem::path& file, int rank);
// The file and those of other ranks beside it, by rank.
std::vector<std::filesystem::path> TraceFilesOfRanks(const std::filesystem::path& file);

// All ranks of a training at the same place: its trace with the rank's name and on the first rank's clock. `before`:
// the clock when the trace was started. Errors: kCantCreate, kIo, kPeer.
void StopTraceOfRank(const std::filesystem::path& file, Communicator& world, const ClockOffset& before);

// The time of a process of a trace by what it did, in microseconds; lanes beside each other are added up. Time within a
// span counts for the innermost one.
struct TraceTotals {
  int64_t process = 0;
  std::string name;
  int64_t spans = 0;
  int64_t dropped = 0;
  int64_t wall_micros = 0;     // from its first span to its last
  int64_t compute_micros = 0;  // what is none of the following
  int64_t collective_micros = 0;
  int64_t wait_micros = 0;   // the program waited for collectives
  int64_t input_micros = 0;  // and for batches
  int64_t error_micros = 0;  // of its clock
};

// Reads traces of different processes, and writes them as one unless `to` is empty. Errors: kNoInput, kBadData at a
// file that is no trace, kUsage for two of one process, kCantCreate, kIo.
std::vector<TraceTotals> JoinTraces(const std::vector<std::filesystem::path>& files, const std::filesystem::path& to);

}  // namespace moka
