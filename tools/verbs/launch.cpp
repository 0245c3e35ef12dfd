// moka launch: checks the hosts, starts a verb as many ranks under mpirun or srun, and starts it again when one is
// lost.
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/standard_streams.h"
#include "core/text.h"
#include "data/files/list_text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/cli/version.h"
#include "tools/launch/ask_hosts.h"
#include "tools/launch/child.h"
#include "tools/launch/command.h"
#include "tools/launch/job_files.h"
#include "tools/launch/launched_run.h"
#include "tools/launch/preflight.h"
#include "tools/launch/supervisor.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRanks = 16384;
constexpr double kVersionTimeoutS = 20;

// A folder of this launch's own for the hostfile; gone with it.
class LaunchFolder {
 public:
  LaunchFolder() {
    std::string pattern = (fs::temp_directory_path() / "moka-launch-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw Error(ErrorKind::kCantCreate, StrCat("cannot create a folder in ", fs::temp_directory_path().string()));
    path_ = pattern;
  }
  LaunchFolder(const LaunchFolder&) = delete;
  LaunchFolder& operator=(const LaunchFolder&) = delete;
  ~LaunchFolder() {
    std::error_code code;
    fs::remove_all(path_, code);
  }
  fs::path hostfile() const { return path_ / "hostfile"; }

 private:
  fs::path path_;
};

// The nodes of the Slurm job that this process is in; 0 outside of one.
int SlurmNodes() {
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");  // NOLINT(concurrency-mt-unsafe)
  return nodes == nullptr ? 0 : std::max(0, std::atoi(nodes));
}

bool IsInSlurmJob() { return std::getenv("SLURM_JOB_ID") != nullptr; }  // NOLINT(concurrency-mt-unsafe)

// Whether srun starts the ranks; by itself only inside a Slurm job.
bool UsesSrun(const Arguments& arguments) {
  const std::string name = arguments.Get("launcher", "auto");
  if (name == "srun") return true;
  if (name == "mpirun") return false;
  if (name != "auto") {
    throw Error(ErrorKind::kUsage, {}, StrCat("--launcher wants mpirun, srun or auto, found \"", Printable(name), "\""),
                DidYouMean(name, {"mpirun", "srun", "auto"}));
  }
  return arguments.Has("sbatch") || IsInSlurmJob();
}

std::vector<HostSlots> HostsOf(const Arguments& arguments, int ranks) {
  if (arguments.Has("hosts") && arguments.Has("hostfile"))
    throw Error(ErrorKind::kUsage, "--hosts and --hostfile both say where ranks run; give one of them");
  if (arguments.Has("hosts")) return ParseHosts(arguments.Get("hosts"));
  if (!arguments.Has("hostfile")) return {{"localhost", std::max(1, ranks)}};
  return ParseHostfile(ReadListText(arguments.Get("hostfile")), arguments.Get("hostfile"));
}

// Returns the words that each rank runs: those after --.
std::vector<std::string> LaunchedWords(const Arguments& arguments) {
  const auto dashes = std::ranges::find(arguments.words, "--");
  if (dashes == arguments.words.end()) {
    throw Error(ErrorKind::kUsage, {}, "what each rank runs comes after --",
                StrCat("moka launch -n 4 -- ",
                       arguments.positionals.empty() ? "train models/lenet" : Join(arguments.positionals, " ")));
  }
  const auto behind = static_cast<size_t>(arguments.words.end() - dashes) - 1;
  if (arguments.positionals.size() > behind) {
    throw Error(ErrorKind::kUsage, {}, StrCat("\"", Printable(arguments.positionals[0]), "\" stands in front of --"),
                "what each rank runs comes after it");
  }
  (void)arguments.positionals.All();
  return {dashes + 1, arguments.words.end()};
}

void RefuseFlagsOfRanks(const Arguments& arguments) {
  for (const char* flag : {"threads", "pin"}) {
    if (!arguments.Has(flag)) continue;
    throw Error(ErrorKind::kUsage, {}, StrCat("--", flag, " is for ranks: it comes after --"),
                StrCat("moka launch -n 4 -- train models/lenet --", flag, "=", arguments.Get(flag)));
  }
}

LaunchPlan PlanOf(const Arguments& arguments, const LaunchedVerb& verb) {
  LaunchPlan plan;
  plan.uses_srun = UsesSrun(arguments);
  plan.program = plan.uses_srun ? arguments.Get("srun", "srun") : arguments.Get("mpirun", "mpirun");
  plan.moka = fs::read_symlink("/proc/self/exe").string();
  const std::string flag = arguments.Has("n") ? "n" : "np";
  const auto wanted = static_cast<int>(arguments.Int(flag, 0, 1, kMostRanks));
  plan.hosts = HostsOf(arguments, wanted);
  plan.ranks = wanted > 0 ? wanted : SlotCount(plan.hosts);
  if (wanted == 0 && !arguments.Has("hosts") && !arguments.Has("hostfile"))
    throw Error(ErrorKind::kUsage, {}, "how many ranks? say -n N", "moka launch -n 4 -- train models/lenet");
  PlaceRanks(plan.hosts, plan.ranks);
  plan.is_root = geteuid() == 0;
  plan.nodes = static_cast<int>(arguments.Int("nodes", 0, 1, kMostRanks));
  plan.cpus_per_task = static_cast<int>(arguments.Int("cpus-per-task", 0, 1, kMostRanks));
  plan.words = verb.words;
  return plan;
}

// Writes the files for schedulers that were asked for. Returns whether there were any.
bool WriteJobFiles(const Arguments& arguments, const LaunchPlan& plan, const LaunchedVerb& verb) {
  JobFile job;
  job.moka = plan.moka;
  job.ranks = plan.ranks;
  job.nodes = std::max(1, plan.nodes);
  job.cpus_per_task = plan.cpus_per_task;
  job.gpus_per_node = static_cast<int>(arguments.Int("gpus-per-node", 0, 0, kMostRanks));
  job.restarts = static_cast<int>(arguments.Int("restarts", 0, 0, 1000));
  job.time = arguments.Get("time");
  job.image = arguments.Get("image");
  job.claim = arguments.Get("claim");
  const auto write = [&](const char* flag, std::string (*text)(const JobFile&, const LaunchedVerb&), const char* next) {
    if (!arguments.Has(flag)) return false;
    if (arguments.Has("dry-run")) {
      PrintLines(text(job, verb));
    } else {
      WriteFileAtomically(arguments.Get(flag), text(job, verb));
      LogInfo(StrCat("wrote ", arguments.Get(flag), " · ", next, " ", arguments.Get(flag)));
    }
    return true;
  };
  const bool is_batch = write("sbatch", SbatchText, "submit: sbatch");
  return write("manifest", ManifestText, "start: kubectl apply -f") || is_batch;
}

// The facts of every host, which for a Slurm job become the hosts of the plan.
std::vector<HostFacts> AskAll(const AskOptions& ask, LaunchPlan& plan) {
  if (!plan.uses_srun) return AskHosts(plan.hosts, ask);
  const int nodes = plan.nodes > 0 ? plan.nodes : SlurmNodes();
  std::vector<HostFacts> facts = AskNodes(nodes, ask);
  plan.hosts.clear();
  for (const HostFacts& node : facts) plan.hosts.push_back({node.host, (plan.ranks + nodes - 1) / nodes});
  return facts;
}

// Asks the hosts and judges what they say. Sets the network of the plan, and the hosts of a Slurm job.
std::vector<Check> CheckAll(const Arguments& arguments, const LaunchedVerb& verb, LaunchPlan& plan) {
  AskOptions ask;
  ask.ssh = arguments.Get("ssh", "ssh");
  ask.srun = plan.program;
  ask.moka = plan.moka;
  const CommandOutput version = RunCommands({{plan.program, "--version"}}, kVersionTimeoutS).at(0);
  std::vector<Check> checks = {CheckLauncher(plan.program, version.code, version.out)};
  if (!AllPass(checks)) return checks;
  if (plan.uses_srun && SlurmNodes() == 0) {
    checks.push_back({Verdict::kNote, "hosts", "not checked: srun asks Slurm for nodes when it starts", ""});
    return checks;
  }
  std::vector<HostFacts> facts = AskAll(ask, plan);
  const NetworkChoice network = ChooseNetwork(facts, arguments.Get("network"));
  const bool all_answer = std::ranges::all_of(facts, [](const HostFacts& host) { return host.missing.empty(); });
  if (!network.network.empty() && !plan.uses_srun && all_answer) ProbePairs(network.addresses, ask, facts);
  plan.network = network.network;
  checks.push_back(CheckHosts(facts, ask.ssh));
  checks.push_back(CheckBuild(facts, VersionJson(), plan.moka));
  checks.push_back(CheckSharedMemory(facts, plan.hosts));
  checks.push_back(CheckClocks(facts));
  checks.push_back(CheckDevices(facts, plan.hosts, verb.uses_gpus));
  // Slurm's nodes know their network, and may be several on one machine in tests.
  if (!plan.uses_srun) checks.push_back(CheckNetwork(facts, network));
  return checks;
}

void PrintPlan(const Arguments& arguments, const LaunchPlan& plan, const std::vector<Check>& checks) {
  if (!arguments.Has("json")) {
    if (arguments.Has("dry-run")) Print("{}\n", ShellLine(LaunchWords(plan)));
    return;
  }
  nlohmann::ordered_json json;
  json["command"] = LaunchWords(plan);
  json["ranks"] = PlaceRanks(plan.hosts, plan.ranks);
  json["network"] = plan.network;
  json["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : checks) {
    const char* verdict = check.verdict == Verdict::kOk ? "ok" : check.verdict == Verdict::kNote ? "note" : "failed";
    json["checks"].push_back(
        {{"name", check.name}, {"verdict", verdict}, {"text", check.text}, {"remedy", check.remedy}});
  }
  PrintJson(json, -1);
  FlushStandardOutput();  // before the ranks write
}

int PrintFacts(const Arguments& arguments) {
  const std::string reach = arguments.Get("reach");
  Print("{}\n", HostFactsLine(ReadHostFacts(reach.empty() ? std::vector<std::string>() : Split(reach, ','))));
  return 0;
}

// Checks the hosts and says the outcome.
std::vector<Check> Preflight(const Arguments& arguments, const LaunchedVerb& verb, LaunchPlan& plan) {
  const std::string mode = arguments.Get("preflight", "on");
  if (mode != "on" && mode != "off")
    throw Error(ErrorKind::kUsage, StrCat("--preflight wants on or off, found \"", Printable(mode), "\""));
  if (mode == "off") return {};
  std::vector<Check> checks = CheckAll(arguments, verb, plan);
  for (const Check& check : checks) LogInfo(CheckLine(check));
  return checks;
}

// Errors: kUnavailable with every check that failed.
void RefuseFailed(const std::vector<Check>& checks) {
  std::vector<Error> errors;
  for (const Check& check : checks) {
    if (check.verdict != Verdict::kFailed) continue;
    errors.emplace_back(ErrorKind::kUnavailable, SourcePlace{}, StrCat(check.name, ": ", check.text), check.remedy);
  }
  if (errors.empty()) return;
  errors.back().AddNote("nothing was started; --preflight=off starts the ranks all the same");
  throw ErrorList(std::move(errors));
}

int RunLaunch(const Arguments& arguments) {
  if (arguments.Has("facts")) return PrintFacts(arguments);
  const HeldSignals held;
  RefuseFlagsOfRanks(arguments);
  const LaunchedVerb verb = ReadLaunchedVerb(LaunchedWords(arguments));
  RestartOptions restart;
  restart.restarts = static_cast<int>(arguments.Int("restarts", 0, 0, 1000));
  restart.shrinks = arguments.Has("shrink");
  LaunchPlan plan = PlanOf(arguments, verb);
  if (WriteJobFiles(arguments, plan, verb)) return 0;
  const std::vector<Check> checks = Preflight(arguments, verb, plan);
  const LaunchFolder folder;
  if (NeedsHosts(plan) && !arguments.Has("dry-run")) {
    plan.hostfile = folder.hostfile().string();
    WriteFileAtomically(plan.hostfile, HostfileText(plan.hosts));
    LogInfo(StrCat("hostfile: ", Join(Split(Trim(HostfileText(plan.hosts)), '\n'), ", ")));
  }
  PrintPlan(arguments, plan, checks);
  RefuseFailed(checks);
  return arguments.Has("dry-run") ? 0 : Supervise(plan, verb, restart);
}

}  // namespace

Verb LaunchVerb() {
  Verb verb;
  verb.name = "launch";
  verb.summary = "check hosts, start ranks under mpirun or srun, and again when one is lost";
  verb.usage = "-n N [--hosts A:2,B:2] [--flags] -- VERB ARGUMENTS";
  verb.examples = {"moka launch -n 4 -- train models/lenet",
                   "moka launch -n 4 --hosts a:2,b:2 --restarts 3 -- train models/resnet50",
                   "moka launch -n 8 --nodes 2 --sbatch job.sh -- train models/resnet50"};
  verb.options = {{"n", "N", "ranks (default: the slots of --hosts or --hostfile)"},
                  {"np", "N", ""},  // mpirun's spelling
                  {"hosts", "A:2,B:2", "hosts and ranks on each (default: all ranks here)"},
                  {"hostfile", "FILE", "the same as lines \"a slots=2\""},
                  {"launcher", "NAME", "mpirun, srun or auto (default: srun inside a Slurm job)"},
                  {"mpirun", "PROGRAM", "Open MPI's mpirun (default: of the path)"},
                  {"srun", "PROGRAM", "Slurm's srun"},
                  {"ssh", "PROGRAM", "what runs a command on another host (default ssh)"},
                  {"network", "ADDRESS/BITS", "the network ranks talk over (default: the fastest common one)"},
                  {"preflight", "MODE", "on (default) or off"},
                  {"restarts", "N", "start again at most N times when a rank is lost"},
                  {"shrink", "", "with one rank fewer each time"},
                  {"nodes", "N", "of a Slurm job"},
                  {"cpus-per-task", "N", "of a Slurm job or a manifest"},
                  {"gpus-per-node", "N", "of a Slurm job or a manifest"},
                  {"time", "TIME", "of a Slurm job"},
                  {"sbatch", "FILE", "write a script for sbatch, start nothing"},
                  {"manifest", "FILE", "write an MPIJob for Kubernetes, start nothing"},
                  {"image", "NAME:TAG", "container image of the manifest"},
                  {"claim", "NAME", "its volume claim, mounted as the working folder"},
                  {"dry-run", "", "check, print the command (or the file), start nothing"},
                  {"json", "", "print the plan as one JSON object"},
                  {"facts", "", ""},            // what a host says to the launching one
                  {"reach", "ADDRESSES", ""}};  // and whether it reaches these
  verb.computes = false;
  verb.run = RunLaunch;
  return verb;
}

}  // namespace moka
