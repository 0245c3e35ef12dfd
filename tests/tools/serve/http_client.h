// A client of HTTP that sends what a test wants, right or wrong.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/text.h"

namespace moka {

struct Reply {
  int status = 0;  // 0: none came
  std::string head = {};
  std::string body = {};

  // A header's value; empty: there is none.
  std::string Header(const std::string& name) const {
    const std::string small = AsciiLower(head);
    const size_t at = small.find(StrCat("\r\n", AsciiLower(name), ": "));
    if (at == std::string::npos) return {};
    const size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

// A connection to a server of this machine.
class HttpClient {
 public:
  explicit HttpClient(uint16_t port, bool connects = true)
      : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), port_(port) {
    const timeval patience{.tv_sec = 30, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    if (connects) Connect();
  }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient() { close(socket_); }

  void Connect() {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool is_connected() const { return is_connected_; }
  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void SendRequest(const std::string& method, const std::string& path, std::string_view body = {},
                   const std::string& headers = {}) const {
    Send(StrCat(method, " ", path, " HTTP/1.1\r\nHost: here\r\n"));
    Send(headers);
    if (method != "GET") Send(StrCat("Content-Length: ", body.size(), "\r\n"));
    Send("\r\n");
    Send(body);
  }
  // The next answer; without a status where the server closed.
  Reply Receive() {
    Reply reply;
    size_t end = 0;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!More()) return reply;
    }
    reply.head = buffer_.substr(0, end + 2);
    buffer_.erase(0, end + 4);
    reply.status = std::atoi(reply.head.c_str() + 9);
    const std::string length = reply.Header("content-length");
    const size_t bytes = length.empty() ? 0 : std::stoul(length);
    while (buffer_.size() < bytes && More()) {
    }
    reply.body = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return reply;
  }
  Reply Ask(const std::string& method, const std::string& path, std::string_view body = {},
            const std::string& headers = {}) {
    SendRequest(method, path, body, headers);
    return Receive();
  }

 private:
  bool More() {
    char bytes[65536];
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    if (got > 0) buffer_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  int socket_;
  uint16_t port_;
  bool is_connected_ = false;
  std::string buffer_;
};

}  // namespace moka
