// Shared memory as HTTP asks for it: /v2/systemsharedmemory[/region/NAME]/{status,register,unregister}.
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "tools/serve/service.h"
#include "tools/serve/service_answers.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

// A whole number that a region is told by. Errors: kBadData.
int64_t BytesIn(const Json& json, const char* field, int64_t otherwise) {
  if (!json.contains(field)) return otherwise;
  const Json& value = json[field];
  const bool is_whole = value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX};
  if (is_whole) return value.get<int64_t>();
  throw Error(ErrorKind::kBadData, {}, StrCat(field, " is no number of bytes"), "expected a whole number from 0");
}

// Errors: kBadData for a body of other fields.
SharedRegion RegionIn(const std::string& name, const std::string& body) {
  const Json json = CallJsonOf(body);
  for (const auto& [field, value] : json.items()) {
    if (field == "key" || field == "offset" || field == "byte_size") continue;
    throw Error(ErrorKind::kBadData, {}, StrCat("unknown field \"", Printable(field), "\""),
                "it may have key, offset, byte_size");
  }
  if (!json.contains("key") || !json["key"].is_string() || !json.contains("byte_size"))
    throw Error(ErrorKind::kBadData, {}, "a region has a key and a byte_size",
                R"({"key": "/name", "byte_size": 3136} is one)");
  return {name, json["key"].get<std::string>(), BytesIn(json, "offset", 0), BytesIn(json, "byte_size", 0)};
}

Json JsonOf(const SharedRegion& region) {
  return {{"name", region.name}, {"key", region.key}, {"offset", region.offset}, {"byte_size", region.bytes}};
}

}  // namespace

HttpAnswer Service::RegionsAnswer(const HttpRequest& request, const std::vector<std::string>& parts) const {
  const bool has_name = parts.size() == 5 && parts[2] == "region";
  const std::string verb = has_name || parts.size() == 3 ? parts.back() : "";
  const std::string name = has_name ? parts[3] : "";
  const bool is_known = verb == "status" || verb == "unregister" || (verb == "register" && has_name);
  if (!is_known) return NotFound(request.path);
  if (regions_ == nullptr) return AnswerOf(NoRegions(CallStatus::kNotAllowed));
  if (verb == "status") {
    if (!IsRead(request)) return WrongMethod("GET, HEAD");
    const auto found = regions_->List(name);
    if (const auto* failure = std::get_if<CallFailure>(&found)) return AnswerOf(*failure);
    Json list = Json::array();
    for (const SharedRegion& region : std::get<std::vector<SharedRegion>>(found)) list.push_back(JsonOf(region));
    return {.body = DumpJson(list)};
  }
  if (request.method != "POST") return WrongMethod("POST");
  if (verb == "unregister" && !Trim(request.body).empty() && !CallJsonOf(request.body).empty())
    throw Error(ErrorKind::kBadData, {}, "unregister takes no fields: its address names the region",
                "POST /v2/systemsharedmemory/region/NAME/unregister; without a name all of them go");
  const std::optional<CallFailure> failure = verb == "register"
                                                 ? regions_->Register(RegionIn(name, request.body), request.peer)
                                                 : regions_->Unregister(name, request.peer);
  return failure ? AnswerOf(*failure) : HttpAnswer{.body = "{}"};
}

}  // namespace moka
