// A client of HTTPS that believes every certificate, and certificates to be believed.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "core/text.h"

namespace moka {

struct CertificateFacts {
  std::string name;        // of its subject
  std::string names = {};  // that it is for: "DNS:a.test,IP:127.0.0.1"
  int64_t begin_s = 0;     // from now
  int64_t end_s = 3600;
  bool is_authority = false;
  std::filesystem::path authority = {};  // whose ".pem" and ".key" sign it; empty: it signs itself
};

inline void AddExtension(X509* certificate, int kind, const std::string& text) {
  const std::unique_ptr<X509_EXTENSION, decltype(&X509_EXTENSION_free)> extension(
      X509V3_EXT_conf_nid(nullptr, nullptr, kind, text.c_str()), X509_EXTENSION_free);
  X509_add_ext(certificate, extension.get(), -1);
  X509_set_version(certificate, 2);
}

// Writes a key and its certificate.
inline void WriteKeys(const std::filesystem::path& certificate, const std::filesystem::path& key,
                      const CertificateFacts& facts) {
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
  using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
  const Key pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const Certificate x509(X509_new(), X509_free);
  static int64_t serial = 0;
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), facts.begin_s);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), facts.end_s);
  X509_set_pubkey(x509.get(), pair.get());
  X509_NAME* const subject = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(facts.name.c_str()),  // NOLINT(*-reinterpret-cast)
                             -1, -1, 0);
  if (!facts.names.empty()) AddExtension(x509.get(), NID_subject_alt_name, facts.names);
  if (facts.is_authority) AddExtension(x509.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (facts.authority.empty()) {
    X509_set_issuer_name(x509.get(), subject);
    X509_sign(x509.get(), pair.get(), EVP_sha256());
  } else {
    const File issuer_file(std::fopen((facts.authority.string() + ".pem").c_str(), "r"), std::fclose);
    const File issuer_key_file(std::fopen((facts.authority.string() + ".key").c_str(), "r"), std::fclose);
    const Certificate issuer(PEM_read_X509(issuer_file.get(), nullptr, nullptr, nullptr), X509_free);
    const Key issuer_key(PEM_read_PrivateKey(issuer_key_file.get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
    X509_set_issuer_name(x509.get(), X509_get_subject_name(issuer.get()));
    X509_sign(x509.get(), issuer_key.get(), EVP_sha256());
  }
  const File certificate_file(std::fopen(certificate.c_str(), "w"), std::fclose);
  PEM_write_X509(certificate_file.get(), x509.get());
  const File key_file(std::fopen(key.c_str(), "w"), std::fclose);
  PEM_write_PrivateKey(key_file.get(), pair.get(), nullptr, nullptr, 0, nullptr, nullptr);
  std::filesystem::permissions(key, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

struct TlsReply {
  std::string text;         // all that came
  std::string subject;      // of the server's certificate
  bool has_parted = false;  // the server said that this was all
};

// One request over a connection of its own. Errors: those of Asio, where the two do not understand each other.
inline TlsReply AskByTls(uint16_t port, const std::string& path, int version = 0) {
  namespace asio = boost::asio;
  asio::io_context context;
  asio::ssl::context tls(asio::ssl::context::tls_client);
  if (version != 0) SSL_CTX_set_max_proto_version(tls.native_handle(), version);
  asio::ssl::stream<asio::ip::tcp::socket> stream(context, tls);
  stream.next_layer().connect({asio::ip::address_v4::loopback(), port});
  stream.handshake(asio::ssl::stream_base::client);
  asio::write(stream, asio::buffer(StrCat("GET ", path, " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")));
  TlsReply reply;
  boost::system::error_code error;
  asio::read(stream, asio::dynamic_buffer(reply.text), error);
  reply.has_parted = error == asio::error::eof;
  const std::unique_ptr<X509, decltype(&X509_free)> shown(SSL_get1_peer_certificate(stream.native_handle()), X509_free);
  char subject[256] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(shown.get()), NID_commonName, subject, sizeof(subject));
  reply.subject = subject;
  return reply;
}

}  // namespace moka
