// Every call may be made twice: inference changes nothing, and to load or unload a model again comes to the same.
#include "tools/serve/client/model_client.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/json_bounds.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;
using Json = ModelClient::Json;
using Milliseconds = std::chrono::milliseconds;

constexpr size_t kMostShown = 1000;  // bytes of a server's text in an error

// The kind that a status has here.
ErrorKind KindOf(int status) {
  switch (status) {
    case 401:
    case 403: return ErrorKind::kNotAllowed;
    case 404: return ErrorKind::kNoInput;
    case 429:
    case 502:
    case 503:
    case 504: return ErrorKind::kUnavailable;
    default: return status >= 400 && status < 500 ? ErrorKind::kBadData : ErrorKind::kPeer;
  }
}

// A reply's JSON. Errors: kPeer for what is none, or more than any answer is.
Json JsonOf(const HttpReply& reply, const std::string& server) {
  constexpr size_t kMostBytes = size_t{16} << 20;
  const auto refuse = [&](const std::string& what) {
    return Error(ErrorKind::kPeer, StrCat(server, " answers with ", what));
  };
  if (reply.body.size() > kMostBytes) throw refuse(StrCat(BytesText(std::ssize(reply.body)), " of JSON"));
  try {
    CheckJsonBounds(reply.body, {}, {.values = int64_t{1} << 20});
  } catch (const Error& error) {
    throw refuse(error.text());
  }
  Json json = Json::parse(reply.body, nullptr, false);
  if (json.is_discarded())
    throw refuse(StrCat("what is no JSON: ", Printable(std::string_view(reply.body).substr(0, 60))));
  return json;
}

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>().substr(0, kMostShown) : std::string();
}

// Whether a server says that it wants TLS: moka serve, or nginx and others.
bool WantsTls(const HttpReply& reply, const HttpPlace& place) {
  const bool is_said = reply.status == 426 || (reply.status == 400 && reply.body.find("HTTPS") != std::string::npos);
  return is_said && !place.is_tls;
}

// The words of the server's refusal; servers before it may say it in another form.
Error RefusalOf(const HttpReply& reply, const HttpPlace& place) {
  const std::string server = place.Authority();
  if (WantsTls(reply, place))
    return {ErrorKind::kPeer, {}, StrCat(server, " speaks TLS"), StrCat("ask https://", server)};
  std::string text;
  std::string hint;
  try {
    const Json json = JsonOf(reply, server);
    if (json.is_object()) {
      text = TextOf(json, "error");
      hint = TextOf(json, "hint");
    }
  } catch (const Error&) {  // an error's page of a proxy
    text.clear();
  }
  if (reply.status == 401) hint = "--token-file FILE or MOKA_TOKEN in the environment gives the token";
  if (text.empty()) text = StrCat(server, " answers with a status of ", reply.status);
  return {KindOf(reply.status), {}, text, hint};
}

// Whether the same call may succeed a little later, and when the server says so.
std::optional<Milliseconds> RetryAfter(const HttpReply& reply) {
  if (reply.status != 429 && reply.status != 502 && reply.status != 503) return std::nullopt;
  const std::string_view text = reply.Header("Retry-After");
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_number = error == std::errc() && end == text.data() + text.size() && seconds >= 0;
  return is_number ? Milliseconds(std::min<int64_t>(seconds, 86400) * 1000) : Milliseconds(0);
}

bool IsUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

}  // namespace

ServerPlace ServerPlaceOf(const std::string& url) {
  ServerPlace place{.http = HttpPlaceOf(url), .model = {}};
  std::string& path = place.http.path;
  if (path.find('?') != std::string::npos || path.find('#') != std::string::npos)
    throw Error(ErrorKind::kUsage, {}, StrCat(Printable(url), " is no address of a server"),
                "expected http://HOST:PORT or http://HOST:PORT/v2/models/NAME");
  while (path.ends_with('/')) path.pop_back();
  constexpr std::string_view kModels = "/v2/models/";
  const size_t at = path.rfind(kModels);
  if (at != std::string::npos) {
    if (path.find('/', at + kModels.size()) != std::string::npos)
      throw Error(ErrorKind::kUsage, {}, StrCat(Printable(url), " names more than a model"),
                  "expected http://HOST:PORT or http://HOST:PORT/v2/models/NAME");
    place.model = path.substr(at + kModels.size());
    path.resize(at);
  } else if (path.ends_with("/v2")) {
    path.resize(path.size() - 3);
  }
  return place;
}

std::string TokenOf(std::string_view text, const std::string& where) {
  const std::string_view token = Trim(text);
  const bool is_whole = std::ranges::all_of(token, [](char c) { return c > ' ' && c < '\x7f'; });
  constexpr size_t kMostBytes = 4096;
  if (token.empty() || !is_whole || token.size() > kMostBytes)
    throw Error(ErrorKind::kBadData, {}, StrCat(Printable(where), " holds no token"),
                "expected one word of letters, digits and signs");
  return std::string(token);
}

std::string PathPart(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string part;
  for (const char c : text) {
    if (IsUnreserved(c)) {
      part += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    part += {'%', kDigits[byte >> 4U], kDigits[byte & 15U]};
  }
  return part;
}

ModelClient::ModelClient(ClientSettings settings)
    : settings_(std::move(settings)), caller_(settings_.place.http, settings_.limits, settings_.trust) {}

bool ModelClient::WaitToRetry(Clock::time_point since, Milliseconds pause, const std::string& why) const {
  const Clock::time_point last = since + settings_.patience;
  const Clock::time_point next = Clock::now() + pause;
  if (next > last || *settings_.is_stopped) return false;
  constexpr std::chrono::seconds kUntold(2);  // a short wait needs no words
  if (next - since > kUntold && !settings_.is_told->exchange(true)) {
    LogWarning(StrCat(why, "; trying again for ",
                      std::chrono::duration_cast<std::chrono::seconds>(settings_.patience).count(), " s"));
  }
  constexpr Milliseconds kStep(50);
  while (Clock::now() < next && !*settings_.is_stopped)
    std::this_thread::sleep_for(std::min<Clock::duration>(kStep, next - Clock::now()));
  return !*settings_.is_stopped;
}

HttpReply ModelClient::CallPatiently(std::string_view method, const std::string& path, std::string_view body,
                                     const HttpHeaders& headers) {
  HttpHeaders all = headers;
  if (!settings_.token.empty()) all.emplace_back("Authorization", StrCat("Bearer ", settings_.token));
  const std::string whole = settings_.place.http.path + path;
  constexpr Milliseconds kMostPause(1000);
  std::optional<Clock::time_point> since;
  for (Milliseconds pause(50);; pause = std::min(2 * pause, kMostPause)) {
    try {
      HttpReply reply = caller_.Call(method, whole, body, all);
      const std::optional<Milliseconds> after = RetryAfter(reply);
      if (!after) {
        *settings_.is_told = false;
        return reply;
      }
      if (!since) since = Clock::now();
      if (!WaitToRetry(*since, std::max(*after, pause), RefusalOf(reply, settings_.place.http).text())) return reply;
    } catch (const ServerGone& error) {
      if (!since) since = Clock::now();
      if (!WaitToRetry(*since, pause, error.text())) throw;
    }
  }
}

HttpReply ModelClient::Call(std::string_view method, const std::string& path, std::string_view body,
                            const HttpHeaders& headers) {
  HttpReply reply = CallPatiently(method, path, body, headers);
  if (reply.status < 200 || reply.status >= 300) throw RefusalOf(reply, settings_.place.http);
  return reply;
}

Json ModelClient::CallJson(std::string_view method, const std::string& path, std::string_view body,
                           const HttpHeaders& headers) {
  return JsonOf(Call(method, path, body, headers), settings_.place.http.Authority());
}

bool ModelClient::WaitUntilReady() {
  constexpr Milliseconds kPause(100);
  const Clock::time_point since = Clock::now();
  for (;;) {
    try {
      const HttpReply reply = caller_.Call("GET", settings_.place.http.path + "/v2/health/ready", {});
      if (reply.status == 200) return true;
      if (WantsTls(reply, settings_.place.http)) throw RefusalOf(reply, settings_.place.http);
      if (!WaitToRetry(since, kPause, StrCat(settings_.place.http.Authority(), " is not ready"))) return false;
    } catch (const ServerGone& error) {
      if (!WaitToRetry(since, kPause, error.text())) throw;
    }
  }
}

std::vector<ListedModel> ModelClient::Models() {
  const Json json = CallJson("POST", "/v2/repository/index");
  std::vector<ListedModel> models;
  if (!json.is_array()) throw Error(ErrorKind::kPeer, StrCat(settings_.place.http.Authority(), " lists no models"));
  for (const Json& one : json) {
    if (!one.is_object() || TextOf(one, "name").empty())
      throw Error(ErrorKind::kPeer, StrCat(settings_.place.http.Authority(), " lists a model without a name"));
    models.push_back({TextOf(one, "name"), TextOf(one, "version"), TextOf(one, "state"), TextOf(one, "reason")});
  }
  return models;
}

}  // namespace moka
