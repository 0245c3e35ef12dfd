// Proxies before a server, and whom they ask for.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

// The proxies whose word about a request's client is believed: anybody may write X-Forwarded-For. Any thread.
class TrustedProxies {
 public:
  TrustedProxies() = default;
  // Networks, "10.0.0.0/8" or "fd00::/8", or single addresses. Errors: kConfig naming the first that is neither.
  explicit TrustedProxies(const std::vector<std::string>& networks);

  bool empty() const { return networks_.empty(); }
  bool Trusts(std::string_view address) const;
  // Whom a request is from that `peer` sent: the last address of its X-Forwarded-For that is not a proxy's, as each
  // proxy adds whom it was asked by at the end. The peer itself where it is not trusted or names nobody; behind what
  // is no address nothing is believed.
  std::string ClientOf(const std::string& peer, std::string_view forwarded_for) const;

 private:
  using Bytes = std::array<uint8_t, 16>;  // of IPv6; those of IPv4 as "::ffff:10.0.0.1"
  struct Network {
    Bytes bytes;
    int bits = 128;  // from the left, that count
  };

  static bool Read(std::string_view address, Bytes& bytes);
  static std::string TextOf(const Bytes& bytes);
  static Network NetworkOf(std::string_view text);
  bool Trusts(const Bytes& bytes) const;

  std::vector<Network> networks_;
};

}  // namespace moka
