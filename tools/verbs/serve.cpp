// moka serve: trained nets behind HTTP, from the first model that is loaded to the last answer after a signal.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "core/device/memory.h"
#include "core/error.h"
#include "core/exit_code.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "core/threads/team.h"
#include "core/threads/team_wait.h"
#include "optim/signals.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/infer/tasks.h"
#include "tools/serve/http_server.h"
#include "tools/serve/net_queue.h"
#include "tools/serve/repository.h"
#include "tools/serve/repository_watch.h"
#include "tools/serve/request_log.h"
#include "tools/serve/rpc_module.h"
#include "tools/serve/service.h"
#include "tools/serve/stop_signals.h"
#include "tools/serve/tls_keys.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

using Seconds = std::chrono::duration<double>;

// How a server ends: /ready says no for a while, so that whoever sends requests here learns it, then no connection is
// accepted, and what was accepted is answered.
struct Ending {
  Seconds grace{5};
  Seconds drain{30};
};

// The servers of HTTP and, where it is asked for, of gRPC.
struct Servers {
  HttpServer& http;
  RpcServer* rpc;

  void StopAccepting(std::chrono::milliseconds most) const {
    http.StopAccepting();
    if (rpc != nullptr) rpc->StopAccepting(most);
  }
  int64_t WaitForAnswers(std::chrono::milliseconds most) const {
    const auto until = std::chrono::steady_clock::now() + most;
    const int64_t left = http.WaitForAnswers(most);
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    return left + (rpc == nullptr ? 0 : rpc->WaitForAnswers(std::max(rest, std::chrono::milliseconds(0))));
  }
};

// Ends the server in its steps. Returns the exit code.
int EndServer(int signal, const Ending& ending, Service& service, const Servers& servers, NetQueue& queue) {
  constexpr std::chrono::milliseconds kBreakOff{1000};  // for those who are told that they get no answer
  service.BeginDraining();
  if (servers.rpc != nullptr) servers.rpc->LookAtHealth();
  // A person at a terminal waits for no load balancer.
  const Seconds grace = signal == SIGTERM ? ending.grace : Seconds(0);
  LogInfo(fmt::format("ending: {}no new requests, {} wait",
                      grace.count() > 0 ? fmt::format("in {:g} s ", grace.count()) : "", queue.waiting()));
  std::this_thread::sleep_for(grace);
  const auto drain = std::chrono::duration_cast<std::chrono::milliseconds>(ending.drain);
  servers.StopAccepting(drain + kBreakOff);
  const int64_t left = servers.WaitForAnswers(drain);
  queue.Stop(left > 0);
  if (left == 0) {
    servers.http.WaitForClients();
    return 0;
  }
  const int64_t running = servers.WaitForAnswers(kBreakOff);
  if (running == 0) servers.http.WaitForClients();
  LogWarning(StrCat(Counted(left, "request", "requests"), " had no answer in time and ", left == 1 ? "was" : "were",
                    " refused or broken off"));
  // A net that runs for long is not waited for.
  if (running > 0) std::_Exit(static_cast<int>(ErrorKind::kInterrupted));
  return static_cast<int>(ErrorKind::kInterrupted);
}

// Ends the server on the first signal, the process on the second. Returns the exit code for the first; 0 when woken.
int EndOnSignal(StopSignals& signals, const std::function<int(int signal)>& end) {
  int code = 0;
  std::thread ender;
  for (int signal = signals.Next(); signal != 0; signal = signals.Next()) {
    if (ender.joinable()) std::_Exit(kKilledByInterrupt);
    ender = std::thread([&code, &end, signal] { code = end(signal); });
  }
  if (ender.joinable()) ender.join();
  return code;
}

bool IsOwnMachine(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

// A model needs at least its weights, and again as much where kernels order them anew. Errors: kUnavailable where that
// much memory is not to be had: a load that is killed for it would take the others along.
void CheckMemory(const std::string& name, const InferSource& source) {
  const int64_t bytes = 2 * WeightsBytes(source);
  const int64_t free_bytes = ReadMemoryFacts("/").available_bytes;
  if (bytes <= free_bytes) return;
  throw Error(
      ErrorKind::kUnavailable, {},
      StrCat("model ", name, " needs about ", BytesText(bytes), " of memory, and ", BytesText(free_bytes), " are free"),
      "unload another, or serve it from another machine");
}

InferSource SourceOf(const ModelPlace& place, const Arguments& arguments) {
  Arguments of_model = arguments;
  of_model.positionals = std::vector<std::string>{place.word};
  return InferSourceOf(of_model);
}

std::shared_ptr<ServedModel> LoadModel(const std::string& name, const ModelPlace& place, const ModelSettings& settings,
                                       const Arguments& arguments, int64_t most_rows) {
  const auto begin = std::chrono::steady_clock::now();
  CheckMemory(name, SourceOf(place, arguments));
  auto model =
      std::make_shared<ServedModel>(name, StrCat(place.version), SourceOf(place, arguments), most_rows, settings);
  std::vector<std::string> batches;
  for (const Rung& rung : model->rungs()) batches.push_back(fmt::format("{}: {:.3g} ms", rung.rows, rung.ms));
  LogInfo(fmt::format("{} {} is ready ({:.1f} s, {}){}", name, place.version,
                      Seconds(std::chrono::steady_clock::now() - begin).count(),
                      BytesText(model->counts().Now().memory_bytes),
                      batches.empty() ? "" : StrCat("; batches of ", Join(batches, ", "))));
  return model;
}

// "-1,3,224,224": -1 stands for the rows.
std::string ShapeText(const ServedTensor& tensor) {
  std::string text = "-1";
  for (const int64_t side : tensor.row) text += StrCat(",", side);
  return text;
}

// A command that shows how to try a model.
std::string TryLine(const ServedModel& model, const std::string& address) {
  if (model.answers() == nullptr) return fmt::format("curl {}/v2/models/{}", address, model.name());
  const bool is_picture = model.answers()->kind() == AskedKind::kPicture;
  return fmt::format("curl -T {} {}/v2/models/{}/predict", is_picture ? "PICTURE" : "TEXTFILE", address, model.name());
}

// Loads a model. A version of it that fails is warned of where others answer. Errors: those of ModelRepository::Load.
void LoadAtStart(const std::string& name, ModelRepository& repository) {
  try {
    repository.Load(name);
  } catch (const Error& error) {
    if (repository.Ready(name).empty()) throw;
    LogWarning(StrCat("a version of ", name, " was not loaded: ", error.what()));
  }
}

// Loads and shows all that would be served.
int PrintModels(const ModelPlaces& places, ModelRepository& repository) {
  for (const auto& [name, home] : places.models) LoadAtStart(name, repository);
  for (const std::shared_ptr<ServedModel>& model : repository.Ready()) {
    Print("{} {}: {}\n", model->name(), model->version(), BytesText(model->counts().Now().memory_bytes));
    for (const ServedTensor& input : model->inputs()) Print("  input {} [{}]\n", input.name, ShapeText(input));
    for (const ServedTensor& output : model->outputs()) Print("  output {} [{}]\n", output.name, ShapeText(output));
    for (const Rung& rung : model->rungs()) Print("  {} in {:.3g} ms\n", Counted(rung.rows, "row", "rows"), rung.ms);
  }
  return 0;
}

struct ServeSettings {
  HttpServerOptions http;
  std::optional<uint16_t> rpc_port;
  NetQueueLimits limits;
  Ending ending;
  Tokens tokens;
  std::string certificate = {};  // files of TLS; empty: without
  std::string key = {};
  bool allows_load = false;
  bool shares_memory = false;
  bool is_dry = false;
  int64_t most_rows = 16;
  bool watches = false;
  ModelPlaces places;
};

ModelSettings SettingsOfHome(const ModelHome& home, const Arguments& arguments) {
  return ReadModelSettings(SettingsFileOf(home, arguments.Get("runs", "runs")));
}

// The flags that models take are read, and what is missing is found, before a port is taken. Errors: those of
// InferSourceOf for a model none of whose versions is there.
void CheckVersions(const ModelHome& home, const Arguments& arguments) {
  std::exception_ptr failed;
  for (const ModelPlace& place : ChosenPlaces(home, SettingsOfHome(home, arguments).versions)) {
    try {
      (void)SourceOf(place, arguments);
      return;
    } catch (const Error&) {
      failed = std::current_exception();
    }
  }
  std::rethrow_exception(failed);
}

ServeSettings SettingsOf(const Arguments& arguments) {
  ServeSettings settings;
  (void)arguments.Word(0, "a run, a model or a folder of models");
  HttpServerOptions& http = settings.http;
  http.host = arguments.Get("host", "127.0.0.1");
  http.port = static_cast<uint16_t>(arguments.Int("port", 8000, 0, 65535));
  http.limits.body_bytes = static_cast<uint64_t>(arguments.Int("most-mb", 64, 1, 1 << 16)) << 20;
  http.limits.bodies_bytes = 8 * http.limits.body_bytes;
  http.threads = 2;
  if (arguments.Has("grpc-port")) settings.rpc_port = static_cast<uint16_t>(arguments.Int("grpc-port", 0, 0, 65535));
  if (arguments.Has("most-wait"))
    settings.limits.most_wait = std::chrono::milliseconds(arguments.Int("most-wait", 0, 1, 3600 * 1000));
  settings.most_rows = arguments.Int("most-rows", 16, 1, 4096);
  settings.ending = {Seconds(arguments.Number("grace", 5, 0, 3600)), Seconds(arguments.Number("drain", 30, 0, 86400))};
  settings.allows_load = arguments.Has("allow-load");
  settings.shares_memory = arguments.Has("shared-memory");
  settings.watches = arguments.Has("watch");
  if (arguments.Has("token-file")) settings.tokens = Tokens(arguments.Get("token-file"));
  if (arguments.Has("trusted-proxy")) {
    http.proxies =
        ValueOfFlag("trusted-proxy", [&] { return TrustedProxies(Split(arguments.Get("trusted-proxy"), ',')); });
  }
  if (arguments.Has("tls-cert") != arguments.Has("tls-key"))
    throw Error(ErrorKind::kUsage, {}, "--tls-cert and --tls-key belong together", "a certificate and its key, in PEM");
  settings.certificate = arguments.Get("tls-cert");
  settings.key = arguments.Get("tls-key");
  if (!settings.certificate.empty()) http.tls = std::make_shared<TlsKeys>(settings.certificate, settings.key);
  if (arguments.Has("request-log")) {
    const auto log = std::make_shared<RequestLog>(arguments.Get("request-log"));
    http.log = [log](const LoggedRequest& request) { log->Write(request); };
  }
  if (!IsOwnMachine(http.host) && settings.tokens.empty()) {
    throw Error(ErrorKind::kConfig, {},
                StrCat("--host ", Printable(http.host), " would let everyone who reaches this machine ask its models"),
                "--token-file FILE says who may, or serve at 127.0.0.1 behind a server that knows (docs/serving.md)");
  }
  settings.places = PlacesOf(arguments.positionals.All(),
                             arguments.Has("name") ? Split(arguments.Get("name"), ',') : std::vector<std::string>());
  for (const auto& [name, home] : settings.places.models) CheckVersions(home, arguments);
  if (settings.watches && settings.places.folders.empty())
    throw Error(ErrorKind::kUsage, {}, "--watch is of folders MODEL/VERSION/..., and none is given",
                "a run or a model alone is loaded again by --allow-load and POST /v2/repository/models/NAME/load");
  settings.is_dry = arguments.Has("dry-run");
  arguments.RefuseUnread();
  return settings;
}

// Serves until a signal. Returns the exit code.
int Serve(const ServeSettings& settings, ModelRepository& repository) {
  MindOthersAlone();
  StopSignals signals;
  SharedRegions regions({.tensor_bytes = static_cast<int64_t>(settings.http.limits.body_bytes),
                         .copied_bytes = static_cast<int64_t>(settings.http.limits.bodies_bytes)});
  NetQueue queue(settings.limits);
  Service service(repository, queue, settings.allows_load, settings.tokens,
                  settings.shares_memory ? &regions : nullptr);
  HttpServerOptions options = settings.http;
  options.gate = [&](HttpRequest& head) { return service.Gate(head); };
  HttpServer server(
      options, [&](HttpRequest request, const HttpRespond& respond) { service.Handle(std::move(request), respond); });
  service.Count(server);
  const std::string& host = settings.http.host;
  std::unique_ptr<RpcServer> rpc;
  if (settings.rpc_port) {
    rpc = MakeRpcServer({.host = host,
                         .port = *settings.rpc_port,
                         .message_bytes = settings.http.limits.body_bytes,
                         .version = MOKA_VERSION,
                         .certificate = settings.certificate,
                         .key = settings.key},
                        service);
  }
  const std::string machine = host.find(':') != std::string::npos ? StrCat("[", host, "]") : host;
  const std::string address = StrCat(options.tls ? "https://" : "http://", machine, ":", int64_t{server.port()});
  int code = 0;
  std::thread ender([&] {
    code = EndOnSignal(signals, [&](int signal) {
      return EndServer(signal, settings.ending, service, {server, rpc.get()}, queue);
    });
  });
  std::exception_ptr failed;
  try {
    if (rpc) LogInfo(StrCat("gRPC at ", machine, ":", int64_t{rpc->port()}));
    LogInfo(StrCat("listening at ", address));
    for (const auto& [name, home] : settings.places.models) {
      if (!queue.is_stopping()) LoadAtStart(name, repository);
    }
    for (const auto& [name, home] : settings.places.models) {
      if (const auto model = repository.Find(name)) LogInfo(StrCat("try: ", TryLine(*model, address)));
    }
    service.BeginServing();
    std::optional<RepositoryWatch> watch;
    if (settings.watches)
      watch.emplace(settings.places.folders, [&](const RepositoryWatch::Moved& moved) {
        return moved.version == 0 ? repository.Load(moved.model) : repository.LoadVersion(moved.model, moved.version);
      });
    queue.Run();
  } catch (...) {
    failed = std::current_exception();
  }
  signals.Wake();
  ender.join();
  service.WaitForLoads();
  if (failed) std::rethrow_exception(failed);
  return code;
}

int RunServe(const Arguments& arguments) {
  const ServeSettings settings = SettingsOf(arguments);
  // OpenMP asks each thread that begins a team for its size: loads have threads of their own.
  const auto load = [&, threads = ThreadCount()](const std::string& name, const ModelPlace& place,
                                                 const ModelSettings& of_model) {
    SetThreadCount(threads);
    return LoadModel(name, place, of_model, arguments, settings.most_rows);
  };
  ModelRepository repository(
      settings.places,
      {.settings = [&](const ModelHome& home) { return SettingsOfHome(home, arguments); }, .load = load});
  return settings.is_dry ? PrintModels(settings.places, repository) : Serve(settings, repository);
}

}  // namespace

Verb ServeVerb() {
  Verb verb;
  verb.name = "serve";
  verb.summary = "trained nets behind HTTP or gRPC, by the Open Inference Protocol";
  verb.usage = "RUN|MODEL|FOLDER... [--flags]";
  verb.examples = {"moka serve runs/latest", "curl -T cell.jpg http://127.0.0.1:8000/v2/models/bccd_ssd/predict"};
  verb.operands = {
      {"RUN|MODEL", "as moka infer takes them, called by its folder's name"},
      {"FOLDER", "of models: MODEL/VERSION/..., the highest number of each, or as MODEL/serve.pbtxt says"}};
  verb.options = {{"host", "ADDRESS", "where to listen (default 127.0.0.1: this machine alone)"},
                  {"port", "N", "(default 8000; 0: any that is free)"},
                  {"grpc-port", "N", "also serve gRPC there (0: any that is free)"},
                  {"name", "NAMES", "what they are called in addresses, a comma list (default: as their folders)"},
                  {"most-rows", "N", "the largest batch (default 16; less where more is not faster)"},
                  {"most-wait", "MS", "what would wait longer is refused (default: 2 of its longest runs; 100)"},
                  {"most-mb", "N", "the largest request (default 64)"},
                  {"grace", "S", "after SIGTERM /v2/health/ready says no for so long, and all is answered (default 5)"},
                  {"drain", "S", "then answers have so long to be made (default 30)"},
                  {"token-file", "FILE", "who may ask: lines NAME:SHA256:ROLE, the role user or admin (admins load)"},
                  {"tls-cert", "FILE", "PEM: speak HTTPS with this certificate (and those that signed it)"},
                  {"tls-key", "FILE", "PEM: its private key"},
                  {"trusted-proxy", "CIDR", "networks whose X-Forwarded-For says who asks (\"10.0.0.0/8\")", ','},
                  {"request-log", "FILE", "a line of JSON for each request (/dev/stdout: on the standard output)"},
                  {"allow-load", "", "models are loaded again and unloaded through /v2/repository"},
                  {"shared-memory", "", "tensors may lie in shared memory of this machine, which clients register"},
                  {"watch", "", "a version that is moved (mv) into MODEL of a FOLDER is loaded"},
                  {"dry-run", "", "load and time the models, show them, and end"},
                  {"weights", "FILES", "of a model that does not carry its own"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"labels", "FILE", ""},
                  {"mean", "VALUES", ""},
                  {"scale", "X", ""},
                  {"resize", "HxW", ""},
                  {"resize-short", "N", ""}};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    const bool looks = option.name == "recompute" || option.name == "dry-run" || option.name == "explain" ||
                       option.name == "trace" || option.name == "dump-after" || option.name == "columns";
    if (looks) continue;
    verb.options.push_back(option);
    // They are for whoever looks into nets; a server takes them, and its help is one screen.
    const bool is_rare = option.name == "disable-pass" || option.name == "disable-kernel" ||
                         option.name == "prefer-kernel" || option.name == "kernels";
    if (is_rare) verb.options.back().doc.clear();
  }
  verb.run = RunServe;
  verb.takes_fields = TakenFields::kNone;
  return verb;
}

}  // namespace moka
