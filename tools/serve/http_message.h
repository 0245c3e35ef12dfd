// Requests and answers as the parts of the server see them: plain texts, without a library's types.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moka {

struct HttpRequest {
  std::string method;                                             // "POST"
  std::string path;                                               // "/v2/models/lenet/infer", as it was sent
  std::string query;                                              // behind "?"
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in small letters
  std::string body = {};                                          // with room for kBodyPadding more
  std::string peer = {};                                          // address
  // Whether the client is gone, so that no one waits for the answer; set by another thread.
  std::shared_ptr<const std::atomic<bool>> is_gone = {};

  // Empty where there is none.
  std::string_view Header(std::string_view name) const;
};

// Bytes behind a body that belong to it, which readers of JSON want (simdjson reads whole vectors).
inline constexpr size_t kBodyPadding = 64;

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// To be called once, by any thread.
using HttpRespond = std::function<void(HttpAnswer answer)>;
using HttpHandler = std::function<void(HttpRequest request, HttpRespond respond)>;

// {"error": text, "hint": hint}; the hint is left out where it is empty.
HttpAnswer HttpErrorAnswer(int status, const std::string& error, const std::string& hint = {});

}  // namespace moka
