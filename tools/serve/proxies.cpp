// Addresses of both kinds are compared as IPv6's, so that a socket for both knows a proxy of IPv4.
#include "tools/serve/proxies.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr std::array<uint8_t, 12> kOldPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

// "10.0.0.1:4711" and "[::1]:4711" without their ports, as some proxies write them.
std::string_view WithoutPort(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, std::min(text.find(']'), text.size()) - 1);
  const size_t colon = text.find(':');
  const bool is_only = colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos;
  return is_only ? text.substr(0, colon) : text;
}

}  // namespace

bool TrustedProxies::Read(std::string_view address, Bytes& bytes) {
  const std::string text(address.substr(0, address.find('%')));  // a link's name says nothing here
  if (inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return true;
  std::copy(kOldPrefix.begin(), kOldPrefix.end(), bytes.begin());
  return inet_pton(AF_INET, text.c_str(), bytes.data() + kOldPrefix.size()) == 1;
}

std::string TrustedProxies::TextOf(const Bytes& bytes) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  const bool is_old = std::equal(kOldPrefix.begin(), kOldPrefix.end(), bytes.begin());
  inet_ntop(is_old ? AF_INET : AF_INET6, bytes.data() + (is_old ? kOldPrefix.size() : 0), text.data(), text.size());
  return text.data();
}

TrustedProxies::Network TrustedProxies::NetworkOf(std::string_view text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string_view address = text.substr(0, slash);
  Network network = {};
  if (address.find('%') != std::string_view::npos || !Read(address, network.bytes))
    throw Error(ErrorKind::kConfig, {}, StrCat(Printable(text), " is no network"),
                "expected an address, or a network like 10.0.0.0/8 or fd00::/8");
  if (slash == text.size()) return network;
  const int most = address.find(':') == std::string_view::npos ? 32 : 128;
  int bits = -1;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data() + slash + 1, end, bits);
  if (error != std::errc() || at != end || bits < 0 || bits > most || text[slash + 1] == '-')
    throw Error(ErrorKind::kConfig, {}, StrCat(Printable(text), " is no network"),
                StrCat("expected 0 to ", most, " behind its \"/\""));
  network.bits = 128 - most + bits;
  Bytes first = network.bytes;
  for (auto bit = static_cast<size_t>(network.bits); bit < 128; ++bit)
    first[bit / 8] = static_cast<uint8_t>(first[bit / 8] & ~(0x80U >> (bit % 8)));
  if (first != network.bytes)
    throw Error(ErrorKind::kConfig, {}, StrCat(Printable(text), " is no network, but an address within one"),
                StrCat("expected ", TextOf(first), text.substr(slash), ", or the address alone"));
  return network;
}

TrustedProxies::TrustedProxies(const std::vector<std::string>& networks) {
  for (const std::string& text : networks) networks_.push_back(NetworkOf(Trim(text)));
}

bool TrustedProxies::Trusts(const Bytes& bytes) const {
  return std::ranges::any_of(networks_, [&](const Network& network) {
    const auto whole = static_cast<size_t>(network.bits / 8);
    if (!std::equal(bytes.begin(), bytes.begin() + whole, network.bytes.begin())) return false;
    const int rest = network.bits % 8;
    return rest == 0 || (bytes[whole] ^ network.bytes[whole]) >> (8 - rest) == 0;
  });
}

bool TrustedProxies::Trusts(std::string_view address) const {
  Bytes bytes = {};
  return !networks_.empty() && Read(address, bytes) && Trusts(bytes);
}

std::string TrustedProxies::ClientOf(const std::string& peer, std::string_view forwarded_for) const {
  std::string client = peer;
  bool is_proxy = Trusts(peer);
  while (is_proxy && !forwarded_for.empty()) {
    const size_t comma = forwarded_for.rfind(',');
    const std::string_view last = Trim(forwarded_for.substr(comma == std::string_view::npos ? 0 : comma + 1));
    forwarded_for = forwarded_for.substr(0, comma == std::string_view::npos ? 0 : comma);
    Bytes bytes = {};
    if (!Read(WithoutPort(last), bytes)) break;
    client = TextOf(bytes);
    is_proxy = Trusts(bytes);
  }
  return client;
}

}  // namespace moka
