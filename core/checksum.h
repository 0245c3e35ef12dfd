// Checksums: CRC-32C (Castagnoli) for records and sections, SHA-256 for manifests and downloads, XXH64 where much
// memory is compared fast.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace moka {

// Continues from `crc` (0 at the start). Crc32c("123456789") == 0xE3069283.
uint32_t Crc32c(std::string_view bytes, uint32_t crc = 0);

// Y. Collet's XXH64 (xxHash specification 0.1.1). Hash64("") == 0xEF46DB3751D8E999. Not safe against forgery.
uint64_t Hash64(std::string_view bytes, uint64_t seed = 0);

// Lower-case hex digest.
std::string Sha256(std::string_view bytes);
std::string Sha256OfFile(const std::filesystem::path& path);

}  // namespace moka
