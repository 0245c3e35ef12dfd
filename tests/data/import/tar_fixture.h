// Archives for the tests of importers, byte by byte.
#pragma once

#include <zlib.h>

#include <filesystem>
#include <string>

#include "core/file.h"

namespace moka {

inline std::string Gzipped(const std::string& bytes, const std::filesystem::path& scratch) {
  gzFile file = gzopen(scratch.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return ReadFile(scratch);
}

inline std::string Octal(size_t value, int digits) {
  std::string text(static_cast<size_t>(digits), '0');
  for (size_t i = text.size(); i-- > 0; value /= 8) text[i] = static_cast<char>('0' + value % 8);
  return text;
}

// Returns a member of a ustar archive, which ends with 1024 zeros.
inline std::string TarMember(const std::string& name, const std::string& bytes, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, Octal(bytes.size(), 11));
  header[156] = type;
  header.replace(257, 5, "ustar");
  header.replace(148, 8, "        ");
  size_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  header.replace(148, 6, Octal(sum, 6));
  header[154] = '\0';
  std::string member = header + bytes;
  member.resize((member.size() + 511) / 512 * 512, '\0');
  return member;
}

}  // namespace moka
