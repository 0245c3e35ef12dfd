// Parts of the service's answers that its sources share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "tools/serve/http_message.h"
#include "tools/serve/service_calls.h"

namespace moka {

// A failure with its status of HTTP.
HttpAnswer AnswerOf(const CallFailure& failure);
HttpAnswer AnswerOf(const Error& error);

HttpAnswer WrongMethod(const std::string& allowed);
HttpAnswer NotFound(const std::string& path);
bool IsRead(const HttpRequest& request);

// JSON on one line; bytes that are no UTF-8 become U+FFFD.
template <class Json>
std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The body of a call that is no inference. Errors: kBadData for one that is no object, or of more than any has to say.
nlohmann::ordered_json CallJsonOf(const std::string& body);
// The body of /v2/repository/models/M/load: {} or nothing (kLoadTakesNothing). Errors: kBadData.
void CheckRepositoryCall(const std::string& body);
// The body of /v2/repository/index: nothing, or {"ready": whether only those that answer}. Errors: kBadData.
bool CheckIndexCall(const std::string& body);

}  // namespace moka
