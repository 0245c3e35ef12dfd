// Checks the records that a run has written before it goes on: a line that a kill has cut is usual, any other that is
// no record means that something else has written there, and is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace moka {

inline constexpr int64_t kRecordsLimitBytes = int64_t{4} << 30;  // of metrics.jsonl

// run.json of a run's folder. Errors: kBadData for a file that is no JSON object, and as ReadFile's.
nlohmann::ordered_json ReadRunJson(const std::filesystem::path& run);
// A line of metrics.jsonl or scaling.jsonl; null where it is no JSON or nests as no line of numbers does.
nlohmann::ordered_json RecordOf(std::string_view line);
// Whether a line of results.csv begins with an iteration and has as many commas as the header.
bool IsResultRow(std::string_view line, int64_t commas);

// Warnings for lines of metrics.jsonl, scaling.jsonl and results.csv that are no records, each with its place, and for
// those files that a run with a checkpoint of `iteration` must have and has not. A results.csv whose first line is no
// header is set aside as a whole.
void TellBrokenRecords(const std::filesystem::path& run, int64_t iteration);

}  // namespace moka
