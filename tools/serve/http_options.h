// Settings of an HTTP server, and what it counts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/serve/http_message.h"
#include "tools/serve/proxies.h"

namespace moka {

class TlsKeys;
struct LoggedRequest;

struct HttpLimits {
  uint32_t header_bytes = 16 << 10;
  int64_t header_lines = 100;
  int64_t target_bytes = 8 << 10;
  uint64_t body_bytes = uint64_t{64} << 20;
  uint64_t bodies_bytes = uint64_t{512} << 20;  // of all requests together that are not answered yet
  int64_t chunks = 65536;
  std::chrono::seconds header_time{10};  // for all of a request's head
  std::chrono::seconds body_time{5};     // then a body has to come at least as fast as least_rate
  int64_t least_rate = 1 << 10;          // bytes a second
  std::chrono::seconds idle_time{75};    // between two requests of a connection
  std::chrono::seconds write_time{30};   // for a client that takes no bytes
  std::chrono::seconds part_time{2};     // for one that was told that the connection ends
  int64_t connection_requests = 10000;
  int64_t connections = 1024;
  int64_t peer_connections = 64;  // of one address; requests at once of a trusted proxy's client
  bool are_own_exempt = true;     // of this machine's own addresses all may come
  int64_t told = 64;              // connections beyond these that are told so; others are closed at once
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any that is free
  int threads = 1;
  HttpLimits limits = {};
  TrustedProxies proxies = {};        // all connections of theirs may come
  std::shared_ptr<TlsKeys> tls = {};  // null: without TLS
  // Looks at a request before its body is read, and may note what it finds: why it is refused, or nothing. Any of the
  // server's threads.
  std::function<std::optional<HttpAnswer>(HttpRequest& head)> gate = {};
  // Told of each request once it is answered, by any of the server's threads.
  std::function<void(const LoggedRequest& request)> log = {};
};

struct HttpCounts {
  int64_t connections = 0;           // open
  int64_t told = 0;                  // of them those that are told of the limits
  int64_t requests = 0;              // answered
  int64_t refused_connections = 0;   // beyond the limits
  int64_t requests_without_end = 0;  // whose client was gone before the answer
};

}  // namespace moka
