// Who may connect, and how the server begins and ends; a connection itself is HttpConnection.
#include "tools/serve/http_server.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core/error.hpp>
#include <random>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/team.h"
#include "tools/serve/http_connection.h"
#include "tools/serve/http_state.h"
#include "tools/serve/tls_keys.h"

namespace moka {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using Tcp = asio::ip::tcp;

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

// "8f3c01ab-": the requests of two runs of a server differ.
std::string NewIdPrefix() {
  std::random_device random;
  return fmt::format("{:08x}-", random());
}

// A socket for both kinds of addresses has those of IPv4 in the other's form.
asio::ip::address PlainAddress(const asio::ip::address& address) {
  const bool is_mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return is_mapped ? asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()) : address;
}

// Takes a connection, tells it that there are too many, or closes it.
void Welcome(const std::shared_ptr<HttpState>& state, Tcp::socket socket) {
  const HttpServerOptions& options = state->options;
  HttpCounts& counts = state->counts;
  beast::error_code failed;
  const auto endpoint = socket.remote_endpoint(failed);
  const asio::ip::address address = PlainAddress(endpoint.address());
  const std::string peer = failed ? "?" : address.to_string();
  const bool is_own = options.limits.are_own_exempt && !failed && address.is_loopback();
  const bool may_be_many = is_own || options.proxies.Trusts(peer);
  socket.set_option(Tcp::no_delay(true), failed);
  const TlsContext tls = options.tls ? options.tls->Context() : nullptr;
  std::shared_ptr<HttpConnection> connection;
  bool is_full = false;
  bool is_of_many = false;
  {
    const std::lock_guard lock(state->mutex);
    const auto known = state->peers.find(peer);
    const int64_t of_peer = known == state->peers.end() ? 0 : known->second;
    is_full = counts.connections - counts.told >= options.limits.connections;
    is_of_many = !may_be_many && of_peer >= options.limits.peer_connections;
    const bool is_refused = is_full || is_of_many;
    if (is_refused) ++counts.refused_connections;
    if (is_refused && (tls || counts.told >= options.limits.told)) return;
    counts.told += is_refused ? 1 : 0;
    ++counts.connections;
    ++state->peers[peer];
    connection = std::make_shared<HttpConnection>(std::move(socket), tls, state, peer);
    state->open[connection.get()] = connection;
  }
  if (state->is_draining) connection->Owe();
  if (is_of_many) {
    connection->StartRefused(HttpBusyAnswer(
        429, StrCat("this address has ", options.limits.peer_connections, " connections, the most there may be")));
  } else if (is_full) {
    connection->StartRefused(
        HttpBusyAnswer(503, StrCat("the server has ", options.limits.connections, " connections, the most it takes")));
  } else {
    connection->Start();
  }
}

// The acceptor is closed: each connection is looked at for a request before it may go.
void EndAccepting(const std::shared_ptr<HttpState>& state) {
  std::vector<std::shared_ptr<HttpConnection>> open;
  {
    const std::lock_guard lock(state->mutex);
    for (const auto& [key, connection] : state->open) open.push_back(connection);
    state->unanswered += std::ssize(open);
  }
  for (const auto& connection : open) connection->CloseIfIdle();
  state->Settle();
}

// Until the acceptor is closed; then EndAccepting, once.
void Accept(const std::shared_ptr<HttpState>& state) {
  state->acceptor->async_accept(asio::make_strand(*state->context), [state](auto error, Tcp::socket socket) {
    if (!error) Welcome(state, std::move(socket));
    if (!state->acceptor->is_open()) return EndAccepting(state);
    const bool was_short = std::exchange(state->is_short, static_cast<bool>(error));
    if (!error) return Accept(state);
    if (!was_short) LogWarning(StrCat("no connection accepted: ", error.message()));
    state->pause->expires_after(std::chrono::milliseconds(200));
    state->pause->async_wait([state](auto) {
      if (!state->acceptor->is_open()) return EndAccepting(state);
      Accept(state);
    });
  });
}

// Takes the connections that the system has made already: to their clients they are accepted.
void CloseAcceptor(const std::shared_ptr<HttpState>& state) {
  beast::error_code failed;
  state->acceptor->non_blocking(true, failed);
  while (!failed) {
    Tcp::socket socket(asio::make_strand(*state->context));
    state->acceptor->accept(socket, failed);
    if (!failed) Welcome(state, std::move(socket));
  }
  state->acceptor->close(failed);
  state->pause->cancel();
}

}  // namespace

HttpServer::HttpServer(const HttpServerOptions& options, HttpHandler handler)
    : state_(std::make_shared<HttpState>(options, std::move(handler))) {
  state_->id_prefix = NewIdPrefix();
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
  Accept(state_);
  for (int i = 0; i < options.threads; ++i) {
    state_->threads.emplace_back([state = state_.get()] { RunContext(*state->context); });
  }
}

HttpServer::~HttpServer() {
  StopAccepting();
  state_->context->stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->open.clear();
  state_->pause.reset();
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
  if (state_->is_draining.exchange(true)) return;
  {
    const std::lock_guard lock(state_->mutex);
    ++state_->unanswered;  // EndAccepting settles it
  }
  asio::post(state_->acceptor->get_executor(), [state = state_] { CloseAcceptor(state); });
}

int64_t HttpServer::WaitForAnswers(std::chrono::milliseconds most) const {
  std::unique_lock lock(state_->mutex);
  state_->answered.wait_for(lock, most, [&] { return state_->unanswered == 0; });
  return state_->unanswered;
}

void HttpServer::WaitForClients() const {
  std::unique_lock lock(state_->mutex);
  state_->answered.wait_for(lock, 2 * state_->options.limits.part_time, [&] { return state_->open.empty(); });
}

}  // namespace moka
