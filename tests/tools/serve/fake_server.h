// A server that answers each connection with what a test wants, right or wrong.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/text.h"

namespace moka {

class FakeServer {
 public:
  // A connection, by its socket; false for one that is gone.
  class Peer {
   public:
    Peer(int socket, const std::atomic<bool>& is_over) : socket_(socket), is_over_(is_over) {}
    bool Send(std::string_view bytes) const {
      return !is_over_ && send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
    }
    // The head of the next request; empty where none comes.
    std::string Receive() {
      while (buffer_.find("\r\n\r\n") == std::string::npos) {
        char bytes[4096];
        const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
        if (got <= 0) return {};
        buffer_.append(bytes, static_cast<size_t>(got));
      }
      return std::exchange(buffer_, {});
    }
    bool is_over() const { return is_over_; }

   private:
    int socket_;
    const std::atomic<bool>& is_over_;
    std::string buffer_;
  };

  explicit FakeServer(std::function<void(Peer& peer)> serve)
      : serve_(std::move(serve)), socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    listen(socket_, 16);
    socklen_t size = sizeof(address);
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { Accept(); });
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer() {
    is_over_ = true;
    shutdown(socket_, SHUT_RDWR);
    accepting_.join();
    for (std::thread& thread : threads_) thread.join();
    close(socket_);
  }

  std::string address() const { return StrCat("http://127.0.0.1:", static_cast<int64_t>(port_)); }
  int64_t connections() const { return connections_; }

 private:
  void Accept() {
    for (;;) {
      const int peer = accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      ++connections_;
      threads_.emplace_back([this, peer] {
        const timeval patience{.tv_sec = 20, .tv_usec = 0};
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
        Peer one(peer, is_over_);
        serve_(one);
        shutdown(peer, SHUT_RDWR);
        close(peer);
      });
    }
  }

  std::function<void(Peer& peer)> serve_;
  int socket_;
  uint16_t port_ = 0;
  std::atomic<bool> is_over_ = false;
  std::atomic<int64_t> connections_ = 0;
  std::thread accepting_;
  std::vector<std::thread> threads_;
};

// An answer of HTTP.
inline std::string HttpText(const std::string& body, const std::string& status = "200 OK",
                            const std::string& headers = {}) {
  return StrCat("HTTP/1.1 ", status, "\r\nContent-Length: ", body.size(), "\r\n", headers, "\r\n", body);
}

}  // namespace moka
