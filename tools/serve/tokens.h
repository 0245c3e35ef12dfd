// Who may ask a server: tokens, of which the server keeps digests alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

enum class Role : uint8_t { kNone, kUser, kAdmin };  // an admin loads and unloads models, too

struct TokenOwner {
  std::string name = {};
  Role role = Role::kNone;
};

// A line a token: NAME:SHA256:ROLE, the digest in 64 hexadecimal digits, the role "user" or "admin".
class Tokens {
 public:
  Tokens() = default;
  // Errors: kNoInput, kBadData with the line, kNotAllowed for a file that others may write.
  explicit Tokens(const std::filesystem::path& file);

  bool empty() const { return tokens_.empty(); }
  // Finds the owner of "Bearer TOKEN"; takes as long for a wrong token as for a right one.
  TokenOwner OwnerOf(std::string_view authorization) const;

 private:
  struct Token {
    std::string digest;
    TokenOwner owner;
  };
  std::vector<Token> tokens_;
};

}  // namespace moka
