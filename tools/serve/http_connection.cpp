// Boost.Beast's parser and Asio's sockets; what is decided here is when to give up.
#include "tools/serve/http_connection.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// A buffer begins with 512 bytes, and a large body would be read in as small pieces (boostorg/beast#1345).
constexpr size_t kBufferBytes = size_t{128} << 10;
// A refused body is read so far, so that its sender sees the answer rather than a broken connection.
constexpr uint64_t kDrainedBytes = uint64_t{64} << 10;
constexpr int64_t kLeastTaken = 64 << 10;  // bytes a second, that a client takes of its answer
constexpr size_t kMostIdBytes = 128;
// A server that ends gives so long to who has connected and not asked yet.
constexpr std::chrono::milliseconds kForFirstBytes{500};

// A name that a client gave its request, whole, where it is safe in a header and in a log; else nothing.
std::string SafeName(std::string_view text) {
  const bool is_safe =
      text.size() <= kMostIdBytes && std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
  return is_safe ? std::string(text) : std::string();
}

bool IsOfParser(const beast::error_code& error) {
  return error.category() == http::make_error_code(http::error::bad_method).category();
}

// {"error": ...} names its request, so that a client's report finds its line in the log.
void NameRequest(HttpAnswer& answer, const std::string& id) {
  const bool is_error = answer.status >= 400 && answer.body.ends_with('}') && answer.body.starts_with("{\"error\"");
  if (!is_error || id.empty()) return;
  answer.body.pop_back();
  answer.body += StrCat(R"(,"request_id":)", nlohmann::json(id).dump(), "}");
}

}  // namespace

HttpConnection::HttpConnection(ClientStream::Socket socket, TlsContext tls, std::shared_ptr<HttpState> server,
                               std::string peer)
    : stream_(std::move(socket), std::move(tls)),
      timer_(stream_.get_executor()),
      server_(std::move(server)),
      peer_(std::move(peer)),
      buffer_(2 * kBufferBytes) {  // a chunk's head is kept in it, too
  buffer_.reserve(kBufferBytes);
}

void HttpConnection::Start() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] {
    if (!self->stream_.is_tls()) return self->WaitForRequest();
    self->SetDeadline(self->limits().header_time);
    self->stream_.AsyncLook([self](auto error) {
      if (error) return self->Close();
      self->Greet();
    });
  });
}

// Who asks without TLS is told so, in the only words that it understands.
void HttpConnection::Greet() {
  if (stream_.BeginsWithLetter()) {
    stream_.LeaveTls();
    Begin();
    HttpAnswer answer = HttpErrorAnswer(426, "this port speaks TLS", "its address begins with https://");
    answer.headers.emplace_back("Upgrade", "TLS/1.2, HTTP/1.1");
    return Refuse(std::move(answer));
  }
  stream_.AsyncGreet([self = shared_from_this()](auto error) {
    if (error) return self->Close();
    self->WaitForRequest();
  });
}

void HttpConnection::StartRefused(HttpAnswer answer) {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this(), answer = std::move(answer)] {
    self->is_refused_ = true;
    self->Begin();
    self->Refuse(answer);
  });
}

void HttpConnection::CloseIfIdle() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    beast::error_code failed;
    if (self->is_idle_ && self->stream_.socket().available(failed) == 0) {
      if (!self->IsNew()) {
        self->Close();
      } else if (!self->is_closed_) {
        self->Owe();
        self->SetDeadline(self->opened_ + kForFirstBytes);
      }
    }
    self->server_->Settle();
  });
}

bool HttpConnection::IsNew() const { return requests_ == 0 && Clock::now() < opened_ + kForFirstBytes; }

void HttpConnection::Owe() {
  if (std::exchange(is_unanswered_, true)) return;
  const std::lock_guard lock(server_->mutex);
  ++server_->unanswered;
}

// A tcp_stream's own deadline closes the socket, so that the client would not be told.
void HttpConnection::SetDeadline(Clock::time_point when) {
  is_late_ = false;
  timer_.expires_at(when);
  timer_.async_wait([self = shared_from_this()](auto error) {
    if (error || self->timer_.expiry() > Clock::now()) return;
    self->is_late_ = true;
    beast::error_code ignored;
    self->stream_.socket().cancel(ignored);
  });
}

void HttpConnection::WaitForRequest() {
  if (buffer_.size() > 0) return ReadHead();  // another came behind the last
  is_idle_ = true;
  const bool is_ending = server_->is_draining;
  if (is_ending && !IsNew()) return Close();
  SetDeadline(is_ending ? opened_ + kForFirstBytes : Clock::now() + limits().idle_time);
  stream_.async_read_some(buffer_.prepare(kBufferBytes), [self = shared_from_this()](auto error, size_t bytes) {
    if (error || self->is_closed_) return self->Close();
    self->buffer_.commit(bytes);
    self->ReadHead();
  });
}

// From its first byte to its answer's last a request is to be answered.
void HttpConnection::Begin() {
  is_idle_ = false;
  begun_ = Clock::now();
  logged_ = {.peer = peer_};
  request_ = {};
  request_.peer = peer_;
  request_.id = StrCat(server_->id_prefix, static_cast<int64_t>(server_->next_id++));
  Owe();
}

void HttpConnection::End() {
  server_->bodies_bytes -= std::exchange(body_bytes_, 0);
  if (!std::exchange(is_unanswered_, false)) return;
  {
    const std::lock_guard lock(server_->mutex);
    --server_->unanswered;
    const std::string client = std::exchange(counted_client_, {});
    if (!client.empty() && --server_->clients[client] == 0) server_->clients.erase(client);
  }
  server_->answered.notify_all();
}

void HttpConnection::ReadHead() {
  Begin();
  chunks_ = 0;
  parser_.emplace();
  parser_->header_limit(limits().header_bytes);
  parser_->body_limit(limits().body_bytes);
  SetDeadline(limits().header_time);
  http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](auto error, size_t) {
    if (error) return self->RefuseHead(error);
    self->TakeHead();
  });
}

void HttpConnection::RefuseHead(const ErrorCode& error) {
  if (error == http::error::end_of_stream || error == beast::errc::connection_reset) return Close();
  if (is_late_) return Refuse(408, "the request's head did not come in time");
  if (error == http::error::header_limit)
    return Refuse(431, StrCat("the request's head has more than ", limits().header_bytes, " bytes"));
  if (error == http::error::body_limit) return RefuseLarge();
  if (IsOfParser(error)) return Refuse(400, StrCat("this is no request of HTTP/1.1: ", error.message()));
  Close();
}

// The head as the handler sees it, whether a body follows or not.
void HttpConnection::TakeFields() {
  const auto& head = parser_->get();
  fields_ = std::distance(head.begin(), head.end());
  version_ = head.version();
  is_head_ = head.method() == http::verb::head;
  request_.method = std::string(head.method_string());
  const std::string target(head.target());
  request_.path = target.substr(0, target.find('?'));
  request_.headers.clear();
  for (const auto& field : head)
    request_.headers.emplace_back(AsciiLower(std::string(field.name_string())), std::string(field.value()));
  const std::string named = SafeName(request_.Header("x-request-id"));
  if (!named.empty()) request_.id = named;
  logged_.trace = SafeName(request_.Header("traceparent"));
  logged_.method = request_.method;
  logged_.path = request_.path;
  TakeClient();
}

// Proxies of the way add to the header, or to another of its name.
void HttpConnection::TakeClient() {
  if (!server_->options.proxies.Trusts(peer_)) return;
  std::string forwarded;
  for (const auto& [name, value] : request_.headers) {
    if (name == "x-forwarded-for") forwarded += StrCat(forwarded.empty() ? "" : ",", value);
  }
  request_.peer = server_->options.proxies.ClientOf(peer_, forwarded);
  logged_.peer = request_.peer;
  if (request_.peer != peer_) logged_.proxy = peer_;
}

bool HttpConnection::CountsClient() {
  if (request_.peer == peer_) return true;
  ErrorCode failed;
  const auto address = asio::ip::make_address(request_.peer, failed);
  if (limits().are_own_exempt && !failed && address.is_loopback()) return true;
  const std::lock_guard lock(server_->mutex);
  const auto known = server_->clients.find(request_.peer);
  if (known != server_->clients.end() && known->second >= limits().peer_connections) return false;
  ++server_->clients[request_.peer];
  counted_client_ = request_.peer;
  return true;
}

void HttpConnection::TakeHead() {
  TakeFields();
  const auto& head = parser_->get();
  if (std::ssize(head.target()) > limits().target_bytes)
    return Refuse(414, StrCat("the path has more than ", limits().target_bytes, " bytes"));
  if (fields_ > limits().header_lines)
    return Refuse(431, StrCat("the request has more than ", limits().header_lines, " headers"));
  if (parser_->content_length().value_or(0) > limits().body_bytes) return RefuseLarge();
  // Who is in front may read these otherwise, and see other requests (RFC 9112, 3.2 and 6.1).
  const size_t hosts = head.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && version_ >= 11))
    return Refuse(400, "a request names its host once (the header Host)");
  const std::string_view target(head.target().data(), head.target().size());
  if (request_.path.size() + 1 < target.size()) {
    const std::string_view found = target.substr(request_.path.size(), 80);
    return Refuse(400, StrCat("an address takes no parameters here, found \"", Printable(found),
                              "\": what an answer follows stands in the body"));
  }
  if (version_ < 11 && head.count(http::field::transfer_encoding) > 0)
    return Refuse(400, "HTTP/1.0 has no Transfer-Encoding");
  if (!CountsClient()) {
    return Refuse(HttpBusyAnswer(
        429, StrCat("this client has ", limits().peer_connections, " requests at once, the most there may be")));
  }
  const auto expect = head[http::field::expect];
  if (!expect.empty() && !beast::iequals(expect, "100-continue")) return Refuse(417, "Expect knows 100-continue alone");
  // Who may not ask, or asks what there is not, is told before the body, unless it is a small one: behind that the
  // connection goes on.
  const bool is_small = expect.empty() && parser_->content_length().value_or(kDrainedBytes + 1) <= kDrainedBytes;
  if (!parser_->is_done() && !is_small && server_->options.gate) {
    std::optional<HttpAnswer> refusal = server_->options.gate(request_);
    if (refusal) return Refuse(std::move(*refusal));
  }
  // An announced length is believed as far as it came: the rest of the body grows.
  const uint64_t ahead = std::min<uint64_t>(parser_->content_length().value_or(0), uint64_t{4} << 20);
  parser_->get().body().reserve(static_cast<size_t>(ahead) + kBodyPadding);
  body_since_ = Clock::now();
  on_chunk_ = [this](uint64_t, beast::string_view, beast::error_code& error) {
    if (++chunks_ > limits().chunks) error = http::error::bad_chunk;
  };
  parser_->on_chunk_header(on_chunk_);
  if (!expect.empty() && !parser_->is_done()) return Continue();
  ReadBody();
}

void HttpConnection::Continue() {
  continue_.emplace(http::status::continue_, 11);
  SetDeadline(limits().write_time);
  http::async_write(stream_, *continue_, [self = shared_from_this()](auto error, size_t) {
    if (error) return self->Close();
    self->body_since_ = Clock::now();
    self->ReadBody();
  });
}

bool HttpConnection::TakesBytes(uint64_t bytes) {
  body_bytes_ += bytes;
  return (server_->bodies_bytes += bytes) <= limits().bodies_bytes;
}

void HttpConnection::ReadBody() {
  if (parser_->is_done()) return HandOn();
  const auto allowed =
      limits().body_time + std::chrono::seconds(static_cast<int64_t>(body_bytes_) / limits().least_rate);
  // Fast at first does not allow to stand still later.
  SetDeadline(std::min(body_since_ + allowed, Clock::now() + 2 * limits().body_time));
  http::async_read_some(stream_, buffer_, *parser_, [self = shared_from_this()](auto error, size_t bytes) {
    if (error) return self->RefuseBody(error);
    if (!self->TakesBytes(bytes)) {
      return self->Refuse(HttpBusyAnswer(503, "the requests that are being answered have as many bytes as may be",
                                         StrCat("in all ", self->limits().bodies_bytes)));
    }
    self->ReadBody();
  });
}

void HttpConnection::RefuseBody(const ErrorCode& error) {
  if (is_late_) return Refuse(408, StrCat("the body came slower than ", limits().least_rate, " bytes a second"));
  if (error == http::error::body_limit || error == http::error::buffer_overflow) return RefuseLarge();
  if (IsOfParser(error) && error != http::error::partial_message && error != http::error::end_of_stream) {
    return Refuse(400, chunks_ > limits().chunks ? StrCat("the body has more than ", limits().chunks, " chunks")
                                                 : StrCat("the body's parts are broken: ", error.message()));
  }
  Close();
}

void HttpConnection::RefuseLarge() { Refuse(413, StrCat("the body has more than ", limits().body_bytes, " bytes")); }

void HttpConnection::Refuse(HttpAnswer answer) {
  closes_ = true;
  version_ = 11;
  Write(std::move(answer));
}

void HttpConnection::HandOn() {
  auto message = parser_->release();
  parser_.reset();
  closes_ = !message.keep_alive() || ++requests_ >= limits().connection_requests;
  // Trailers would join the headers, which were looked at already.
  if (std::distance(message.begin(), message.end()) != fields_)
    return Write(HttpErrorAnswer(400, "headers behind the body are not taken"));
  logged_.bytes_in = std::ssize(message.body());
  request_.body = std::move(message.body());
  is_gone_ = std::make_shared<std::atomic<bool>>(false);
  request_.is_gone = is_gone_;
  timer_.cancel();
  Watch();
  const HttpRespond respond([weak = weak_from_this()](HttpMakeAnswer make) {
    const std::shared_ptr<HttpConnection> self = weak.lock();
    if (!self) return;
    asio::post(self->stream_.get_executor(), [self, make = std::move(make)] { self->Make(make); });
  });
  HttpRequest request = std::move(request_);
  request_.id = request.id;
  try {
    server_->handler(std::move(request), respond);
  } catch (const std::exception& error) {
    LogWarning(StrCat("a request failed: ", error.what()));
    respond(HttpErrorAnswer(500, "the server failed at this request; its log says why"));
  }
}

// Looks whether the client leaves while its answer is made. What it sends meanwhile is its next request.
void HttpConnection::Watch() {
  stream_.socket().async_wait(ClientStream::Socket::wait_read,
                              [self = shared_from_this(), gone = is_gone_](auto error) {
                                if (error || !gone || gone != self->is_gone_) return;
                                if (self->stream_.HasLeft()) *gone = true;
                              });
}

void HttpConnection::Make(const HttpMakeAnswer& make) {
  HttpAnswer answer;
  try {
    answer = make();
  } catch (const std::exception& error) {
    LogWarning(StrCat("an answer failed: ", error.what()));
    answer = HttpErrorAnswer(500, "the server failed at this answer; its log says why");
  }
  Write(std::move(answer));
}

void HttpConnection::Write(HttpAnswer answer) {
  is_gone_.reset();
  beast::error_code ignored;
  stream_.socket().cancel(ignored);  // the watch
  if (server_->is_draining) closes_ = true;
  NameRequest(answer, request_.id);
  answer_.emplace(static_cast<http::status>(answer.status), version_);
  answer_->set(http::field::server, "moka");
  answer_->set(http::field::content_type, answer.type);
  answer_->set(http::field::cache_control, "no-store");
  answer_->set("X-Content-Type-Options", "nosniff");
  answer_->set("X-Request-Id", request_.id);
  if (!logged_.trace.empty()) answer_->set("traceparent", logged_.trace);
  for (const auto& [name, value] : answer.headers) answer_->set(name, value);
  answer_->keep_alive(!closes_);
  answer_->body() = std::move(answer.body);
  answer_->prepare_payload();
  const std::chrono::seconds for_bytes(std::ssize(answer_->body()) / kLeastTaken);
  if (is_head_) answer_->body().clear();  // its length stays
  logged_.status = answer.status;
  logged_.bytes_out = std::ssize(answer_->body());
  logged_.facts = std::move(answer.facts);
  SetDeadline(limits().write_time + for_bytes);
  http::async_write(stream_, *answer_, [self = shared_from_this()](auto error, size_t) { self->Written(error); });
}

void HttpConnection::Log(const ErrorCode& error) {
  if (!server_->options.log) return;
  logged_.id = request_.id;
  if (error) logged_.status = 0;
  logged_.ms = std::chrono::duration<double, std::milli>(Clock::now() - begun_).count();
  server_->options.log(logged_);
}

void HttpConnection::Written(const ErrorCode& error) {
  {
    const std::lock_guard lock(server_->mutex);
    ++server_->counts.requests;
    if (error) ++server_->counts.requests_without_end;
  }
  Log(error);
  End();
  is_head_ = false;
  if (error) return Close();
  if (!closes_) return WaitForRequest();
  Part();
}

// Reads on for a while: to close over unread bytes would take the answer away from who still sends.
void HttpConnection::Part() {
  SetDeadline(limits().part_time);
  if (stream_.is_tls()) return stream_.AsyncPart([self = shared_from_this()](auto) { self->Close(); });
  beast::error_code ignored;
  stream_.socket().shutdown(ClientStream::Socket::shutdown_send, ignored);
  if (server_->is_draining && stream_.socket().available(ignored) == 0) return Close();
  buffer_.clear();
  Drain();
}

void HttpConnection::Drain() {
  if (drained_ > kDrainedBytes) return Close();
  stream_.async_read_some(buffer_.prepare(kBufferBytes), [self = shared_from_this()](auto error, size_t bytes) {
    if (error) return self->Close();
    self->drained_ += bytes;
    self->Drain();
  });
}

void HttpConnection::Close() {
  if (is_closed_) return;
  is_closed_ = true;
  End();
  beast::error_code ignored;
  timer_.cancel();
  stream_.socket().shutdown(ClientStream::Socket::shutdown_both, ignored);
  stream_.socket().close(ignored);
  {
    const std::lock_guard lock(server_->mutex);
    server_->open.erase(this);  // whoever called holds it, too
    --server_->counts.connections;
    server_->counts.told -= is_refused_ ? 1 : 0;
    if (--server_->peers[peer_] == 0) server_->peers.erase(peer_);
  }
  server_->answered.notify_all();
}

}  // namespace moka
