// The socket never blocks: each step waits with poll() until the call's deadline, so that a server which sends a byte
// now and then holds up nobody. A kept connection may have been closed by the server meanwhile, which only a call finds
// out: it is made once more. TLS goes over the same socket, so that its handshake, too, ends by a deadline.
#include "tools/serve/client/http_caller.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <optional>

#include "core/text.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using Clock = std::chrono::steady_clock;
using Tcp = asio::ip::tcp;

beast::error_code SystemError(int number) { return {number, boost::system::system_category()}; }

// A stream as Beast and TLS read from and write to it: a socket and the time by which it is to be done.
struct TimedSocket {
  using lowest_layer_type = Tcp::socket::lowest_layer_type;  // NOLINT(readability-identifier-naming)

  explicit TimedSocket(asio::io_context& context) : socket(context) {}

  Tcp::socket socket;
  Clock::time_point due;

  // Whether the socket is ready for `events` in time.
  bool Wait(int16_t events, beast::error_code& error) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now()).count();
      pollfd one{.fd = socket.native_handle(), .events = events, .revents = 0};
      const int ready = left <= 0 ? 0 : poll(&one, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
      if (ready > 0) return true;
      if (ready < 0 && errno == EINTR) continue;
      error = SystemError(ready < 0 ? errno : ETIMEDOUT);
      return false;
    }
  }

  // The calls by which Beast and Asio know a stream that waits.
  lowest_layer_type& lowest_layer() { return socket.lowest_layer(); }  // NOLINT(readability-identifier-naming)
  template <class Buffers>
  size_t read_some(const Buffers& buffers, beast::error_code& error) {  // NOLINT(readability-identifier-naming)
    for (;;) {
      const size_t bytes = socket.read_some(buffers, error);
      if (error != asio::error::would_block) return bytes;
      error = {};
      if (!Wait(POLLIN, error)) return 0;
    }
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers, beast::error_code& error) {  // NOLINT(readability-identifier-naming)
    for (;;) {
      const size_t bytes = socket.write_some(buffers, error);
      if (error != asio::error::would_block) return bytes;
      error = {};
      if (!Wait(POLLOUT, error)) return 0;
    }
  }
  template <class Buffers>
  size_t read_some(const Buffers& buffers) {  // NOLINT(readability-identifier-naming)
    beast::error_code error;
    const size_t bytes = read_some(buffers, error);
    if (error) throw beast::system_error(error);
    return bytes;
  }
  template <class Buffers>
  size_t write_some(const Buffers& buffers) {  // NOLINT(readability-identifier-naming)
    beast::error_code error;
    const size_t bytes = write_some(buffers, error);
    if (error) throw beast::system_error(error);
    return bytes;
  }

  void Connect(const Tcp::endpoint& endpoint, beast::error_code& error) {
    beast::error_code ignored;
    socket.close(ignored);
    error = {};
    socket.open(endpoint.protocol(), error);
    if (!error) socket.non_blocking(true, error);
    if (error) return;
    if (connect(socket.native_handle(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0) return;
    if (errno != EINPROGRESS) {
      error = SystemError(errno);
      return;
    }
    if (!Wait(POLLOUT, error)) return;
    int failed = 0;
    socklen_t size = sizeof(failed);
    getsockopt(socket.native_handle(), SOL_SOCKET, SO_ERROR, &failed, &size);
    if (failed != 0) error = SystemError(failed);
  }
};

bool IsPort(const std::string& text) {
  if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  const int port = std::stoi(text);
  return port > 0 && port < 65536;
}

bool IsTooLate(const beast::error_code& error) { return error == SystemError(ETIMEDOUT); }

// Whether the connection went, in place of an answer that is none of HTTP.
bool IsLost(const beast::error_code& error) {
  return error.category() == boost::system::system_category() || error == asio::error::eof ||
         error == http::error::end_of_stream || error == http::error::partial_message ||
         error == ssl::error::stream_truncated;
}

bool IsOfTls(const beast::error_code& error) { return error.category() == asio::error::get_ssl_category(); }

// Whether the bytes are TLS's word that it was not understood.
bool IsAlert(const beast::flat_buffer& buffer) {
  const auto* bytes = static_cast<const unsigned char*>(buffer.data().data());
  return buffer.size() >= 2 && bytes[0] == 0x15 && bytes[1] == 0x03;
}

double Seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) * 1e-3; }

}  // namespace

std::string HttpPlace::Authority() const {
  return host.find(':') == std::string::npos ? StrCat(host, ":", port) : StrCat("[", host, "]:", port);
}

HttpPlace HttpPlaceOf(const std::string& url) {
  const auto refuse = [&] {
    return Error(ErrorKind::kUsage, {}, StrCat(Printable(url), " is no address of a server"),
                 "expected http://HOST:PORT/PATH, or https:// where it speaks TLS");
  };
  HttpPlace place;
  place.is_tls = AsciiLower(url).starts_with("https://");
  if (!place.is_tls && !AsciiLower(url).starts_with("http://")) throw refuse();
  if (place.is_tls) place.port = "443";
  const bool is_plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < '\x7f'; });
  const std::string rest = url.substr(url.find("//") + 2);
  const size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  std::string host = rest.substr(0, slash);
  if (!is_plain || host.find('@') != std::string::npos || (slash < rest.size() && rest[slash] != '/')) throw refuse();
  if (slash < rest.size()) place.path = rest.substr(slash);
  const size_t bracket = host.starts_with('[') ? host.find(']') : std::string::npos;
  if (host.starts_with('[') && bracket == std::string::npos) throw refuse();
  const size_t colon = host.find(':', bracket == std::string::npos ? 0 : bracket);
  if (colon != std::string::npos) place.port = host.substr(colon + 1);
  host = host.substr(0, colon);
  if (bracket != std::string::npos && bracket + 1 != host.size()) throw refuse();
  place.host = bracket == std::string::npos ? host : host.substr(1, bracket - 1);
  if (place.host.empty() || !IsPort(place.port)) throw refuse();
  return place;
}

TlsTrust TrustFor(const HttpPlace& place, const std::string& authorities) {
  if (place.is_tls) return TrustIn(authorities);
  if (authorities.empty()) return {};
  throw Error(ErrorKind::kUsage, {}, "--ca is of servers that speak TLS",
              StrCat("expected https://", place.Authority(), ", or no --ca"));
}

std::string_view HttpReply::Header(std::string_view name) const {
  for (const auto& [given, value] : headers) {
    if (AsciiLower(given) == AsciiLower(name)) return value;
  }
  return {};
}

struct HttpCaller::State {
  State(HttpPlace given, const CallLimits& limited, TlsTrust trusted)
      : place(std::move(given)), limits(limited), trust(std::move(trusted)), stream(context) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { Part(); }

  HttpPlace place;
  CallLimits limits;
  TlsTrust trust;
  asio::io_context context{1};
  TimedSocket stream;
  std::optional<TlsDoubt> doubt;                     // of the server's certificate
  std::optional<ssl::stream<TimedSocket&>> through;  // a connection's TLS
  beast::flat_buffer buffer;
  bool is_open = false;
  bool has_heard = false;  // of the call's answer

  void Connect() {
    beast::error_code error;
    Part();
    Tcp::resolver resolver(context);
    const auto found = resolver.resolve(place.host, place.port, error);
    stream.due = Clock::now() + limits.to_connect;
    if (!error) {
      for (const auto& entry : found) {
        stream.Connect(entry.endpoint(), error);
        if (!error) break;
      }
    }
    if (error) throw ServerGone(ErrorKind::kPeer, StrCat("cannot reach ", Name(), ": ", error.message()));
    stream.socket.set_option(Tcp::no_delay(true), error);
    buffer.clear();
    buffer.reserve(size_t{128} << 10);
    if (place.is_tls) Greet();
    is_open = true;
  }
  std::string Name() const { return Printable(place.Authority()); }

  // The handshake of TLS, within the time to connect. Errors: ServerGone; kPeer for a server that is not believed or
  // speaks no TLS.
  void Greet() {
    if (!trust) trust = TrustIn({});
    through.emplace(stream, *trust);
    doubt.reset();
    beast::error_code error;
    ExpectHost(through->native_handle(), place.host);
    through->set_verify_callback(
        [this](bool is_good, ssl::verify_context& look) {
          if (!is_good) doubt = DoubtOf(look.native_handle(), place.host);
          return is_good;
        },
        error);
    if (!error) through->handshake(ssl::stream_base::client, error);
    if (!error) return;
    through.reset();
    if (doubt) throw Error(ErrorKind::kPeer, {}, StrCat(Name(), " shows ", doubt->text), doubt->hint);
    if (IsTooLate(error))
      throw ServerGone(ErrorKind::kPeer,
                       StrCat(Name(), " did not end the handshake of TLS within ", Seconds(limits.to_connect), " s"));
    if (IsLost(error))
      throw ServerGone(ErrorKind::kPeer, StrCat(Name(), " broke off the handshake of TLS: ", error.message()));
    const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));  // NOLINT(google-runtime-int)
    if (reason == SSL_R_WRONG_VERSION_NUMBER)
      throw Error(ErrorKind::kPeer, {}, StrCat(Name(), " speaks no TLS"),
                  StrCat("a server of plain HTTP is asked at http://", place.Authority()));
    throw Error(ErrorKind::kPeer, {}, StrCat(Name(), " and this client have no TLS in common: ", error.message()),
                "TLS 1.2 and later are spoken, without a certificate of the client");
  }
  // Says the end, so that the server can tell it from a cut, and does not wait for its answer.
  void Part() {
    beast::error_code ignored;
    stream.due = Clock::now();
    if (through && is_open) through->shutdown(ignored);
    through.reset();
    is_open = false;
  }

  template <class Request>
  HttpReply Exchange(const Request& request, beast::error_code& error) {
    stream.due = Clock::now() + limits.to_answer;
    return through ? ExchangeOver(*through, request, error) : ExchangeOver(stream, request, error);
  }
  // Sends and reads; an answer that comes before all was sent (413) counts.
  template <class Stream, class Request>
  HttpReply ExchangeOver(Stream& over, const Request& request, beast::error_code& error) {
    http::write(over, request, error);
    const beast::error_code unsent = IsTooLate(error) ? beast::error_code() : error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(limits.body_bytes);
    if (!IsTooLate(error)) http::read(over, buffer, parser, error);
    has_heard = parser.got_some() || buffer.size() > 0;
    if (error && unsent) error = unsent;
    if (error) return {};
    auto& message = parser.get();
    is_open = message.keep_alive() && !unsent && buffer.size() == 0;  // more bytes would answer nothing
    HttpReply reply{.status = static_cast<int>(message.result_int()), .body = std::move(message.body()), .headers = {}};
    for (const auto& field : message)
      reply.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    return reply;
  }

  // Whether the answer is TLS's word to who does not speak it.
  bool WantsTls() const { return !place.is_tls && IsAlert(buffer); }
  Error FailureOf(const beast::error_code& error) const {
    if (IsTooLate(error))
      return {ErrorKind::kPeer, StrCat(Name(), " gave no answer within ", Seconds(limits.to_answer), " s")};
    if (error == http::error::body_limit) {
      return {ErrorKind::kPeer,
              StrCat(Name(), " sends an answer of more than ", BytesText(static_cast<int64_t>(limits.body_bytes)))};
    }
    if (IsOfTls(error)) return {ErrorKind::kPeer, StrCat(Name(), " breaks TLS off: ", error.message())};
    if (WantsTls())
      return {ErrorKind::kPeer, {}, StrCat(Name(), " speaks TLS"), StrCat("ask https://", place.Authority())};
    return {ErrorKind::kPeer, StrCat(Name(), " answers with what is no HTTP (", error.message(), ")")};
  }
  ServerGone LossOf(const beast::error_code& error) const {
    const bool may_be_tls = !place.is_tls && !has_heard;
    return {ErrorKind::kPeer,
            {},
            StrCat(Name(), " broke off: ", error.message()),
            may_be_tls ? StrCat("a server that speaks TLS is asked at https://", place.Authority()) : ""};
  }
};

HttpCaller::HttpCaller(HttpPlace place, const CallLimits& limits, TlsTrust trust)
    : state_(std::make_unique<State>(std::move(place), limits, std::move(trust))) {}
HttpCaller::~HttpCaller() = default;

HttpReply HttpCaller::Call(std::string_view method, const std::string& path, std::string_view body,
                           const HttpHeaders& headers) {
  http::request<http::span_body<const char>> request;
  request.method_string({method.data(), method.size()});
  request.target(path);
  request.version(11);
  request.set(http::field::host, state_->place.Authority());
  request.set(http::field::user_agent, "moka");
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = beast::span<const char>(body.data(), body.size());
  request.prepare_payload();
  for (;;) {
    const bool was_open = state_->is_open;
    if (!was_open) state_->Connect();
    beast::error_code error;
    HttpReply reply = state_->Exchange(request, error);
    if (!error && reply.status >= 200) return reply;
    state_->is_open = false;
    if (!error)
      throw Error(ErrorKind::kPeer, StrCat(state_->Name(), " gives no answer but a status of ", reply.status));
    if (IsTooLate(error) || !IsLost(error) || state_->WantsTls()) throw state_->FailureOf(error);
    if (was_open) continue;
    throw state_->LossOf(error);
  }
}

}  // namespace moka
