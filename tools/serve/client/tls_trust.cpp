// OpenSSL checks chains, dates and names; what is added here is where authorities lie and words for its findings.
#include "tools/serve/client/tls_trust.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>
#include <boost/asio/ssl/context.hpp>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
namespace ssl = boost::asio::ssl;

// Where other systems have their authorities than the one that OpenSSL was built for: a libssl that is packaged with
// Moka looks at Debian's place.
constexpr std::array kBundles = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                 "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"};

bool HasAny(const char* variable, const char* place) {
  const char* named = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  std::error_code error;
  return fs::exists(named == nullptr ? place : named, error);
}

void TrustAsSystem(ssl::context& context) {
  boost::system::error_code error;
  context.set_default_verify_paths(error);
  if (HasAny(X509_get_default_cert_file_env(), X509_get_default_cert_file()) ||
      HasAny(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()))
    return;
  for (const char* bundle : kBundles) {
    std::error_code missing;
    if (!fs::exists(bundle, missing)) continue;
    context.load_verify_file(bundle, error);
    return;
  }
}

std::string DateText(const ASN1_TIME* time) {
  tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "?";
  std::array<char, 32> text = {};
  const size_t size = std::strftime(text.data(), text.size(), "%F %T UTC", &parts);
  return {text.data(), size};
}

// The names and addresses that a certificate is for, a few of them.
std::string NamesText(const X509* certificate) {
  constexpr size_t kMost = 5;
  const std::unique_ptr<GENERAL_NAMES, decltype(&GENERAL_NAMES_free)> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  std::vector<std::string> texts;
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const auto* value =
        static_cast<const ASN1_STRING*>(GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind));
    if (kind != GEN_DNS && kind != GEN_IPADD) continue;
    const unsigned char* bytes = ASN1_STRING_get0_data(value);
    const auto size = static_cast<size_t>(ASN1_STRING_length(value));
    if (kind == GEN_DNS) {
      texts.push_back(Printable({reinterpret_cast<const char*>(bytes), size}));  // NOLINT(*-reinterpret-cast)
    } else if (size == sizeof(in_addr) || size == sizeof(in6_addr)) {
      std::array<char, INET6_ADDRSTRLEN> text = {};
      texts.emplace_back(inet_ntop(size == sizeof(in_addr) ? AF_INET : AF_INET6, bytes, text.data(), text.size()));
    }
  }
  const bool are_many = texts.size() > kMost;
  if (are_many) texts.resize(kMost);
  return Join(texts, ", ") + (are_many ? ", ..." : "");
}

// Who signed it: the name that people know the authority by.
std::string IssuerText(X509* certificate) {
  std::array<char, 256> text = {};
  X509_NAME* issuer = X509_get_issuer_name(certificate);
  const bool has_name = X509_NAME_get_text_by_NID(issuer, NID_commonName, text.data(), text.size()) > 0 ||
                        X509_NAME_get_text_by_NID(issuer, NID_organizationName, text.data(), text.size()) > 0;
  return has_name ? Printable(text.data()) : "nobody";
}

}  // namespace

TlsTrust TrustIn(const fs::path& authorities) {
  auto trust = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX* context = trust->native_handle();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  trust->set_verify_mode(ssl::verify_peer);
  // A certificate that was given is believed, whoever signed it: the server's own will do.
  X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  if (authorities.empty()) {
    TrustAsSystem(*trust);
    return trust;
  }
  (void)ReadFile(authorities);  // its errors say more than OpenSSL's
  boost::system::error_code error;
  trust->load_verify_file(authorities.string(), error);
  if (error) {
    throw Error(ErrorKind::kBadData, {.file = authorities.string()},
                StrCat("there is no certificate in PEM: ", error.message()),
                "it begins with -----BEGIN CERTIFICATE-----");
  }
  return trust;
}

void ExpectHost(SSL* connection, const std::string& host) {
  // A name stands among the certificate's names (RFC 9525), not in its subject.
  SSL_set_hostflags(connection, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(connection), host.c_str()) == 1) return;
  SSL_set1_host(connection, host.c_str());
  std::string name = host;  // SSL_set_tlsext_host_name casts as C does
  SSL_ctrl(connection, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name.data());
}

TlsDoubt DoubtOf(X509_STORE_CTX* look, const std::string& host) {
  const int error = X509_STORE_CTX_get_error(look);
  X509* certificate = X509_STORE_CTX_get_current_cert(look);
  const bool is_own = X509_STORE_CTX_get_error_depth(look) == 0;
  const std::string_view whose = is_own ? "" : "n authority's";
  constexpr auto kDates = "it has to be renewed there, or this machine's clock is wrong";
  if (certificate == nullptr) return {StrCat("no certificate: ", X509_verify_cert_error_string(error)), {}};
  switch (error) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: {
      const std::string names = NamesText(certificate);
      if (names.empty())
        return {StrCat("a certificate without a name, not one of ", Printable(host)),
                "its subjectAltName has to name the server"};
      return {StrCat("a certificate of ", names, ", not of ", Printable(host)), "ask it by a name of its certificate"};
    }
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return {StrCat("a", whose, " certificate that ended at ", DateText(X509_get0_notAfter(certificate))), kDates};
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return {StrCat("a", whose, " certificate that begins at ", DateText(X509_get0_notBefore(certificate))), kDates};
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return {StrCat("a certificate that ", IssuerText(certificate), " signed, who is not trusted here"),
              "--ca FILE takes the authority's certificate, or the server's own, in PEM"};
    default:
      return {StrCat("a", whose, " certificate that is not believed: ", X509_verify_cert_error_string(error)), {}};
  }
}

}  // namespace moka
