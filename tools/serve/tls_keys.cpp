// OpenSSL behind Asio's context; its choice of ciphers for TLS 1.2 and later is good as it is.
#include "tools/serve/tls_keys.h"

#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
namespace ssl = boost::asio::ssl;

constexpr std::chrono::seconds kBetweenLooks{1};

// Errors: kNoInput; kNotAllowed where others than its owner and group may read it.
void CheckFile(const fs::path& file, bool is_secret) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error || !fs::is_regular_file(status))
    throw Error(ErrorKind::kNoInput, {.file = file.string()},
                is_secret ? "there is no such key" : "there is no such certificate");
  if (is_secret && (status.permissions() & fs::perms::others_read) != fs::perms::none)
    throw Error(ErrorKind::kNotAllowed, {.file = file.string()}, "everyone on this machine may read the key",
                "chmod 600");
}

}  // namespace

TlsKeys::TlsKeys(fs::path certificate, fs::path key)
    : certificate_(std::move(certificate)),
      key_(std::move(key)),
      looked_at_(std::chrono::steady_clock::now()),
      times_(TimesOfFiles()),
      context_(Read()) {}

TlsKeys::FileTimes TlsKeys::TimesOfFiles() const {
  std::error_code ignored;
  return {fs::last_write_time(certificate_, ignored), fs::last_write_time(key_, ignored)};
}

TlsContext TlsKeys::Read() const {
  CheckFile(certificate_, false);
  CheckFile(key_, true);
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  context->set_options(ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | ssl::context::no_compression);
  // A key with a password would have OpenSSL ask at the terminal.
  context->set_password_callback([](size_t, auto) { return std::string(); });
  boost::system::error_code error;
  context->use_certificate_chain_file(certificate_.string(), error);
  if (error)
    throw Error(ErrorKind::kBadData, {.file = certificate_.string()},
                StrCat("no certificate in PEM: ", error.message()));
  context->use_private_key_file(key_.string(), ssl::context::pem, error);
  if (error) {
    throw Error(ErrorKind::kBadData, {.file = key_.string()},
                StrCat("no key in PEM, without a password, of ", certificate_.string(), ": ", error.message()));
  }
  return context;
}

TlsContext TlsKeys::Context() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kBetweenLooks) return context_;
  looked_at_ = now;
  const FileTimes times = TimesOfFiles();
  if (times == times_) return context_;
  times_ = times;
  try {
    context_ = Read();
    LogInfo(StrCat(certificate_.string(), " was read again"));
  } catch (const Error& error) {
    LogWarning(StrCat("the certificate of before stays: ", error.what()));
  }
  return context_;
}

}  // namespace moka
