// Whom a client of TLS believes, and why a server is not believed.
#pragma once

#include <openssl/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace moka {

// The authorities that a client believes; its connections may share it.
using TlsTrust = std::shared_ptr<boost::asio::ssl::context>;

// TLS 1.2 and later. `authorities`: a file in PEM with certificates of authorities, or of the server itself, in place
// of those that this machine trusts; empty: these. Errors: kNoInput; kBadData for a file without certificates.
TlsTrust TrustIn(const std::filesystem::path& authorities);

// Before the handshake: the server has to show a certificate of `host`, a name or an address.
void ExpectHost(SSL* connection, const std::string& host);

struct TlsDoubt {
  std::string text;  // "a certificate of a.test, not of b.test"
  std::string hint;
};

// Says what is wrong with a certificate that OpenSSL just found a fault in; `host` as ExpectHost had it.
TlsDoubt DoubtOf(X509_STORE_CTX* look, const std::string& host);

}  // namespace moka
