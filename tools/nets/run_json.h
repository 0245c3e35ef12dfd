// JSON objects that a run keeps in its folder: run.json says how it was made, status.json where it stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>

namespace moka {

inline constexpr int64_t kRunJsonLimitBytes = int64_t{16} << 20;

// The object in a file. Errors: kBadData for a file that holds no JSON object or nests deeper than JsonBounds, and as
// ReadFile's.
nlohmann::ordered_json JsonObjectIn(const std::filesystem::path& file);

}  // namespace moka
