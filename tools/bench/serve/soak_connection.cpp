// Sockets that block: a client that waits is one that uses no processor.
#include "tools/bench/serve/soak_connection.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

namespace moka {

bool SoakConnection::Connect(uint16_t port) {
  Close();
  socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  const int yes = 1;
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) ==
      0)  // NOLINT(*-reinterpret-cast)
    return true;
  Close();
  return false;
}

bool SoakConnection::Send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

bool SoakConnection::More() {
  std::array<char, 16384> bytes{};
  const ssize_t got = recv(socket_, bytes.data(), bytes.size(), 0);
  if (got > 0) buffer_.append(bytes.data(), static_cast<size_t>(got));
  return got > 0;
}

SoakReply SoakConnection::Receive(bool& is_begun) {
  size_t end = 0;
  while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
    const bool has_come = More();
    is_begun = is_begun || !buffer_.empty();
    if (!has_come) return {};
  }
  is_begun = true;
  SoakReply reply{.head = buffer_.substr(0, end + 2)};
  buffer_.erase(0, end + 4);
  constexpr size_t kStatusAt = 9;  // behind "HTTP/1.1 "
  const int status = reply.head.size() > kStatusAt ? std::atoi(reply.head.c_str() + kStatusAt) : 0;
  const std::string length(reply.Header("content-length"));
  const size_t bytes = std::strtoull(length.c_str(), nullptr, 10);
  while (buffer_.size() < bytes) {
    if (!More()) return {};
  }
  reply.status = status;
  reply.body = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  return reply;
}

void SoakConnection::EndSending() const { shutdown(socket_, SHUT_WR); }

void SoakConnection::Close() {
  if (socket_ >= 0) close(socket_);
  socket_ = -1;
  buffer_.clear();
}

void SoakConnection::Reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  Close();
}

}  // namespace moka
