// The server is Boost.Beast's parser and Asio's sockets; what is decided here is when to give up. A connection reads a
// request, hands it on, and looks at nothing but whether its client has left until the answer is written.
#include "tools/serve/http_server.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/team.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

// A buffer begins with 512 bytes, and a large body would be read in as small pieces (boostorg/beast#1345).
constexpr size_t kBufferBytes = size_t{128} << 10;
// A refused body is read so far, so that its sender sees the answer rather than a broken connection.
constexpr uint64_t kDrainedBytes = uint64_t{64} << 10;
constexpr std::chrono::seconds kDrainTime{2};

}  // namespace

struct HttpServer::State {
  State(const HttpServerOptions& given, HttpHandler handle)
      : options(given),
        handler(std::move(handle)),
        context(std::make_unique<asio::io_context>(given.threads)),
        has_work(context->get_executor()),
        acceptor(std::make_unique<Tcp::acceptor>(asio::make_strand(*context))) {}

  HttpServerOptions options;
  HttpHandler handler;
  // Both end before the state does: what waits in the context holds connections, which hold the state.
  std::unique_ptr<asio::io_context> context;
  // Without it the threads would leave where nothing is accepted any more and the connections wait for the nets alone.
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> has_work;
  std::unique_ptr<Tcp::acceptor> acceptor;
  std::vector<std::thread> threads;

  mutable std::mutex mutex;
  mutable std::condition_variable answered;
  std::map<Connection*, std::shared_ptr<Connection>> open;
  std::map<std::string, int64_t> peers;
  HttpCounts counts;
  int64_t unanswered = 0;
  std::atomic<bool> is_draining = false;

  void Accept(const std::shared_ptr<State>& self);
};

namespace {

// An exception of a connection's work, where memory is short, ends no other's.
void RunContext(asio::io_context& context) {
  LeaveTeamCpus();
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception& error) {
      LogWarning(StrCat("a connection failed: ", error.what()));
    }
  }
}

}  // namespace

// One client. Its handlers run one at a time (a strand), so that its members need no lock.
class HttpServer::Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Tcp::socket socket, std::shared_ptr<HttpServer::State> server, std::string peer)
      : socket_(std::move(socket)), timer_(socket_.get_executor()), server_(std::move(server)), peer_(std::move(peer)) {
    buffer_.reserve(kBufferBytes);
  }

  void Start() {
    asio::dispatch(socket_.get_executor(), [self = shared_from_this()] { self->WaitForRequest(); });
  }

  // Closes where no request is under way.
  void CloseIfIdle() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      beast::error_code failed;
      if (self->is_idle_ && self->socket_.available(failed) == 0) self->Close();
    });
  }

 private:
  const HttpLimits& limits() const { return server_->options.limits; }

  // Ends what the socket does next where it takes longer. (A tcp_stream's own deadline closes the socket, so that the
  // client would not be told.)
  void SetDeadline(Clock::time_point when) {
    is_late_ = false;
    timer_.expires_at(when);
    timer_.async_wait([self = shared_from_this()](auto error) {
      if (error || self->timer_.expiry() > Clock::now()) return;
      self->is_late_ = true;
      beast::error_code ignored;
      self->socket_.cancel(ignored);
    });
  }
  void SetDeadline(std::chrono::seconds from_now) { SetDeadline(Clock::now() + from_now); }

  void WaitForRequest() {
    if (buffer_.size() > 0) return ReadHead();  // another came behind the last
    is_idle_ = true;
    if (server_->is_draining) return Close();
    SetDeadline(limits().idle_time);
    socket_.async_read_some(buffer_.prepare(kBufferBytes), [self = shared_from_this()](auto error, size_t bytes) {
      if (error || self->is_closed_) return self->Close();
      self->buffer_.commit(bytes);
      self->ReadHead();
    });
  }

  // From its first byte to its answer's last a request is to be answered.
  void Begin() {
    if (std::exchange(is_unanswered_, true)) return;
    const std::lock_guard lock(server_->mutex);
    ++server_->unanswered;
  }
  void End() {
    if (!std::exchange(is_unanswered_, false)) return;
    {
      const std::lock_guard lock(server_->mutex);
      --server_->unanswered;
    }
    server_->answered.notify_all();
  }

  void ReadHead() {
    is_idle_ = false;
    Begin();
    chunks_ = 0;
    parser_.emplace();
    parser_->header_limit(limits().header_bytes);
    parser_->body_limit(limits().body_bytes);
    SetDeadline(limits().header_time);
    http::async_read_header(socket_, buffer_, *parser_, [self = shared_from_this()](auto error, size_t) {
      if (error) return self->RefuseHead(error);
      self->TakeHead();
    });
  }

  void RefuseHead(const beast::error_code& error) {
    if (error == http::error::end_of_stream || error == beast::errc::connection_reset) return Close();
    if (is_late_) return Refuse(408, "the request's head did not come in time");
    if (error == http::error::header_limit) {
      return Refuse(431, StrCat("the request's head has more than ", limits().header_bytes, " bytes"));
    }
    if (error == http::error::body_limit) return RefuseLarge();
    if (error.category() == http::make_error_code(http::error::bad_method).category())
      return Refuse(400, StrCat("this is no request of HTTP/1.1: ", error.message()));
    Close();
  }

  void TakeHead() {
    const auto& head = parser_->get();
    fields_ = std::distance(head.begin(), head.end());
    const auto target = std::string_view(head.target().data(), head.target().size());
    if (std::ssize(target) > limits().target_bytes)
      return Refuse(414, StrCat("the path has more than ", limits().target_bytes, " bytes"));
    if (fields_ > limits().header_lines)
      return Refuse(431, StrCat("the request has more than ", limits().header_lines, " headers"));
    if (parser_->content_length().value_or(0) > limits().body_bytes) return RefuseLarge();
    // An announced length is believed as far as it came: the rest of the body grows.
    const uint64_t ahead = std::min<uint64_t>(parser_->content_length().value_or(0), uint64_t{4} << 20);
    parser_->get().body().reserve(static_cast<size_t>(ahead) + kBodyPadding);
    body_since_ = Clock::now();
    body_bytes_ = 0;
    on_chunk_ = [this](uint64_t, beast::string_view, beast::error_code& error) {
      if (++chunks_ > limits().chunks) error = http::error::bad_chunk;
    };
    parser_->on_chunk_header(on_chunk_);
    const auto expect = head[http::field::expect];
    if (!expect.empty() && !beast::iequals(expect, "100-continue"))
      return Refuse(417, "Expect knows 100-continue alone");
    if (!expect.empty() && !parser_->is_done()) return Continue();
    ReadBody();
  }

  void Continue() {
    continue_.emplace(http::status::continue_, 11);
    SetDeadline(limits().write_time);
    http::async_write(socket_, *continue_, [self = shared_from_this()](auto error, size_t) {
      if (error) return self->Close();
      self->body_since_ = Clock::now();
      self->ReadBody();
    });
  }

  void ReadBody() {
    if (parser_->is_done()) return HandOn();
    const auto allowed = limits().body_time + std::chrono::seconds(body_bytes_ / limits().least_rate);
    // Fast at first does not allow to stand still later.
    SetDeadline(std::min(body_since_ + allowed, Clock::now() + 2 * limits().body_time));
    http::async_read_some(socket_, buffer_, *parser_, [self = shared_from_this()](auto error, size_t bytes) {
      if (error) return self->RefuseBody(error);
      self->body_bytes_ += static_cast<int64_t>(bytes);
      self->ReadBody();
    });
  }

  void RefuseBody(const beast::error_code& error) {
    if (is_late_) {
      return Refuse(408, StrCat("the body came slower than ", limits().least_rate, " bytes a second"));
    }
    if (error == http::error::body_limit || error == http::error::buffer_overflow) return RefuseLarge();
    if (error.category() == http::make_error_code(http::error::bad_chunk).category() &&
        error != http::error::partial_message && error != http::error::end_of_stream) {
      return Refuse(400, chunks_ > limits().chunks ? StrCat("the body has more than ", limits().chunks, " chunks")
                                                   : StrCat("the body's parts are broken: ", error.message()));
    }
    Close();
  }

  void RefuseLarge() { Refuse(413, StrCat("the body has more than ", limits().body_bytes, " bytes")); }

  // Answers without having read the request, after which nothing that follows can be told apart from its body.
  void Refuse(int status, const std::string& error) {
    closes_ = true;
    version_ = 11;
    Write(HttpErrorAnswer(status, error));
  }

  void HandOn() {
    auto message = parser_->release();
    parser_.reset();
    closes_ = !message.keep_alive() || ++requests_ >= limits().connection_requests;
    version_ = message.version();
    is_head_ = message.method() == http::verb::head;
    // Trailers would join the headers, which were looked at already.
    if (std::distance(message.begin(), message.end()) != fields_)
      return Write(HttpErrorAnswer(400, "headers behind the body are not taken"));
    HttpRequest request;
    request.method = std::string(message.method_string());
    const std::string target(message.target());
    const size_t question = target.find('?');
    request.path = target.substr(0, question);
    if (question != std::string::npos) request.query = target.substr(question + 1);
    for (const auto& field : message)
      request.headers.emplace_back(AsciiLower(std::string(field.name_string())), std::string(field.value()));
    request.body = std::move(message.body());
    request.peer = peer_;
    is_gone_ = std::make_shared<std::atomic<bool>>(false);
    request.is_gone = is_gone_;
    timer_.cancel();
    Watch();
    HttpRespond respond = [weak = weak_from_this()](HttpAnswer answer) {
      const std::shared_ptr<Connection> self = weak.lock();
      if (!self) return;
      asio::post(self->socket_.get_executor(),
                 [self, answer = std::move(answer)]() mutable { self->Write(std::move(answer)); });
    };
    try {
      server_->handler(std::move(request), respond);
    } catch (const std::exception& error) {
      LogWarning(StrCat("a request failed: ", error.what()));
      respond(HttpErrorAnswer(500, "the server failed at this request; its log says why"));
    }
  }

  // Looks whether the client leaves while its answer is made. What it sends meanwhile is its next request.
  void Watch() {
    socket_.async_wait(Tcp::socket::wait_read, [self = shared_from_this(), gone = is_gone_](auto error) {
      if (error || !gone || gone != self->is_gone_) return;
      char byte = 0;
      beast::error_code failed;
      self->socket_.non_blocking(true, failed);
      const size_t bytes = self->socket_.receive(asio::buffer(&byte, 1), Tcp::socket::message_peek, failed);
      const bool has_left = (failed && failed != asio::error::would_block) || (!failed && bytes == 0);
      if (has_left) *gone = true;
      if (failed == asio::error::would_block) self->Watch();  // it was woken for nothing
    });
  }

  void Write(HttpAnswer answer) {
    is_gone_.reset();
    beast::error_code ignored;
    socket_.cancel(ignored);  // the watch
    if (server_->is_draining) closes_ = true;
    answer_.emplace(static_cast<http::status>(answer.status), version_);
    answer_->set(http::field::server, "moka");
    answer_->set(http::field::content_type, answer.type);
    answer_->set(http::field::cache_control, "no-store");
    for (const auto& [name, value] : answer.headers) answer_->set(name, value);
    answer_->keep_alive(!closes_);
    answer_->body() = std::move(answer.body);
    answer_->prepare_payload();
    constexpr int64_t kLeastBytes = 64 << 10;  // a second, that a client takes
    const std::chrono::seconds for_bytes(std::ssize(answer_->body()) / kLeastBytes);
    if (is_head_) answer_->body().clear();  // its length stays
    SetDeadline(limits().write_time + for_bytes);
    http::async_write(socket_, *answer_, [self = shared_from_this()](auto error, size_t) { self->Written(error); });
  }

  void Written(const beast::error_code& error) {
    {
      const std::lock_guard lock(server_->mutex);
      ++server_->counts.requests;
      if (error) ++server_->counts.requests_without_end;
    }
    End();
    is_head_ = false;
    if (error) return Close();
    if (!closes_) return WaitForRequest();
    beast::error_code ignored;
    socket_.shutdown(Tcp::socket::shutdown_send, ignored);
    if (server_->is_draining && socket_.available(ignored) == 0) return Close();
    buffer_.clear();
    SetDeadline(kDrainTime);
    Drain();
  }

  // Reads on for a while: to close over unread bytes would take the answer away from who still sends.
  void Drain() {
    if (drained_ > kDrainedBytes) return Close();
    socket_.async_read_some(buffer_.prepare(kBufferBytes), [self = shared_from_this()](auto error, size_t bytes) {
      if (error) return self->Close();
      self->drained_ += bytes;
      self->Drain();
    });
  }

  void Close() {
    if (is_closed_) return;
    is_closed_ = true;
    End();
    beast::error_code ignored;
    timer_.cancel();
    socket_.shutdown(Tcp::socket::shutdown_both, ignored);
    socket_.close(ignored);
    {
      const std::lock_guard lock(server_->mutex);
      server_->open.erase(this);  // whoever called holds it, too
      --server_->counts.connections;
      if (--server_->peers[peer_] == 0) server_->peers.erase(peer_);
    }
    server_->answered.notify_all();
  }

  Tcp::socket socket_;
  asio::steady_timer timer_;
  std::shared_ptr<HttpServer::State> server_;
  std::string peer_;
  beast::flat_buffer buffer_{2 * kBufferBytes};  // a chunk's head is kept in it, too
  std::optional<http::request_parser<http::string_body>> parser_;
  std::function<void(uint64_t, beast::string_view, beast::error_code&)> on_chunk_;
  std::optional<http::response<http::empty_body>> continue_;
  std::optional<http::response<http::string_body>> answer_;
  std::shared_ptr<std::atomic<bool>> is_gone_;
  Clock::time_point body_since_;
  int64_t body_bytes_ = 0;
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
};

void HttpServer::State::Accept(const std::shared_ptr<State>& self) {
  acceptor->async_accept(asio::make_strand(*context), [this, self](auto error, Tcp::socket socket) {
    if (!acceptor->is_open()) return;
    if (error) {  // of descriptors there may be none left for a while
      if (error != asio::error::operation_aborted) LogWarning(StrCat("no connection accepted: ", error.message()));
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      return Accept(self);
    }
    beast::error_code failed;
    const auto endpoint = socket.remote_endpoint(failed);
    const std::string peer = failed ? "?" : endpoint.address().to_string();
    const bool is_own = !failed && endpoint.address().is_loopback();
    std::shared_ptr<Connection> connection;
    {
      const std::lock_guard lock(mutex);
      const auto known = peers.find(peer);
      const int64_t of_peer = known == peers.end() ? 0 : known->second;
      if (counts.connections >= options.limits.connections || (!is_own && of_peer >= options.limits.peer_connections)) {
        ++counts.refused_connections;
      } else {
        ++counts.connections;
        ++peers[peer];
        socket.set_option(Tcp::no_delay(true), failed);
        connection = std::make_shared<Connection>(std::move(socket), self, peer);
        open[connection.get()] = connection;
      }
    }
    if (connection) connection->Start();
    Accept(self);
  });
}

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler)
    : state_(std::make_shared<State>(options, std::move(handler))) {
  beast::error_code error;
  const asio::ip::address address =
      asio::ip::make_address(options.host == "localhost" ? "127.0.0.1" : options.host, error);
  if (error) {
    throw Error(ErrorKind::kUsage, {}, StrCat("--host ", Printable(options.host), " is no address"),
                "127.0.0.1 is this machine alone, 0.0.0.0 all of its networks");
  }
  const Tcp::endpoint endpoint(address, options.port);
  state_->acceptor->open(endpoint.protocol(), error);
  if (!error) state_->acceptor->set_option(asio::socket_base::reuse_address(true), error);
  if (!error) state_->acceptor->bind(endpoint, error);
  if (!error) state_->acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    throw Error(
        ErrorKind::kCantCreate, {},
        StrCat("cannot listen at ", options.host, ":", static_cast<int64_t>(options.port), ": ", error.message()),
        "--port N takes another, --port 0 any that is free");
  }
  state_->Accept(state_);
  for (int i = 0; i < options.threads; ++i) {
    state_->threads.emplace_back([state = state_.get()] { RunContext(*state->context); });
  }
}

HttpServer::~HttpServer() {
  StopAccepting();
  state_->context->stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->open.clear();
  state_->acceptor.reset();
  state_->has_work.reset();
  state_->context.reset();
}

uint16_t HttpServer::port() const { return state_->acceptor->local_endpoint().port(); }

HttpCounts HttpServer::counts() const {
  const std::lock_guard lock(state_->mutex);
  return state_->counts;
}

void HttpServer::StopAccepting() {
  state_->is_draining = true;
  asio::post(state_->acceptor->get_executor(), [state = state_] {
    beast::error_code ignored;
    state->acceptor->close(ignored);
  });
  std::vector<std::shared_ptr<Connection>> open;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& [key, connection] : state_->open) open.push_back(connection);
  }
  for (const auto& connection : open) connection->CloseIfIdle();
}

int64_t HttpServer::WaitForAnswers(std::chrono::milliseconds most) const {
  std::unique_lock lock(state_->mutex);
  state_->answered.wait_for(lock, most, [&] { return state_->unanswered == 0; });
  return state_->unanswered;
}

void HttpServer::WaitForClients() const {
  std::unique_lock lock(state_->mutex);
  state_->answered.wait_for(lock, 2 * kDrainTime, [&] { return state_->open.empty(); });
}

}  // namespace moka
