// The socket never blocks: each step waits with poll() until the call's deadline, so that a server which sends a byte
// now and then holds up nobody. A kept connection may have been closed by the server meanwhile, which only a call finds
// out: it is made once more.
#include "tools/serve/http_caller.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>

#include "core/text.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;
using Tcp = asio::ip::tcp;

beast::error_code SystemError(int number) { return {number, boost::system::system_category()}; }

// A stream as Beast wants it: a socket and the time by which it is to be done.
struct TimedSocket {
  explicit TimedSocket(asio::io_context& context) : socket(context) {}

  Tcp::socket socket;
  Clock::time_point due;

  // Returns whether the socket is ready for `events` in time.
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

  // The two calls by which Beast knows a stream that waits.
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

// The connection went, in place of an answer that is none of HTTP.
bool IsLost(const beast::error_code& error) {
  return error.category() == boost::system::system_category() || error == asio::error::eof ||
         error == http::error::end_of_stream || error == http::error::partial_message;
}

}  // namespace

std::string HttpPlace::Authority() const {
  return host.find(':') == std::string::npos ? StrCat(host, ":", port) : StrCat("[", host, "]:", port);
}

HttpPlace HttpPlaceOf(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto refuse = [&](const std::string& hint = "expected http://HOST:PORT/PATH") {
    return Error(ErrorKind::kUsage, {}, StrCat(Printable(url), " is no address of a server"), hint);
  };
  if (AsciiLower(url).starts_with("https://"))
    throw refuse("https:// is not spoken: give the http:// address behind the server that speaks TLS, or a tunnel's");
  if (!url.starts_with(kScheme)) throw refuse();
  const bool is_plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < '\x7f'; });
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find_first_of("/?#"), rest.size());
  std::string host = rest.substr(0, slash);
  if (!is_plain || host.find('@') != std::string::npos || (slash < rest.size() && rest[slash] != '/')) throw refuse();
  HttpPlace place;
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

std::string_view HttpReply::Header(std::string_view name) const {
  for (const auto& [given, value] : headers) {
    if (AsciiLower(given) == AsciiLower(name)) return value;
  }
  return {};
}

struct HttpCaller::State {
  State(HttpPlace given, const CallLimits& limited) : place(std::move(given)), limits(limited), stream(context) {}

  HttpPlace place;
  CallLimits limits;
  asio::io_context context{1};
  TimedSocket stream;
  beast::flat_buffer buffer;
  bool is_open = false;

  void Connect() {
    beast::error_code error;
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
    is_open = true;
  }
  std::string Name() const { return Printable(place.Authority()); }

  // Sends and reads; an answer that comes before all was sent (413) counts.
  template <class Request>
  HttpReply Exchange(const Request& request, beast::error_code& error) {
    stream.due = Clock::now() + limits.to_answer;
    http::write(stream, request, error);
    const beast::error_code unsent = IsTooLate(error) ? beast::error_code() : error;
    http::response_parser<http::string_body> parser;
    parser.body_limit(limits.body_bytes);
    if (!IsTooLate(error)) http::read(stream, buffer, parser, error);
    if (error && unsent) error = unsent;
    if (error) return {};
    auto& message = parser.get();
    is_open = message.keep_alive() && !unsent && buffer.size() == 0;  // more bytes would answer nothing
    HttpReply reply{.status = static_cast<int>(message.result_int()), .body = std::move(message.body()), .headers = {}};
    for (const auto& field : message)
      reply.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    return reply;
  }

  Error FailureOf(const beast::error_code& error) const {
    const double seconds = static_cast<double>(limits.to_answer.count()) * 1e-3;
    if (IsTooLate(error)) return {ErrorKind::kPeer, StrCat(Name(), " gave no answer within ", seconds, " s")};
    if (error == http::error::body_limit) {
      return {ErrorKind::kPeer,
              StrCat(Name(), " sends an answer of more than ", BytesText(static_cast<int64_t>(limits.body_bytes)))};
    }
    return {ErrorKind::kPeer, StrCat(Name(), " answers with what is no HTTP (", error.message(), ")")};
  }
};

HttpCaller::HttpCaller(HttpPlace place, const CallLimits& limits)
    : state_(std::make_unique<State>(std::move(place), limits)) {}
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
    if (IsTooLate(error) || !IsLost(error)) throw state_->FailureOf(error);
    if (was_open) continue;
    throw ServerGone(ErrorKind::kPeer, StrCat(state_->Name(), " broke off: ", error.message()));
  }
}

}  // namespace moka
