// Proves or breaks `moka serve` under load: many clients ask several models at once, each for something of its own
// whose right answer is known, while others leave, break off, are slow or mean harm. Says how many answers were lost,
// wrong or another's, and how the server's memory went. A test: the exit code is 1 where anything was. Prints JSON.
//
//   soak --requests 1000000            one server, so many requests
//   soak --reloads 100                 its models are loaded again so often meanwhile
//   soak --drains 100                  SIGTERM so often; each time it is started again
//   soak --kills 20                    SIGKILL so often; clients send again what had no answer
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "core/threads/team.h"
#include "tools/bench/serve/soak_clients.h"
#include "tools/bench/serve/soak_requests.h"
#include "tools/bench/serve/soak_server.h"
#include "tools/serve/client/http_caller.h"

namespace moka {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Settings {
  std::string moka = (fs::read_symlink("/proc/self/exe").parent_path() / "../../moka").lexically_normal().string();
  std::vector<std::string> models = {"zoo:lenet", "zoo:auto_mpg", "zoo:wine_quality", "zoo:babi_memn2n"};
  ClientPlan plan = {};
  int64_t seconds = 0;  // the most; 0: as long as it takes
  int64_t reloads = 0;
  int64_t drains = 0;
  int64_t kills = 0;
  std::string out;
};

double SecondsSince(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The server's facts, once a second.
struct Sampled {
  std::vector<double> seconds = {};
  std::vector<ServerFacts> facts = {};

  void Take(double at, const ServerFacts& now) {
    seconds.push_back(at);
    facts.push_back(now);
  }
  // MiB an hour of the straight line through the second half (least squares).
  double Slope() const {
    const size_t half = seconds.size() / 2;
    double n = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
    for (size_t i = half; i < seconds.size(); ++i) {
      const double hours = seconds[i] / 3600;
      n += 1;
      x += hours;
      y += facts[i].resident_mib;
      xx += hours * hours;
      xy += hours * facts[i].resident_mib;
    }
    const double below = n * xx - x * x;
    return below > 0 ? (n * xy - x * y) / below : 0;
  }
  Json ToJson() const {
    if (facts.empty()) return nullptr;
    constexpr size_t kPoints = 60;  // of the curve
    Json curve = Json::array();
    const size_t step = facts.size() / kPoints + 1;
    for (size_t i = 0; i < facts.size(); i += step)
      curve.push_back({std::lround(seconds[i]), std::round(facts[i].resident_mib * 100) / 100});
    const size_t half = facts.size() / 2;
    const size_t warm = std::min<size_t>(facts.size() - 1, 10);
    return {{"after_10_s_mib", facts[warm].resident_mib},
            {"half_mib", facts[half].resident_mib},
            {"end_mib", facts.back().resident_mib},
            {"most_mib", std::ranges::max(facts, {}, &ServerFacts::resident_mib).resident_mib},
            {"grown_in_second_half_mib", facts.back().resident_mib - facts[half].resident_mib},
            {"slope_of_second_half_mib_an_hour", Slope()},
            {"files_half", facts[half].open_files},
            {"files_end", facts.back().open_files},
            {"threads_half", facts[half].threads},
            {"threads_end", facts.back().threads},
            {"seconds_and_mib", curve}};
  }
};

// Counts of the log that the server wrote of its requests: answers to the calls that are counted here, and those of
// clients that left.
struct Logged {
  int64_t answered = 0;
  int64_t without_end = 0;
};

Logged ReadRequestLog(const fs::path& file) {
  Logged logged;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("method", "") != "POST") continue;
    logged.answered += json["status"] == 200 ? 1 : 0;
    logged.without_end += json["status"] == 0 ? 1 : 0;
  }
  return logged;
}

class Soak {
 public:
  explicit Soak(Settings settings)
      : settings_(std::move(settings)),
        folder_(fs::temp_directory_path() / StrCat("moka_soak_", int64_t{getpid()})),
        requests_(settings_.models, settings_.plan.seed) {
    fs::create_directories(folder_);
    std::vector<std::string> words = settings_.models;
    words.insert(words.end(), {"--allow-load", "--most-wait", "60000", "--grace", "0.3"});
    if (settings_.drains > 0) words.insert(words.end(), {"--request-log", (folder_ / "requests.log").string()});
    server_.emplace(settings_.moka, words, folder_ / "serve.log");
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;
  ~Soak() {
    server_.reset();
    fs::remove_all(folder_);
  }

  // Returns the exit code.
  int Run() {
    server_->Start();
    ClientPlan& plan = settings_.plan;
    plan.port = server_->port();
    if (settings_.drains > 0 || settings_.kills > 0) {
      // Each request is accounted for, so that all of them want their answers.
      plan.ends = settings_.kills > 0 ? ServerEnds::kKilled : ServerEnds::kDrains;
      plan.cancels = plan.resets = plan.hostile = plan.slow = plan.pipelined = 0;
    }
    begin_ = Clock::now();
    SoakClients clients(plan, requests_);
    if (settings_.reloads > 0) Reload(clients);
    if (settings_.drains > 0) Restart(settings_.drains, SIGTERM);
    if (settings_.kills > 0) Restart(settings_.kills, SIGKILL);
    if (settings_.reloads + settings_.drains + settings_.kills > 0) clients.Stop();
    while (!clients.is_done()) {
      Sample(clients);
      if (settings_.seconds > 0 && SecondsSince(begin_) > static_cast<double>(settings_.seconds)) clients.Stop();
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    const double seconds = SecondsSince(begin_);
    ClientCounts counted = clients.Wait();
    const Json stats = StatsJson();
    server_->Signal(SIGTERM);
    const int code = server_->Wait();
    TakeLog();
    if (code != 0) faults_.push_back(StrCat("the server ended with ", int64_t{code}));
    return Report(clients.begun(), seconds, counted, stats);
  }

 private:
  void Sample(const SoakClients& clients) {
    sampled_.Take(SecondsSince(begin_), server_->Facts());
    if (sampled_.facts.size() % 10 == 0) {
      std::fprintf(stderr, "%6.0f s %9lld requests %8.2f MiB\n", sampled_.seconds.back(),
                   static_cast<long long>(clients.begun()), sampled_.facts.back().resident_mib);
    }
  }

  // Loads each model in turn again while it is asked.
  void Reload(const SoakClients& clients) {
    HttpCaller caller({.host = "127.0.0.1", .port = StrCat(int64_t{server_->port()}), .path = "/"});
    for (int64_t i = 0; i < settings_.reloads; ++i) {
      const std::string& word = settings_.models[static_cast<size_t>(i) % settings_.models.size()];
      const std::string name = word.substr(word.rfind(':') + 1);
      const auto begin = Clock::now();
      const HttpReply reply = caller.Call("POST", StrCat("/v2/repository/models/", name, "/load"), "");
      if (reply.status != 200) faults_.push_back(StrCat("a load of ", name, " had ", int64_t{reply.status}));
      seconds_.push_back(SecondsSince(begin));
      Sample(clients);
    }
  }

  // Ends the server so often by a signal and starts it again.
  void Restart(int64_t times, int signal) {
    std::mt19937_64 random(settings_.plan.seed);
    for (int64_t i = 0; i < times; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 900));
      const auto begin = Clock::now();
      server_->Signal(signal);
      const int code = server_->Wait();
      seconds_.push_back(SecondsSince(begin));
      if (code != (signal == SIGKILL ? 128 + SIGKILL : 0))
        faults_.push_back(StrCat("end ", i, ": the server ended with ", int64_t{code}));
      TakeLog();
      server_->Start();
    }
  }

  void TakeLog() {
    const fs::path log = folder_ / "requests.log";
    if (!fs::exists(log)) return;
    const Logged logged = ReadRequestLog(log);
    logged_.answered += logged.answered;
    logged_.without_end += logged.without_end;
    fs::remove(log);
  }

  // How the models were run.
  Json StatsJson() const {
    HttpCaller caller({.host = "127.0.0.1", .port = StrCat(int64_t{server_->port()}), .path = "/"});
    Json models = Json::object();
    const Json all = Json::parse(caller.Call("GET", "/v2/models/stats", "").body);
    for (const Json& model : all["model_stats"]) {
      models[model["name"].get<std::string>()] = {{"rows", model["inference_count"]},
                                                  {"runs", model["execution_count"]},
                                                  {"failed", model["inference_stats"]["fail"]["count"]},
                                                  {"batching", model["batching"]}};
    }
    return models;
  }

  int Report(int64_t begun, double seconds, ClientCounts& counted, const Json& stats) {
    const auto count = [&](const std::string& name) {
      const auto found = counted.counts.find(name);
      return found == counted.counts.end() ? int64_t{0} : found->second;
    };
    std::ranges::sort(counted.ms);
    const auto quantile = [&](double part) {
      if (counted.ms.empty()) return 0.0F;
      return counted
          .ms[std::min(counted.ms.size() - 1, static_cast<size_t>(part * static_cast<double>(counted.ms.size())))];
    };
    const bool counts_log = settings_.drains > 0;
    if (counts_log && logged_.answered != count("right"))
      faults_.push_back(StrCat("the server has answered ", logged_.answered, " and its clients have ", count("right")));
    if (counts_log && logged_.without_end > 0)
      faults_.push_back(StrCat(logged_.without_end, " requests were begun and not answered"));
    faults_.insert(faults_.end(), counted.faults.begin(), counted.faults.end());
    Json json = {{"models", settings_.models},
                 {"clients", settings_.plan.clients},
                 {"seed", settings_.plan.seed},
                 {"seconds", seconds},
                 {"requests", begun},
                 {"requests_a_second", static_cast<double>(begun) / seconds},
                 {"lost", count("lost")},
                 {"wrong", count("wrong")},
                 {"mixed_up", count("mixed up")},
                 {"most_difference", counted.most_difference},
                 {"p50_ms", quantile(0.5)},
                 {"p99_ms", quantile(0.99)},
                 {"counts", counted.counts},
                 {"right_by_kind", counted.kinds}};
    if (settings_.reloads > 0) json["reloads"] = settings_.reloads;
    if (settings_.drains > 0) json["drains"] = settings_.drains;
    if (settings_.kills > 0) json["kills"] = settings_.kills;
    if (counts_log) json["answered_by_the_request_log"] = logged_.answered;
    if (!seconds_.empty()) {
      std::ranges::sort(seconds_);
      json["seconds_of_each"] = {{"median", seconds_[seconds_.size() / 2]}, {"most", seconds_.back()}};
    }
    json["server"] = stats;
    json["memory"] = sampled_.ToJson();
    json["faults"] = faults_;
    const std::string text = json.dump(1);
    std::printf("%s\n", text.c_str());
    if (!settings_.out.empty()) WriteFileAtomically(settings_.out, text + "\n");
    return faults_.empty() ? 0 : 1;
  }

  Settings settings_;
  fs::path folder_;
  SoakRequests requests_;
  std::optional<SoakServer> server_;
  Clock::time_point begin_;
  Sampled sampled_;
  std::vector<double> seconds_;  // of each load or end
  Logged logged_;
  std::vector<std::string> faults_;
};

int Main(int count, char** arguments) {
  Settings settings;
  CLI::App app("moka serve under load");
  app.add_option("--moka", settings.moka, "the program");
  app.add_option("--models", settings.models, "as moka serve takes them; the first is asked by tensors")
      ->delimiter(',');
  app.add_option("--clients", settings.plan.clients)->check(CLI::Range(1, 4096));
  app.add_option("--requests", settings.plan.requests, "in all");
  app.add_option("--seconds", settings.seconds, "the most");
  app.add_option("--seed", settings.plan.seed);
  app.add_option("--reloads", settings.reloads, "loads of models meanwhile");
  app.add_option("--drains", settings.drains, "ends by SIGTERM");
  app.add_option("--kills", settings.kills, "ends by SIGKILL");
  app.add_option("--out", settings.out, "file for the JSON");
  CLI11_PARSE(app, count, arguments);
  const int modes = (settings.reloads > 0 ? 1 : 0) + (settings.drains > 0 ? 1 : 0) + (settings.kills > 0 ? 1 : 0);
  if (modes > 1) throw Error(ErrorKind::kUsage, "one of --reloads, --drains and --kills");
  const bool is_endless = modes == 0 && settings.plan.requests == 0 && settings.seconds == 0;
  if (is_endless) settings.plan.requests = 1'000'000;
  return Soak(std::move(settings)).Run();
}

}  // namespace
}  // namespace moka

int main(int count, char** arguments) {
  try {
    return moka::Main(count, arguments);
  } catch (const moka::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.kind());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
