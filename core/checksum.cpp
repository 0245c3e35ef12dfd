#include "core/checksum.h"

#include <sodium.h>

#include <array>
#include <cstring>
#include <fstream>

#include "core/error.h"
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

void InitialiseSodium() {
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

std::string Sha256(std::string_view bytes) {
  InitialiseSodium();
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return Hex(digest);
}

std::string Sha256OfFile(const std::filesystem::path& path) {
  InitialiseSodium();
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorKind::kNoInput, StrCat("cannot open ", path.string()));
  crypto_hash_sha256_state state{};
  crypto_hash_sha256_init(&state);
  std::string chunk(size_t{1} << 20U, '\0');
  while (file) {
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    crypto_hash_sha256_update(&state, reinterpret_cast<const unsigned char*>(chunk.data()),
                              static_cast<unsigned long long>(file.gcount()));
  }
  if (file.bad()) throw Error(ErrorKind::kIo, StrCat(path.string(), ": read failed"));
  std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
  crypto_hash_sha256_final(&state, digest.data());
  return Hex(digest);
}

}  // namespace moka
