// A client of the Open Inference Protocol that does not give up at once: calls are made again while the server is away,
// starts, or has too much to do, until patience ends. Refusals come back as errors of the kinds that the same mistake
// has on this machine.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tools/serve/client/http_caller.h"

namespace moka {

// The address of a server, "http://HOST:PORT" or "https://HOST:PORT", or of one of its models, ".../v2/models/NAME".
struct ServerPlace {
  HttpPlace http;     // its path, without a slash at the end, stands before "/v2"
  std::string model;  // empty: none is named
};

// Errors: kUsage.
ServerPlace ServerPlaceOf(const std::string& url);

struct ClientSettings {
  ServerPlace place;
  CallLimits limits;
  TlsTrust trust;                         // of a place of TLS
  std::chrono::milliseconds patience{0};  // from a call's first failure
  std::string token;                      // empty: none
  // Shared by connections: whether they are to give up, and whether somebody has said that the server is away.
  std::shared_ptr<std::atomic<bool>> is_stopped = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<bool>> is_told = std::make_shared<std::atomic<bool>>(false);
};

struct ListedModel {
  std::string name;
  std::string version;
  std::string state;  // "READY"
  std::string reason;
};

// A token as a header may carry it: of the file's only line, or of the text. Errors: kBadData naming `where`, never
// showing the token.
std::string TokenOf(std::string_view text, const std::string& where);

// "%2F" for what stands for itself in no part of a path.
std::string PathPart(std::string_view text);

// One thread.
class ModelClient {
 public:
  using Json = nlohmann::ordered_json;

  explicit ModelClient(ClientSettings settings);

  // The answer of a status of 2xx. Errors: kBadData for a request that is wrong, kNoInput for what the server has not,
  // kNotAllowed, kUnavailable for what it has not now (429, 502, 503, 504), kPeer for the rest: no server, its own
  // faults, answers that are none.
  HttpReply Call(std::string_view method, const std::string& path, std::string_view body = {},
                 const HttpHeaders& headers = {});
  // The same whose answer is JSON. Errors: kPeer for any other.
  Json CallJson(std::string_view method, const std::string& path, std::string_view body = {},
                const HttpHeaders& headers = {});

  // Waits until the server says that it answers for all of its models, for as long as there is patience. Returns
  // whether it does. Errors: kPeer where there is no server.
  bool WaitUntilReady();
  std::vector<ListedModel> Models();

 private:
  // Sleeps for as long as there is patience. False where it has ended.
  bool WaitToRetry(std::chrono::steady_clock::time_point since, std::chrono::milliseconds pause,
                   const std::string& why) const;
  // One call, made again where it may be.
  HttpReply CallPatiently(std::string_view method, const std::string& path, std::string_view body,
                          const HttpHeaders& headers);

  ClientSettings settings_;
  HttpCaller caller_;
};

}  // namespace moka
