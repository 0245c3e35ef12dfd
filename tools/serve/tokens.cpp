// All tokens are compared, each in constant time: a time that told where a guess first differs would let it be found
// digit by digit.
#include "tools/serve/tokens.h"

#include <algorithm>

#include "core/checksum.h"
#include "core/error.h"
#include "core/text.h"
#include "data/files/list_text.h"

namespace moka {

namespace fs = std::filesystem;

namespace {

// Looks at every digit, wherever the first difference is.
bool IsSame(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  volatile unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Tokens::Tokens(const fs::path& file) {
  const std::string text = ReadListText(file);
  std::error_code failed;
  if ((fs::status(file, failed).permissions() & fs::perms::others_write) != fs::perms::none)
    throw Error(ErrorKind::kNotAllowed, {}, StrCat(Printable(file.string()), " may be written by everyone"),
                "chmod o-w");
  int number = 0;
  for (const std::string& line : Split(text, '\n')) {
    ++number;
    if (Trim(line).empty() || Trim(line).front() == '#') continue;
    const std::vector<std::string> parts = Split(std::string(Trim(line)), ':');
    const bool has_digest = parts.size() == 3 && parts[1].size() == 64 &&
                            parts[1].find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!has_digest || (parts[2] != "user" && parts[2] != "admin")) {
      throw Error(
          ErrorKind::kBadData, {.file = file.string(), .line = number}, "this is no token",
          "expected NAME:DIGEST:ROLE, the digest as `printf %s TOKEN | sha256sum` gives it, the role user or admin");
    }
    if (Trim(parts[0]).empty())
      throw Error(ErrorKind::kBadData, {.file = file.string(), .line = number}, "this token is of nobody",
                  "a name stands before the first colon: NAME:DIGEST:ROLE");
    const auto before = std::ranges::find(tokens_, parts[1], &Token::digest);
    if (before != tokens_.end())
      throw Error(ErrorKind::kBadData, {.file = file.string(), .line = number},
                  StrCat("this is the token of ", Printable(before->owner.name), " again"),
                  "one line says whose it is and what it may do");
    tokens_.push_back({parts[1], {parts[0], parts[2] == "admin" ? Role::kAdmin : Role::kUser}});
  }
  if (tokens_.empty()) throw Error(ErrorKind::kBadData, StrCat(Printable(file.string()), " has no token"));
}

TokenOwner Tokens::OwnerOf(std::string_view authorization) const {
  constexpr std::string_view kBearer = "bearer ";
  if (AsciiLower(authorization.substr(0, kBearer.size())) != kBearer) return {};
  const std::string digest = Sha256(Trim(authorization.substr(kBearer.size())));
  TokenOwner owner;
  for (const Token& token : tokens_) {
    if (IsSame(token.digest, digest) && token.owner.role > owner.role) owner = token.owner;
  }
  return owner;
}

}  // namespace moka
