// Bytes that a client sends over a connection: heads, bodies and chunks of one or several requests, and what is none.
// The server answers as many requests as there are lines of them, with whole answers, and lets go of the client.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/text.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/serve/http_server.h"

namespace moka {
namespace {

constexpr time_t kMostSeconds = 8;  // of a connection, and then it hangs; a client that sends nothing more has no wait

[[noreturn]] void Fail(std::string_view what, std::string_view answers = {}) {
  std::fprintf(stderr, "%.*s (errno %d): %.*s\n", static_cast<int>(what.size()), what.data(), errno,
               static_cast<int>(answers.size()), answers.data());
  std::abort();
}

// The fuzzer's clock interrupts calls of the system.
template <typename Call>
ssize_t Uninterrupted(const Call& call) {
  for (;;) {
    const ssize_t result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// The server's answers to these bytes, behind which nothing comes.
std::string AnswersTo(std::string_view bytes, uint16_t port) {
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  while (connect(one, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno != EISCONN) {
    if (errno != EINTR && errno != EALREADY) Fail("no connection");
  }
  const timeval most = {kMostSeconds, 0};
  setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
  while (!bytes.empty()) {
    const ssize_t sent = Uninterrupted([&] { return send(one, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
    if (sent <= 0) break;  // the server has closed, which it may
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  shutdown(one, SHUT_WR);
  std::string answers;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t count = Uninterrupted([&] { return recv(one, part.data(), part.size(), 0); });
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) Fail("no answer, and no end", answers);
    if (count <= 0) break;
    answers.append(part.data(), static_cast<size_t>(count));
  }
  close(one);
  return answers;
}

int64_t CountOf(std::string_view text, std::string_view what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + what.size())) ++count;
  return count;
}

// Takes an answer from the front. Returns whether it was whole.
bool TakeAnswer(std::string_view& answers) {
  const size_t head = answers.find("\r\n\r\n");
  if (!answers.starts_with("HTTP/1.") || head == std::string_view::npos) return false;
  const std::string_view fields = answers.substr(0, head);
  answers.remove_prefix(head + 4);
  const bool is_interim = fields.substr(0, 12).ends_with(" 100");
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const size_t at = fields.find(kLength);
  if (is_interim) return true;
  if (at == std::string_view::npos) return false;
  const size_t length = std::strtoull(fields.data() + at + kLength.size(), nullptr, 10);
  if (answers.size() < length) return false;
  answers.remove_prefix(length);
  return true;
}

}  // namespace

FuzzTarget HttpStreamFuzz() {
  return {"http_stream", [](std::string_view bytes) {
            // It lives as long as the process.
            static HttpServer* const server = [] {
              HttpServerOptions options;
              options.port = 0;
              options.limits.body_bytes = 1 << 16;
              return std::make_unique<HttpServer>(
                         options,
                         [](const HttpRequest& request, const HttpRespond& respond) {
                           respond({.body = StrCat(request.path.size(), " ", request.body.size())});
                         })
                  .release();
            }();
            const std::string answers = AnswersTo(bytes, server->port());
            if (CountOf(bytes, "HEAD") > 0) return;  // its answers have lengths without bodies
            std::string_view left = answers;
            int64_t count = 0;
            for (; !left.empty(); ++count) {
              if (!TakeAnswer(left)) Fail("an answer is cut short", answers);
            }
            // One for bytes that are no request, and one for each Expect.
            if (count > CountOf(bytes, "HTTP/1.") + 1 + CountOf(bytes, "100")) Fail("too many answers", answers);
          }};
}

}  // namespace moka
