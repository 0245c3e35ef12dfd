// An HTTP/1.1 server that holds against slow, large and broken requests. Limits are on from the start.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "tools/serve/http_message.h"

namespace moka {

struct HttpLimits {
  uint32_t header_bytes = 16 << 10;
  int64_t header_lines = 100;
  int64_t target_bytes = 8 << 10;
  uint64_t body_bytes = uint64_t{64} << 20;
  int64_t chunks = 65536;
  std::chrono::seconds header_time{10};  // for all of a request's head
  std::chrono::seconds body_time{5};     // then a body has to come at least as fast as least_rate
  int64_t least_rate = 1 << 10;          // bytes a second
  std::chrono::seconds idle_time{75};    // between two requests of a connection
  std::chrono::seconds write_time{30};   // for a client that takes no bytes
  int64_t connection_requests = 10000;
  int64_t connections = 1024;
  int64_t peer_connections = 64;  // of one address; of this machine's own all may come
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8000;  // 0: any that is free
  int threads = 1;
  HttpLimits limits = {};
};

struct HttpCounts {
  int64_t connections = 0;           // open
  int64_t requests = 0;              // answered
  int64_t refused_connections = 0;   // beyond the limits
  int64_t requests_without_end = 0;  // whose client was gone before the answer
};

// Requests of one connection are answered one after another, in order.
class HttpServer {
 public:
  // Listens at once. `handler` is called by the server's threads; what it throws is answered as an internal error.
  // Errors: kCantCreate for a port that is taken, kUsage for an address that this machine has not.
  HttpServer(const HttpServerOptions& options, HttpHandler handler);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  // Ends connections without an answer. Requires: no handler will answer any more.
  ~HttpServer();

  uint16_t port() const;
  HttpCounts counts() const;
  // Accepts no connection any more and closes each that waits for a request, the others behind their answer.
  void StopAccepting();
  // Waits until no request is unanswered, at most so long. Returns how many are.
  int64_t WaitForAnswers(std::chrono::milliseconds most) const;
  // Waits, a few seconds at most, for the clients that were sending on when they were answered: a process that ends over
  // unread bytes takes the answer away from them.
  void WaitForClients() const;

 private:
  class Connection;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace moka
