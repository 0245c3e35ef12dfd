// moka bench serve: how fast a server answers, by clients that each wait for their answer, or by requests that come at
// a rate whether it keeps up or not. The second counts from when a request should have been sent: a server that stalls
// holds its clients back, and times from when they sent at last would hide it (coordinated omission, G. Tene).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "core/text_table.h"
#include "core/threads/team_wait.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/infer/source.h"
#include "tools/serve/client/http_caller.h"
#include "tools/serve/http_server.h"
#include "tools/serve/net_queue.h"
#include "tools/serve/repository.h"
#include "tools/serve/service.h"

namespace moka {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Load {
  HttpPlace place;
  TlsTrust trust;
  std::string path;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  int64_t rows = 1;
  int64_t clients = 1;
  double seconds = 10;
  double rate = 0;  // requests a second; 0: each client sends when it has its answer
};

struct LoadResult {
  double rate = 0;
  double seconds = 0;
  std::vector<double> ms = {};           // of answered requests, ascending
  std::map<int, int64_t> statuses = {};  // 0: none came
  double QuantileMs(double part) const {
    if (ms.empty()) return 0;
    return ms[std::min(ms.size() - 1, static_cast<size_t>(part * static_cast<double>(ms.size())))];
  }
  int64_t failed() const {
    int64_t count = 0;
    for (const auto& [status, times] : statuses) count += status == 200 ? 0 : times;
    return count;
  }
};

// One row of random numbers for each input, as bytes behind their JSON.
void MakeTensors(Load& load, bool as_json) {
  HttpCaller caller(load.place, {}, load.trust);
  const HttpReply facts = caller.Call("GET", load.place.path, "");
  if (facts.status != 200)
    throw Error(ErrorKind::kPeer, StrCat(load.place.path, " answers ", int64_t{facts.status}, ": ",
                                         Printable(facts.body.substr(0, 200))));
  const Json model = Json::parse(facts.body, nullptr, false);
  if (!model.is_object() || !model["inputs"].is_array() || model["inputs"].empty())
    throw Error(ErrorKind::kPeer, {}, StrCat(load.place.path, " tells no inputs"),
                "expected http://HOST:PORT/v2/models/NAME");
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  Json request{{"inputs", Json::array()}};
  std::string bytes;
  for (const Json& input : model["inputs"]) {
    Json shape = Json::array({load.rows});
    int64_t count = load.rows;
    for (size_t i = 1; i < input["shape"].size(); ++i) {
      shape.push_back(input["shape"][i]);
      count *= input["shape"][i].get<int64_t>();
    }
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    Json tensor{{"name", input["name"]}, {"shape", shape}, {"datatype", "FP32"}};
    if (as_json) {
      tensor["data"] = values;
    } else {
      tensor["parameters"] = {{"binary_data_size", count * 4}};
      bytes.append(reinterpret_cast<const char*>(values.data()),
                   values.size() * sizeof(float));  // NOLINT(*-reinterpret-cast)
    }
    request["inputs"].push_back(tensor);
  }
  if (!as_json) request["parameters"] = {{"binary_data_output", true}};
  const std::string json = request.dump();
  if (!as_json) load.headers.emplace_back("Inference-Header-Content-Length", StrCat(json.size()));
  load.body = json + bytes;
  load.path = load.place.path + "/infer";
}

// When each request is to be sent, in seconds: a Poisson process.
std::vector<double> Arrivals(double rate, double seconds) {
  std::vector<double> times;
  std::mt19937_64 random(7);
  std::exponential_distribution<double> gap(rate);
  for (double at = gap(random); at < seconds; at += gap(random)) times.push_back(at);
  return times;
}

LoadResult RunLoad(const Load& load) {
  const std::vector<double> arrivals = load.rate > 0 ? Arrivals(load.rate, load.seconds) : std::vector<double>();
  std::atomic<size_t> next = 0;
  std::vector<LoadResult> results(static_cast<size_t>(load.clients));
  const Clock::time_point begin = Clock::now();
  const auto client = [&](LoadResult& result) {
    HttpCaller caller(load.place, {}, load.trust);
    for (;;) {
      Clock::time_point from = Clock::now();
      if (load.rate > 0) {
        const size_t i = next++;
        if (i >= arrivals.size()) return;
        from = begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(arrivals[i]));
        std::this_thread::sleep_until(from);
      } else if (from - begin > std::chrono::duration<double>(load.seconds)) {
        return;
      }
      int status = 0;
      try {
        status = caller.Call("POST", load.path, load.body, load.headers).status;
      } catch (const Error&) {
        status = 0;
      }
      ++result.statuses[status];
      if (status == 200) result.ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - from).count());
    }
  };
  std::vector<std::thread> threads;
  for (LoadResult& result : results) threads.emplace_back([&] { client(result); });
  for (std::thread& thread : threads) thread.join();
  LoadResult all{.rate = load.rate, .seconds = std::chrono::duration<double>(Clock::now() - begin).count()};
  for (const LoadResult& result : results) {
    all.ms.insert(all.ms.end(), result.ms.begin(), result.ms.end());
    for (const auto& [status, count] : result.statuses) all.statuses[status] += count;
  }
  std::ranges::sort(all.ms);
  return all;
}

std::vector<double> RatesOf(const Arguments& arguments) {
  if (!arguments.Has("rate")) return {0};
  std::vector<double> rates;
  for (const std::string& word : Split(arguments.Get("rate"), ','))
    rates.push_back(NumberOfFlag("rate", word, 1e-3, 1e7));
  return rates;
}

Json JsonOf(const Load& load, const LoadResult& result) {
  Json statuses = Json::object();
  for (const auto& [status, count] : result.statuses) statuses[StrCat(int64_t{status})] = count;
  const double answered = static_cast<double>(result.ms.size()) / result.seconds;
  Json json{{"clients", load.clients}, {"rows", load.rows}};
  if (result.rate > 0) json["rate"] = result.rate;
  json.update({{"seconds", result.seconds},
               {"answered_a_second", answered},
               {"rows_a_second", answered * static_cast<double>(load.rows)},
               {"p50_ms", result.QuantileMs(0.5)},
               {"p90_ms", result.QuantileMs(0.9)},
               {"p99_ms", result.QuantileMs(0.99)},
               {"most_ms", result.ms.empty() ? 0 : result.ms.back()},
               {"statuses", statuses}});
  return json;
}

// Serves the model that the words name at a port of its own while `work` runs, beside it. Returns the time of one row
// without a server, in milliseconds; 0 where the model takes no rows.
double WithServer(const Arguments& arguments, const std::function<void(const std::string& address)>& work) {
  auto model = std::make_shared<ServedModel>("model", "1", InferSourceOf(arguments), 16);
  ModelRepository repository(
      {.models = {{"model", {.word = arguments.positionals[0]}}}},
      {.settings = [](const ModelHome&) { return ModelSettings(); },
       .load = [&](const std::string&, const ModelPlace&, const ModelSettings&) { return model; }});
  repository.Load("model");
  MindOthersAlone();
  NetQueue queue({.waiting = 1 << 20, .most_wait = std::chrono::hours(1)});
  Service service(repository, queue, false);
  HttpServer server({.port = 0}, [&](HttpRequest request, const HttpRespond& respond) {
    service.Handle(std::move(request), respond);
  });
  service.BeginServing();
  std::exception_ptr failed;
  std::thread worker([&] {
    try {
      work(StrCat("http://127.0.0.1:", int64_t{server.port()}, "/v2/models/model"));
    } catch (...) {
      failed = std::current_exception();
    }
    queue.Stop(true);
  });
  queue.Run();
  worker.join();
  if (failed) std::rethrow_exception(failed);
  return model->rungs().empty() ? 0 : model->rungs()[0].ms;
}

struct Measured {
  Load load;
  std::vector<LoadResult> results = {};
  double bare_ms = 0;  // of one row in this process; 0: not known
};

// A file's bytes as the body of each request, to the address itself; servers of the protocol are told that no JSON is
// before them, and others do not look.
void MakeBody(Load& load, const std::string& file) {
  load.body = ReadFile(file);
  load.headers.emplace_back("Inference-Header-Content-Length", "0");
  load.headers.emplace_back("Content-Type", "application/octet-stream");
  load.path = load.place.path;
}

// `authorities`: as TrustFor has them. `body`: a file to be sent; empty: tensors as the model has them.
void Measure(const std::string& address, const std::string& authorities, const std::vector<double>& rates, bool as_json,
             const std::string& body, Measured& measured) {
  measured.load.place = HttpPlaceOf(address);
  measured.load.trust = TrustFor(measured.load.place, authorities);
  if (body.empty()) {
    MakeTensors(measured.load, as_json);
  } else {
    MakeBody(measured.load, body);
  }
  for (const double rate : rates) {
    measured.load.rate = rate;
    measured.results.push_back(RunLoad(measured.load));
  }
}

void PrintMeasured(const Measured& measured) {
  std::vector<std::vector<std::string>> table = {
      {"rate", "answered/s", "rows/s", "p50 ms", "p90 ms", "p99 ms", "most ms", "failed"}};
  for (const LoadResult& result : measured.results) {
    const double answered = static_cast<double>(result.ms.size()) / result.seconds;
    table.push_back({result.rate > 0 ? fmt::format("{:g}", result.rate) : "as answered",
                     fmt::format("{:.1f}", answered),
                     fmt::format("{:.1f}", answered * static_cast<double>(measured.load.rows)),
                     fmt::format("{:.3f}", result.QuantileMs(0.5)), fmt::format("{:.3f}", result.QuantileMs(0.9)),
                     fmt::format("{:.3f}", result.QuantileMs(0.99)),
                     fmt::format("{:.3f}", result.ms.empty() ? 0 : result.ms.back()), StrCat(result.failed())});
  }
  PrintLines(TextTable(table));
  if (measured.bare_ms > 0) Print("a row without a server: {:.3f} ms\n", measured.bare_ms);
}

int RunBenchServe(const Arguments& arguments) {
  const std::string word = arguments.Word(0, "a model, or the address of one");
  Measured measured;
  Load& load = measured.load;
  load.clients = arguments.Int("clients", arguments.Has("rate") ? 64 : 1, 1, 4096);
  load.rows = arguments.Int("rows", 1, 1, 65536);
  load.seconds = arguments.Number("seconds", 10, 0.1, 86400);
  const std::vector<double> rates = RatesOf(arguments);
  const bool as_json = arguments.Has("text");
  const bool wants_json = arguments.Has("json");
  const std::string body = arguments.Get("body", "");
  if (!body.empty() && (as_json || arguments.Has("rows") || !word.starts_with("http")))
    throw Error(ErrorKind::kUsage, {}, "--body sends a file as it is to an address", "leave --text and --rows out");
  if (arguments.Has("ca") && !word.starts_with("http")) {
    throw Error(ErrorKind::kUsage, {}, "--ca is of servers that speak TLS", "expected https://HOST:PORT, or no --ca");
  }
  if (word.starts_with("http")) {
    const std::string authorities = arguments.Get("ca", "");
    arguments.RefuseUnread();
    Measure(word, authorities, rates, as_json, body, measured);
  } else {
    measured.bare_ms = WithServer(
        arguments, [&](const std::string& address) { Measure(address, {}, rates, as_json, body, measured); });
  }
  if (!wants_json) {
    PrintMeasured(measured);
    return 0;
  }
  Json json = Json::array();
  for (const LoadResult& result : measured.results) {
    json.push_back(JsonOf(load, result));
    if (measured.bare_ms > 0) json.back()["bare_ms"] = measured.bare_ms;
  }
  PrintJson(json);
  return 0;
}

}  // namespace

Verb BenchServeVerb() {
  Verb verb;
  verb.name = "serve";
  verb.under = "bench";
  verb.summary = "how fast a server of the Open Inference Protocol answers";
  verb.usage = "RUN|MODEL|http[s]://HOST:PORT/v2/models/NAME [--flags]";
  verb.examples = {"moka bench serve zoo:lenet --clients 32",
                   "moka bench serve http://127.0.0.1:8000/v2/models/lenet --rate 100,1000,5000 --seconds 20"};
  verb.options = {{"clients", "N", "connections (default 1; with --rate 64, which send when a request is due)"},
                  {"rate", "LIST", "requests a second, one measurement each: they come whether it keeps up or not"},
                  {"seconds", "S", "of each measurement (default 10)"},
                  {"rows", "N", "of a request (default 1)"},
                  {"text", "", "tensors as JSON rather than as bytes"},
                  {"body", "FILE", "what each request sends, to the address itself, of any server"},
                  {"ca", "FILE", "PEM: the authority of the certificate of https:// (default: those of this machine)"},
                  {"weights", "FILES", "of a model that does not carry its own"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"json", "", "print as JSON"}};
  verb.run = RunBenchServe;
  verb.most_words = 1;
  return verb;
}

}  // namespace moka
