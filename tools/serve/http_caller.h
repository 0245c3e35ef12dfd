// A client's connection to a server of HTTP/1.1, which waits for its answers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moka {

// "http://HOST:PORT/PATH" in its parts.
struct HttpPlace {
  std::string host;
  std::string port = "80";
  std::string path = "/";
};

// Errors: kUsage for what is no address of http.
HttpPlace HttpPlaceOf(const std::string& url);

struct HttpReply {
  int status = 0;
  std::string body;
  std::string length_of_json;  // the header Inference-Header-Content-Length
};

// One thread.
class HttpCaller {
 public:
  // Connects at the first call. Errors: none.
  explicit HttpCaller(HttpPlace place);
  HttpCaller(const HttpCaller&) = delete;
  HttpCaller& operator=(const HttpCaller&) = delete;
  ~HttpCaller();

  // Connects again where the server has closed. Errors: kPeer for a server that cannot be reached or breaks off.
  HttpReply Call(std::string_view method, const std::string& path, std::string_view body,
                 const std::vector<std::pair<std::string, std::string>>& headers = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moka
