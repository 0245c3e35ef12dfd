// The server's log of requests: a line of JSON each.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

#include "tools/serve/http_message.h"

namespace moka {

struct LoggedRequest {
  std::string id = {};
  std::string trace = {};  // W3C's traceparent; empty where none came
  std::string peer = {};
  std::string proxy = {};  // that asked for the peer; empty: it asked itself
  std::string method = {};
  std::string path = {};
  int status = 0;  // 0: the client had left
  int64_t bytes_in = 0;
  int64_t bytes_out = 0;
  double ms = 0;  // from its first byte to its answer's last
  ServedFacts facts = {};
};

// Any thread.
class RequestLog {
 public:
  // Appends to the file, and makes it anew where it was moved away (logrotate). Errors:
  // kCantCreate.
  explicit RequestLog(std::filesystem::path file);
  RequestLog(const RequestLog&) = delete;
  RequestLog& operator=(const RequestLog&) = delete;
  ~RequestLog();

  // A line that cannot be written, on a full disk say, is warned of once.
  void Write(const LoggedRequest& request);

 private:
  void Open();
  // Opens it anew where the name means another file by now.
  void FollowName();

  std::filesystem::path file_;
  std::mutex mutex_;
  int descriptor_ = -1;
  std::chrono::steady_clock::time_point looked_at_;
  bool has_warned_ = false;
};

}  // namespace moka
