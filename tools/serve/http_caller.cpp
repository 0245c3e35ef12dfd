// A kept connection may have been closed by the server meanwhile, which only a call finds out: it is made once more.
#include "tools/serve/http_caller.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of an answer

}  // namespace

HttpPlace HttpPlaceOf(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  const auto refuse = [&] {
    return Error(ErrorKind::kUsage, {}, StrCat(Printable(url), " is no address of a server"),
                 "expected http://HOST:PORT/PATH");
  };
  if (!url.starts_with(kScheme)) throw refuse();
  const std::string rest = url.substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  HttpPlace place;
  const std::string host = rest.substr(0, slash);
  const size_t colon = host.rfind(':');
  place.host = host.substr(0, colon);
  if (colon != std::string::npos) place.port = host.substr(colon + 1);
  if (slash < rest.size()) place.path = rest.substr(slash);
  if (place.host.empty() || place.port.empty()) throw refuse();
  return place;
}

struct HttpCaller::State {
  explicit State(HttpPlace given) : place(std::move(given)), socket(context) {}

  HttpPlace place;
  asio::io_context context{1};
  Tcp::socket socket;
  beast::flat_buffer buffer;
  bool is_open = false;

  void Connect() {
    beast::error_code error;
    Tcp::resolver resolver(context);
    const auto found = resolver.resolve(place.host, place.port, error);
    socket = Tcp::socket(context);
    if (!error) asio::connect(socket, found, error);
    if (error) {
      throw Error(ErrorKind::kPeer,
                  StrCat("cannot reach ", Printable(place.host), ":", Printable(place.port), ": ", error.message()));
    }
    socket.set_option(Tcp::no_delay(true), error);
    buffer.clear();
    buffer.reserve(size_t{128} << 10);
    is_open = true;
  }
};

HttpCaller::HttpCaller(HttpPlace place) : state_(std::make_unique<State>(std::move(place))) {}
HttpCaller::~HttpCaller() = default;

HttpReply HttpCaller::Call(std::string_view method, const std::string& path, std::string_view body,
                           const std::vector<std::pair<std::string, std::string>>& headers) {
  http::request<http::span_body<const char>> request;
  request.method_string({method.data(), method.size()});
  request.target(path);
  request.version(11);
  request.set(http::field::host, state_->place.host);
  request.set(http::field::user_agent, "moka");
  for (const auto& [name, value] : headers) request.set(name, value);
  request.body() = beast::span<const char>(body.data(), body.size());
  request.prepare_payload();
  beast::error_code error;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool was_open = state_->is_open;
    if (!was_open) state_->Connect();
    http::write(state_->socket, request, error);
    http::response_parser<http::string_body> parser;
    parser.body_limit(kMostBytes);
    if (!error) http::read(state_->socket, state_->buffer, parser, error);
    if (error) {
      state_->is_open = false;
      if (was_open) continue;
      break;
    }
    const auto& message = parser.get();
    state_->is_open = message.keep_alive();
    return {.status = static_cast<int>(message.result_int()),
            .body = std::move(parser.get().body()),
            .length_of_json = std::string(message["Inference-Header-Content-Length"])};
  }
  throw Error(ErrorKind::kPeer, StrCat(Printable(state_->place.host), ":", Printable(state_->place.port),
                                       " broke off: ", error.message()));
}

}  // namespace moka
