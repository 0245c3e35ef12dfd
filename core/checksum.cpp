// CRC-32C uses SSE 4.2's instruction where the processor has it, else a table of 256 entries of the same polynomial;
// SHA-256 is libsodium's, and XXH64 is computed here.
#include "core/checksum.h"

#include <sodium.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/error.h"
#include "core/open_file.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  constexpr uint32_t kPolynomial = 0x82F63B78U;  // Castagnoli, reflected
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[i] = crc;
  }
  return table;
}

uint32_t CrcByTable(std::string_view bytes, uint32_t crc) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  for (const char c : bytes) crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 255U];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t CrcByHardware(std::string_view bytes, uint32_t crc) {
  uint64_t state = crc;
  while (bytes.size() >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    state = __builtin_ia32_crc32di(state, word);
    bytes.remove_prefix(8);
  }
  return CrcByTable(bytes, static_cast<uint32_t>(state));
}
#endif

std::string Hex(const std::array<unsigned char, crypto_hash_sha256_BYTES>& digest) {
  std::array<char, 2 * crypto_hash_sha256_BYTES + 1> text{};
  sodium_bin2hex(text.data(), text.size(), digest.data(), digest.size());
  return text.data();
}

// XXH64's primes and rounds.
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

constexpr uint64_t Round(uint64_t sum, uint64_t word) { return std::rotl(sum + word * kPrime2, 31) * kPrime1; }

// The next word, which is taken from the front.
template <class Word>
uint64_t Take(std::string_view& bytes) {
  Word word = 0;
  std::memcpy(&word, bytes.data(), sizeof(word));
  bytes.remove_prefix(sizeof(word));
  return word;
}

void InitializeSodium() {
  static const bool ok = sodium_init() >= 0;
  Require(ok, "libsodium initialises");
}

}  // namespace

uint32_t Crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~CrcByHardware(bytes, ~crc);
#endif
  return ~CrcByTable(bytes, ~crc);
}

uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  const uint64_t size = bytes.size();
  uint64_t hash = seed + kPrime5;
  if (bytes.size() >= 32) {
    std::array<uint64_t, 4> sums = {seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1};
    while (bytes.size() >= 32) {
      for (uint64_t& sum : sums) sum = Round(sum, Take<uint64_t>(bytes));
    }
    hash = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
    for (const uint64_t sum : sums) hash = (hash ^ Round(0, sum)) * kPrime1 + kPrime4;
  }
  hash += size;
  while (bytes.size() >= 8) hash = std::rotl(hash ^ Round(0, Take<uint64_t>(bytes)), 27) * kPrime1 + kPrime4;
  while (bytes.size() >= 4) hash = std::rotl(hash ^ Take<uint32_t>(bytes) * kPrime1, 23) * kPrime2 + kPrime3;
  while (!bytes.empty()) hash = std::rotl(hash ^ Take<uint8_t>(bytes) * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33U) * kPrime2;
  hash = (hash ^ hash >> 29U) * kPrime3;
  return hash ^ hash >> 32U;
}

std::string Sha256(std::string_view bytes) {
  InitializeSodium();
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return Hex(digest);
}

std::string Sha256OfFile(const std::filesystem::path& path) {
  InitializeSodium();
  const OpenFile file = OpenFile::ForReading(path);
  crypto_hash_sha256_state state{};
  crypto_hash_sha256_init(&state);
  std::string chunk(size_t{1} << 20U, '\0');
  for (int64_t at = 0;;) {
    const int64_t got = file.ReadAt(at, chunk.data(), static_cast<int64_t>(chunk.size()), path);
    if (got == 0) break;
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(chunk.data()),
                              static_cast<unsigned long long>(got));
    at += got;
  }
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  return Hex(digest);
}

}  // namespace moka
