// Requests and answers as the parts of the server see them: plain texts, without a library's types.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/serve/served_times.h"
#include "tools/serve/tokens.h"

namespace moka {

struct HttpRequest {
  std::string method;                                             // "POST"
  std::string path;                                               // "/v2/models/lenet/infer", as it was sent
  std::vector<std::pair<std::string, std::string>> headers = {};  // names in small letters
  std::string body = {};                                          // with room for kBodyPadding more
  std::string peer = {};                                          // address; behind a trusted proxy its client's
  std::string id = {};                                            // X-Request-Id, or one that the server made
  std::optional<TokenOwner> owner = {};                           // of its token; nothing: nobody has looked yet
  // Whether the client is gone, so that no one waits for the answer; set by another thread.
  std::shared_ptr<const std::atomic<bool>> is_gone = {};

  // Empty where there is none.
  std::string_view Header(std::string_view name) const;
};

// Bytes behind a body that belong to it, which readers of JSON want (simdjson reads whole vectors).
inline constexpr size_t kBodyPadding = 64;

// For the server's log.
struct ServedFacts {
  std::string user = {};  // of its token
  std::string model = {};
  std::string version = {};
  ServedTimes times = {};
};

struct HttpAnswer {
  int status = 200;
  std::string body = {};
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};
  ServedFacts facts = {};
};

// Makes an answer; what it throws is answered as an internal error.
using HttpMakeAnswer = std::function<HttpAnswer()>;

// Answers a request, once, from any thread.
class HttpRespond {
 public:
  HttpRespond() = default;
  explicit HttpRespond(std::function<void(HttpMakeAnswer make)> take) : take_(std::move(take)) {}

  void operator()(HttpAnswer answer) const {
    take_([answer = std::make_shared<HttpAnswer>(std::move(answer))] { return std::move(*answer); });
  }
  // The answer is made by a thread of the connections, which the caller does not wait for.
  void Later(HttpMakeAnswer make) const { take_(std::move(make)); }

 private:
  std::function<void(HttpMakeAnswer make)> take_;
};

using HttpHandler = std::function<void(HttpRequest request, HttpRespond respond)>;

// {"error": text, "hint": hint}; the hint is left out where it is empty.
// The word of a header Accept on a media type, in small letters: by the entry that names it most nearly, 0 where none
// does (RFC 9110, section 12.5.1).
struct AcceptedMedia {
  double quality = 0;
  bool is_named = false;  // itself or its kind ("image/*"), not by */* alone
};
AcceptedMedia AcceptedOf(std::string_view accept, std::string_view media);

HttpAnswer HttpErrorAnswer(int status, const std::string& error, const std::string& hint = {});
// Likewise, with when to come again.
HttpAnswer HttpBusyAnswer(int status, const std::string& error, const std::string& hint = {}, int64_t seconds = 1);

}  // namespace moka
