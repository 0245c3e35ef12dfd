// What a run has written of its numbers, looked at before it goes on: a line that a kill has cut is usual, any other
// that is no record means that something else has written there, and is told.
#pragma once

#include <cstdint>
#include <filesystem>

namespace moka {

// Warnings for lines of metrics.jsonl, scaling.jsonl and results.csv that are no records, each with its place, and for
// those files that a run with a checkpoint of `iteration` must have and has not. Of results.csv, where its first line
// is no header, the whole file is set aside.
void TellBrokenRecords(const std::filesystem::path& run, int64_t iteration);

}  // namespace moka
