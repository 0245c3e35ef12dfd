// One client of the server: reads a request, hands it on, and looks at nothing but whether its client has left until
// the answer is written.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tools/serve/client_stream.h"
#include "tools/serve/http_state.h"
#include "tools/serve/request_log.h"

namespace moka {

// Its handlers run one at a time (a strand), so that its members need no lock.
class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  HttpConnection(ClientStream::Socket socket, TlsContext tls, std::shared_ptr<HttpState> server, std::string peer);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;
  ~HttpConnection() = default;

  void Start();
  // Answers at once, without a look at what is asked, and closes.
  void StartRefused(HttpAnswer answer);
  // Closes where no request is under way or to be expected, and settles what the server owed for this look.
  void CloseIfIdle();
  // From now on the server ends only when a request was answered here or the connection is closed. Requires: it has not
  // started, or is in its strand.
  void Owe();

 private:
  using Clock = std::chrono::steady_clock;
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::beast::error_code;

  const HttpLimits& limits() const { return server_->options.limits; }
  // Ends the stream's next step where it takes longer.
  void SetDeadline(Clock::time_point when);
  void SetDeadline(std::chrono::seconds from_now) { SetDeadline(Clock::now() + from_now); }

  // Whether its client has just connected and may be about to ask.
  bool IsNew() const;

  // The steps of a request, in their order; Greet before the first of a connection of TLS.
  void Greet();
  void WaitForRequest();
  void Begin();
  void ReadHead();
  void RefuseHead(const ErrorCode& error);
  void TakeHead();
  void TakeFields();
  void TakeClient();
  void Continue();
  void ReadBody();
  void RefuseBody(const ErrorCode& error);
  void RefuseLarge();
  void HandOn();
  void Watch();
  void Make(const HttpMakeAnswer& make);
  void Write(HttpAnswer answer);
  void Written(const ErrorCode& error);
  void Part();
  void Drain();
  void Close();

  // Answers without having read the request, after which nothing that follows can be told apart from its body.
  void Refuse(HttpAnswer answer);
  void Refuse(int status, const std::string& error) { Refuse(HttpErrorAnswer(status, error)); }
  // Counts the request of a trusted proxy's client. Returns whether there may be one more.
  bool CountsClient();
  // Takes so many bytes more of what all bodies may have. Returns whether there were so many left.
  bool TakesBytes(uint64_t bytes);
  void Log(const ErrorCode& error);
  void End();

  ClientStream stream_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<HttpState> server_;
  std::string peer_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::function<void(uint64_t, boost::beast::string_view, ErrorCode&)> on_chunk_;
  std::optional<boost::beast::http::response<boost::beast::http::empty_body>> continue_;
  std::optional<boost::beast::http::response<boost::beast::http::string_body>> answer_;
  HttpRequest request_;
  std::string counted_client_;  // of a trusted proxy; empty: none is counted
  std::shared_ptr<std::atomic<bool>> is_gone_;
  LoggedRequest logged_;
  Clock::time_point opened_ = Clock::now();
  Clock::time_point begun_;
  Clock::time_point body_since_;
  uint64_t body_bytes_ = 0;
  int64_t chunks_ = 0;
  int64_t requests_ = 0;
  uint64_t drained_ = 0;
  std::ptrdiff_t fields_ = 0;
  unsigned version_ = 11;
  bool closes_ = false;
  bool is_head_ = false;
  bool is_idle_ = true;
  bool is_late_ = false;
  bool is_closed_ = false;
  bool is_unanswered_ = false;
  bool is_refused_ = false;  // one beyond the limits
};

}  // namespace moka
