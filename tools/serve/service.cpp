// A row an address: method, path, and who answers.
#include "tools/serve/service.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/serve/infer_job.h"
#include "tools/serve/model_facts.h"
#include "tools/serve/service_answers.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

bool IsLoadCall(const std::vector<std::string>& parts) {
  return parts.size() == 5 && parts[0] == "v2" && parts[1] == "repository" && parts[2] == "models" &&
         (parts[4] == "load" || parts[4] == "unload");
}

bool IsRegionsCall(const std::vector<std::string>& parts) {
  return parts.size() >= 2 && parts[0] == "v2" && parts[1] == "systemsharedmemory";
}

// The path's parts; of an address in a proxy's form those behind its host.
std::vector<std::string> CallParts(const HttpRequest& request) {
  const std::string scheme = AsciiLower(request.path.substr(0, request.path.find("://")));
  if (scheme != "http" && scheme != "https") return PathParts(request.path);
  const size_t slash = request.path.find('/', scheme.size() + 3);
  return PathParts(slash == std::string::npos ? "/" : request.path.substr(slash));
}

}  // namespace

HttpAnswer WrongMethod(const std::string& allowed) {
  HttpAnswer answer = HttpErrorAnswer(405, StrCat("this address takes ", allowed));
  answer.headers.emplace_back("Allow", allowed);
  return answer;
}

HttpAnswer NotFound(const std::string& path) {
  return HttpErrorAnswer(404, StrCat("there is nothing at ", Printable(path.substr(0, 200))),
                         "GET /openapi.json lists what there is");
}

bool IsRead(const HttpRequest& request) { return request.method == "GET" || request.method == "HEAD"; }

void Service::WaitForLoads() {
  std::unique_lock lock(mutex_);
  loaded_.wait(lock, [&] { return loads_ == 0; });
}

HttpAnswer AnswerOf(const CallFailure& failure) {
  const auto status = [&] {
    switch (failure.status) {
      case CallStatus::kWrong: return 400;
      case CallStatus::kNoToken: return 401;
      case CallStatus::kNotAllowed: return 403;
      case CallStatus::kNotFound: return 404;
      case CallStatus::kGone: return 499;
      case CallStatus::kUnavailable:
      case CallStatus::kFull: return 503;
      case CallStatus::kLate: return 504;
      case CallStatus::kFailed: return 500;
    }
    return 500;
  };
  HttpAnswer answer = HttpErrorAnswer(status(), failure.text, failure.hint);
  if (answer.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (answer.status == 503) {
    const auto seconds = std::lround(std::ceil(failure.wait_s));
    answer.headers.emplace_back("Retry-After", StrCat(std::max<int64_t>(1, seconds)));
  }
  return answer;
}

HttpAnswer AnswerOf(const Error& error) { return AnswerOf(FailureOf(error)); }

std::optional<HttpAnswer> Service::Gate(HttpRequest& head) const {
  try {
    head.owner = tokens_.OwnerOf(head.Header("authorization"));
    return Refusal(head, CallParts(head));
  } catch (const Error& error) {
    return AnswerOf(error);
  }
}

std::optional<HttpAnswer> Service::Refusal(const HttpRequest& head, const std::vector<std::string>& parts) const {
  if (parts == std::vector<std::string>{""})
    return HttpErrorAnswer(400, StrCat("the address ", Printable(head.path.substr(0, 200)), " is malformed"));
  // The page holds nothing but a field for a token.
  const bool is_open = parts.empty() || parts == std::vector<std::string>{"healthz"} ||
                       (parts.size() == 3 && parts[0] == "v2" && parts[1] == "health");
  const std::optional<CallFailure> refusal = is_open ? std::nullopt : RefusalOfOwner(*head.owner, IsLoadCall(parts));
  if (refusal) return AnswerOf(*refusal);
  // A page of any site may send requests to this machine from the browser of whoever looks at it, but not with a token.
  const bool changes_server = IsLoadCall(parts) || (IsRegionsCall(parts) && !IsRead(head));
  if (changes_server && tokens_.empty() && !head.Header("origin").empty())
    return HttpErrorAnswer(403, "web pages load, unload and register nothing without a token",
                           "--token-file says who may");
  const std::optional<ModelCall> call = ModelCallOf(parts);
  return call ? Refusal(head, *call) : std::nullopt;
}

void Service::Handle(HttpRequest request, const HttpRespond& respond) {
  if (!request.owner) request.owner = tokens_.OwnerOf(request.Header("authorization"));
  const HttpRespond named([respond, user = request.owner->name](HttpMakeAnswer make) {
    respond.Later([make = std::move(make), user] {
      HttpAnswer answer = make();
      answer.facts.user = user;
      return answer;
    });
  });
  try {
    const std::vector<std::string> parts = CallParts(request);
    std::optional<HttpAnswer> refusal = Refusal(request, parts);
    if (refusal) return named(std::move(*refusal));
    if (const std::optional<ModelCall> call = ModelCallOf(parts)) return HandleModel(request, *call, named);
    if (IsRegionsCall(parts)) return named(RegionsAnswer(request, parts));
    if (!IsLoadCall(parts)) return named(Answer(request, parts));
    LoadOrUnload(request, parts[3], parts[4] == "load", named);
  } catch (const Error& error) {
    named(AnswerOf(error));
  }
}

void Service::LoadOrUnload(const HttpRequest& request, const std::string& name, bool loads,
                           const HttpRespond& respond) {
  if (request.method != "POST") return respond(WrongMethod("POST"));
  CheckRepositoryCall(request.body);
  Load(name, loads, [respond](const std::optional<CallFailure>& failure) {
    respond(failure ? AnswerOf(*failure) : HttpAnswer{.body = "{}"});
  });
}

void Service::Load(const std::string& name, bool loads, LoadRespond respond) {
  if (!allows_load_) {
    return respond(CallFailure{CallStatus::kNotAllowed, "this server loads and unloads no models",
                               "moka serve --allow-load does"});
  }
  {
    constexpr int64_t kMostLoads = 8;
    const std::lock_guard lock(mutex_);
    if (loads_ == kMostLoads || is_draining_)
      return respond(CallFailure{CallStatus::kUnavailable, "too many models are to be loaded"});
    ++loads_;
  }
  const auto settle = [this] {
    const std::lock_guard lock(mutex_);
    --loads_;
    loaded_.notify_all();
  };
  // A load takes long, and other requests are answered meanwhile.
  const auto run = [this, name, loads, settle, respond]() mutable {
    std::optional<CallFailure> failure;
    try {
      if (loads) {
        repository_.Load(name);
      } else {
        repository_.Unload(name);
      }
    } catch (const Error& error) {
      LogWarning(StrCat("model ", Printable(name), " is as it was: ", error.what()));
      failure = FailureOf(error);
      failure->text = WithoutFolders(failure->text);
      failure->hint = WithoutFolders(failure->hint);
    } catch (const std::exception& error) {
      failure = CallFailure{CallStatus::kFailed, StrCat("the load failed: ", error.what())};
    }
    respond(std::move(failure));
    respond = {};
    settle();
  };
  try {
    std::thread(run).detach();
  } catch (const std::exception& error) {  // the system has no thread left
    settle();
    respond(CallFailure{CallStatus::kUnavailable, StrCat("the load cannot begin: ", error.what())});
  }
}

std::optional<CallFailure> Service::Refusal(std::string_view authorization, bool loads) const {
  return RefusalOfOwner(tokens_.OwnerOf(authorization), loads);
}

std::optional<CallFailure> Service::RefusalOfOwner(const TokenOwner& owner, bool loads) const {
  if (tokens_.empty()) return std::nullopt;
  const Role role = owner.role;
  if (role == Role::kAdmin || (role == Role::kUser && !loads)) return std::nullopt;
  if (role == Role::kUser) return CallFailure{CallStatus::kNotAllowed, "to load and unload models is an admin's"};
  return CallFailure{CallStatus::kNoToken, "this server wants a token", "Authorization: Bearer TOKEN"};
}

bool Service::IsReady() const { return repository_.IsReady() && is_serving_ && !is_draining_; }

CallFailure Service::NotLoaded(const std::string& name, const std::string& version) const {
  const std::string of = version.empty() ? "" : StrCat("version ", version, " of ");
  const std::vector<IndexedModel> index = repository_.Index();
  const bool is_coming = std::ranges::any_of(index, [&](const IndexedModel& one) {
    return one.state == ModelState::kLoading && one.name == name && (version.empty() || one.version == version);
  });
  return {CallStatus::kUnavailable,
          StrCat(of, "model \"", name, "\" is ", is_coming ? "being loaded: ask again in a moment" : "not loaded")};
}

std::shared_ptr<ServedModel> Service::LoadedModel(const std::string& name, const std::string& version) const {
  std::shared_ptr<ServedModel> model = repository_.Find(name, version);
  if (!model) throw Error(ErrorKind::kUnavailable, NotLoaded(name, version).text);
  return model;
}

CallResult<ModelFacts> Service::Model(const std::string& name, const std::string& version) const {
  try {
    return FactsOf(*LoadedModel(name, version), repository_.Ready(name));
  } catch (const Error& error) {
    return FailureOf(error);
  }
}

CallResult<std::vector<ModelStatistics>> Service::Statistics(const std::string& name,
                                                             const std::string& version) const {
  try {
    std::vector<std::shared_ptr<ServedModel>> models = repository_.Ready(name);
    if (!name.empty() && (models.empty() || !version.empty())) models = {LoadedModel(name, version)};
    std::vector<ModelStatistics> statistics;
    statistics.reserve(models.size());
    for (const auto& model : models) statistics.push_back({model->name(), model->version(), model->counts().Now()});
    return statistics;
  } catch (const Error& error) {
    return FailureOf(error);
  }
}

std::vector<ModelListing> Service::Index(bool wants_ready) const {
  std::vector<ModelListing> listings;
  for (const IndexedModel& model : repository_.Index()) {
    if (wants_ready && model.state != ModelState::kReady) continue;
    listings.push_back({model.name, model.version, std::string(NameOf(model.state)), WithoutFolders(model.reason)});
  }
  return listings;
}

void Service::Infer(const std::string& name, const std::string& version, InferRequest request,
                    std::shared_ptr<const std::atomic<bool>> is_gone, InferRespond respond) {
  std::optional<CallFailure> refused;
  try {
    const std::shared_ptr<ServedModel> model = LoadedModel(name, version);
    if (!is_serving_) return respond(NotLoaded(name, version));
    CheckTakesTensors(*model);
    StartInfer(model, std::move(request), std::move(is_gone), respond);
  } catch (const Error& error) {
    refused = FailureOf(error);
  } catch (const std::exception& error) {
    refused = CallFailure{CallStatus::kFailed, error.what()};
  }
  if (refused) respond(std::move(*refused));
}

HttpAnswer Service::Answer(const HttpRequest& request, const std::vector<std::string>& parts) {
  const std::string path = StrCat("/", Join(parts, "/"));
  if (path == "/v2/repository/index") {
    if (request.method != "POST") return WrongMethod("POST");
    const bool wants_ready = CheckIndexCall(request.body);
    Json json = Json::array();
    for (const ModelListing& model : Index(wants_ready)) {
      json.push_back(
          {{"name", model.name}, {"version", model.version}, {"state", model.state}, {"reason", model.reason}});
    }
    return {.body = DumpJson(json)};
  }
  if (path == "/v2/models/stats" && IsRead(request)) return StatisticsAnswer({}, {});
  const bool is_known = path == "/" || path == "/v2" || path == "/v2/health/live" || path == "/v2/health/ready" ||
                        path == "/healthz" || path == "/metrics" || path == "/openapi.json" ||
                        path == "/v2/models/stats" || path == "/v2/logging" || path == "/v2/trace/setting";
  if (!is_known) return NotFound(request.path);
  if (path == "/v2/logging" || path == "/v2/trace/setting")
    return HttpErrorAnswer(501, "this server has no such setting");
  if (!IsRead(request)) return WrongMethod("GET, HEAD");
  if (path == "/") return Page();
  if (path == "/metrics") return Metrics();
  if (path == "/openapi.json") return {.body = OpenApiText()};
  if (path == "/v2") return {.body = ServerFactsJson(regions() != nullptr)};
  if (path == "/v2/health/live" || path == "/healthz") return {.body = R"({"live":true})"};
  const bool is_ready = IsReady();
  return {.status = is_ready ? 200 : 503,
          .body = is_ready ? R"({"ready":true,"live":true})" : R"({"ready":false,"live":true})"};
}

std::optional<HttpAnswer> Service::Refusal(const HttpRequest& head, const ModelCall& call) const {
  const std::shared_ptr<ServedModel> model = repository_.Find(call.name, call.version);
  if (!call.AsksNet()) {
    const bool is_fact = call.verb.empty() || call.verb == "ready" || call.verb == "config" || call.verb == "stats";
    if (!is_fact) return NotFound(head.path);
    if (!IsRead(head)) return WrongMethod("GET, HEAD");
    return model ? std::nullopt : std::optional(AnswerOf(NotLoaded(call.name, call.version)));
  }
  const bool is_put = call.verb == "predict" && head.method == "PUT";
  if (head.method != "POST" && !is_put) return WrongMethod(call.verb == "predict" ? "POST, PUT" : "POST");
  const bool has_body = !head.Header("content-length").empty() || !head.Header("transfer-encoding").empty();
  if (!has_body) return HttpErrorAnswer(411, "a body needs its Content-Length, or to be chunked");
  if (!head.Header("content-encoding").empty())
    return HttpErrorAnswer(415, "a body with a Content-Encoding is not taken", "leave it as it is");
  return model && is_serving_ ? std::nullopt : std::optional(AnswerOf(NotLoaded(call.name, call.version)));
}

void Service::HandleModel(HttpRequest& request, const ModelCall& call, const HttpRespond& respond) {
  const std::shared_ptr<ServedModel> model = repository_.Find(call.name, call.version);
  if (!model) return respond(AnswerOf(NotLoaded(call.name, call.version)));  // unloaded since it was looked at
  if (call.verb == "infer") return Infer(request, model, respond);
  if (call.verb == "predict") return Predict(request, model, call.file, respond);
  if (call.verb == "ready") return respond({.body = DumpJson(Json{{"name", call.name}, {"ready", true}})});
  if (call.verb == "stats") return respond(StatisticsAnswer(call.name, call.version));
  const ModelFacts facts = FactsOf(*model, repository_.Ready(call.name));
  respond({.body = call.verb == "config" ? ModelConfigJson(facts) : ModelFactsJson(facts)});
}

}  // namespace moka
