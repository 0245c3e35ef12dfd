// The bytes of a client, through TLS or as they are.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace moka {

using TlsContext = std::shared_ptr<boost::asio::ssl::context>;

// An AsyncReadStream and AsyncWriteStream as Beast has them. One strand.
class ClientStream {
 public:
  using Socket = boost::asio::ip::tcp::socket;
  using executor_type = Socket::executor_type;

  // Null: without TLS.
  ClientStream(Socket socket, TlsContext tls) : socket_(std::move(socket)), context_(std::move(tls)) {
    if (context_) tls_.emplace(socket_, *context_);
  }
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;
  ~ClientStream() = default;

  executor_type get_executor() { return socket_.get_executor(); }
  Socket& socket() { return socket_; }
  bool is_tls() const { return tls_.has_value(); }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    } else {
      socket_.async_read_some(buffers, std::forward<Handler>(handler));
    }
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (tls_) {
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    } else {
      socket_.async_write_some(buffers, std::forward<Handler>(handler));
    }
  }
  // Waits for the first byte, which is left to be read.
  template <class Handler>
  void AsyncLook(Handler&& handler) {
    socket_.async_wait(Socket::wait_read, std::forward<Handler>(handler));
  }
  // Whether the first byte is a letter, as words of HTTP begin with, and none of TLS.
  bool BeginsWithLetter() {
    char first = 0;
    return recv(socket_.native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first >= 'A' && first <= 'Z';
  }
  // Goes on without TLS. Requires: nothing was read or written.
  void LeaveTls() { tls_.reset(); }
  // Requires: is_tls().
  template <class Handler>
  void AsyncGreet(Handler&& handler) {
    tls_->async_handshake(boost::asio::ssl::stream_base::server, std::forward<Handler>(handler));
  }
  // Says the end to the other side, so that a cut is told from an end. Requires: is_tls().
  template <class Handler>
  void AsyncPart(Handler&& handler) {
    tls_->async_shutdown(std::forward<Handler>(handler));
  }

  // Whether the client has ended its side, whatever of it is still to be read.
  bool HasLeft() {
    pollfd look{.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
    return poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
  }

 private:
  Socket socket_;
  TlsContext context_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
};

}  // namespace moka
