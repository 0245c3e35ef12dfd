// Checksums: CRC-32C (Castagnoli) for records and sections, SHA-256 for manifests and downloads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace moka {

// Continues from `crc` (0 at the start). Crc32c("123456789") == 0xE3069283.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

// Lower-case hex digest.
std::string Sha256(std::string_view bytes);
std::string Sha256OfFile(const std::filesystem::path& path);

}  // namespace moka
