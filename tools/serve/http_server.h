// An HTTP/1.1 server that holds against slow, large and broken requests. Limits are on from the start.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "tools/serve/http_message.h"
#include "tools/serve/http_options.h"

namespace moka {

struct HttpState;

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
  // Accepts no connection any more and closes each that waits for a request, the others behind their answer. One that
  // was made just now has a moment for its first.
  void StopAccepting();
  // Waits until no request is unanswered, at most so long. Returns how many are.
  int64_t WaitForAnswers(std::chrono::milliseconds most) const;
  // Waits, a few seconds at most, for the clients that were sending on when they were answered: a process that ends
  // over unread bytes takes the answer away from them.
  void WaitForClients() const;

 private:
  std::shared_ptr<HttpState> state_;
};

}  // namespace moka
