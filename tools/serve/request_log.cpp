// A line is one write at the end of the file, so that lines of several servers do not mix.
#include "tools/serve/request_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"

namespace moka {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kBetweenLooks{1};

double Rounded(double ms) { return std::round(ms * 1000) / 1000; }

// "2026-11-30T08:15:00.123Z".
std::string NowText() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{:%FT%T}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms);
}

std::string LineOf(const LoggedRequest& request) {
  Json json = {{"time", NowText()},
               {"request_id", request.id},
               {"peer", request.peer},
               {"method", request.method},
               {"path", request.path},
               {"status", request.status},
               {"bytes_in", request.bytes_in},
               {"bytes_out", request.bytes_out},
               {"ms", Rounded(request.ms)}};
  if (!request.proxy.empty()) json["proxy"] = request.proxy;
  if (!request.trace.empty()) json["traceparent"] = request.trace;
  const ServedFacts& facts = request.facts;
  if (!facts.user.empty()) json["user"] = facts.user;
  if (!facts.model.empty()) {
    json["model"] = facts.model;
    json["version"] = facts.version;
    json["rows"] = facts.times.rows;
    json["queue_ms"] = Rounded(facts.times.queue_ms);
    json["run_ms"] = Rounded(facts.times.run_ms);
  }
  return json.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace

RequestLog::RequestLog(std::filesystem::path file)
    : file_(std::move(file)), looked_at_(std::chrono::steady_clock::now()) {
  Open();
}

RequestLog::~RequestLog() {
  if (descriptor_ >= 0) close(descriptor_);
}

void RequestLog::Open() {
  const int descriptor = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (descriptor < 0)
    throw Error(ErrorKind::kCantCreate, {.file = file_.string()}, std::generic_category().message(errno));
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = descriptor;
}

void RequestLog::FollowName() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kBetweenLooks) return;
  looked_at_ = now;
  struct stat by_name = {};
  struct stat by_descriptor = {};
  const bool is_same = stat(file_.c_str(), &by_name) == 0 && fstat(descriptor_, &by_descriptor) == 0 &&
                       by_name.st_ino == by_descriptor.st_ino && by_name.st_dev == by_descriptor.st_dev;
  if (!is_same) Open();
}

void RequestLog::Write(const LoggedRequest& request) {
  const std::string line = LineOf(request);
  const std::lock_guard lock(mutex_);
  std::string failed;
  try {
    FollowName();
    if (write(descriptor_, line.data(), line.size()) != std::ssize(line))
      failed = std::generic_category().message(errno);
  } catch (const Error& error) {
    failed = error.text();
  }
  if (!failed.empty() && !std::exchange(has_warned_, true))
    LogWarning(StrCat(file_.string(), ": requests are not logged: ", failed));
}

}  // namespace moka
