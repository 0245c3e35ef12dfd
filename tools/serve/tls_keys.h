// The certificate and key that a server shows, read again when their files change: certificates live for weeks, servers
// for longer.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>

#include "tools/serve/client_stream.h"

namespace moka {

// Any thread.
class TlsKeys {
 public:
  // The files are PEM: the server's certificate, then those that signed it; its private key. Errors: kNoInput, kBadData
  // for what is neither or where the two do not belong together, kNotAllowed for a key that everyone may read.
  TlsKeys(std::filesystem::path certificate, std::filesystem::path key);

  // For connections from now on: TLS 1.2 and later. A changed pair that cannot be read is warned of, and the one before
  // stays.
  TlsContext Context();

 private:
  using FileTimes = std::pair<std::filesystem::file_time_type, std::filesystem::file_time_type>;

  TlsContext Read() const;
  FileTimes TimesOfFiles() const;

  std::filesystem::path certificate_;
  std::filesystem::path key_;
  std::mutex mutex_;
  std::chrono::steady_clock::time_point looked_at_;
  FileTimes times_;
  TlsContext context_;
};

}  // namespace moka
