// A client's connection to a server of HTTP/1.1, through TLS or as it is, which waits for its answers, and for none of
// them for ever.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tools/serve/client/tls_trust.h"

namespace moka {

// "http://HOST:PORT/PATH" in its parts; an address of IPv6 stands in brackets there and without them here.
struct HttpPlace {
  std::string host;
  std::string port = "80";
  std::string path = "/";
  bool is_tls = false;  // "https://"; its port is 443 where none is given

  // "HOST:PORT", as an address has it.
  std::string Authority() const;
};

// Errors: kUsage for what is no address of http or https.
HttpPlace HttpPlaceOf(const std::string& url);

// Whom to believe at a place: null where no TLS is spoken. `authorities`: as TrustIn has them; empty: none were given.
// Errors: those of TrustIn; kUsage for authorities of a place that has no use for them.
TlsTrust TrustFor(const HttpPlace& place, const std::string& authorities);

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpReply {
  int status = 0;
  std::string body;
  HttpHeaders headers;  // as they came

  // Empty where there is none; `name` in letters of any size.
  std::string_view Header(std::string_view name) const;
};

struct CallLimits {
  std::chrono::milliseconds to_connect = std::chrono::seconds(10);  // with the handshake of TLS
  std::chrono::milliseconds to_answer = std::chrono::minutes(10);   // from the first byte sent to the last one read
  uint64_t body_bytes = uint64_t{1} << 30;                          // of an answer
};

// The server is not there, or went before its answer was whole: another call may find it again. kPeer.
class ServerGone : public Error {
 public:
  using Error::Error;
};

// One thread.
class HttpCaller {
 public:
  // Connects at the first call. `trust`, of a place of TLS, may be shared with others.
  explicit HttpCaller(HttpPlace place, const CallLimits& limits = {}, TlsTrust trust = {});
  HttpCaller(const HttpCaller&) = delete;
  HttpCaller& operator=(const HttpCaller&) = delete;
  ~HttpCaller();

  // Connects again where the server has closed a connection that was kept. Errors: ServerGone; kPeer for what is no
  // HTTP, is too large or takes too long, for what speaks TLS unasked or not where it is asked to, and for certificates
  // that are not believed.
  HttpReply Call(std::string_view method, const std::string& path, std::string_view body,
                 const HttpHeaders& headers = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moka
