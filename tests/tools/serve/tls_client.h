// A client of HTTPS that believes every certificate, and certificates to be believed.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

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

// Writes a key and a certificate of `name` that it signs itself.
inline void WriteKeys(const std::filesystem::path& certificate, const std::filesystem::path& key,
                      const std::string& name) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pair(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> x509(X509_new(), X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(x509.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(x509.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(x509.get()), 3600);
  X509_set_pubkey(x509.get(), pair.get());
  X509_NAME* const subject = X509_get_subject_name(x509.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()),  // NOLINT(*-reinterpret-cast)
                             -1, -1, 0);
  X509_set_issuer_name(x509.get(), subject);
  X509_sign(x509.get(), pair.get(), EVP_sha256());
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
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
