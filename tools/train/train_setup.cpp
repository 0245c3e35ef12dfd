// The order is fixed: run, solver with overrides, nets, files for config/, checkpoint. All of it is read before the
// run's folder is made, so that a mistake leaves nothing behind.
#include "tools/train/train_setup.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/quiet_scope.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "data/layer_fields.h"
#include "data/pipeline/text_layers.h"
#include "data/records/class_names.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/net_weights.h"
#include "optim/precision.h"
#include "proto/nets/filter.h"
#include "proto/nets/model_card.h"
#include "proto/nets/net_file.h"
#include "proto/text/overrides.h"
#include "proto/text/places.h"
#include "proto/text/text_format.h"
#include "tools/cli/device_choice.h"
#include "tools/cli/version.h"
#include "tools/exchange/torch_names.h"
#include "tools/measure/auto_precision.h"
#include "tools/nets/checkpoint_source.h"
#include "tools/nets/models_folder.h"
#include "tools/nets/net_source.h"
#include "tools/train/overrides.h"
#include "tools/train/program_options.h"
#include "tools/train/record_sizes.h"
#include "tools/train/train_data_checks.h"

namespace moka {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOverridesFile = "overrides.txt";

// The name of a run: --run, else the folder of the solver.
std::string RunName(const Arguments& arguments, const fs::path& solver) {
  if (arguments.Has("run")) return arguments.Get("run");
  std::string parent = fs::absolute(solver).parent_path().filename().string();
  std::ranges::replace_if(
      parent, [](char c) { return !IsOfRunName(c); }, '_');
  if (!parent.empty() && !IsRunName(parent)) parent.insert(0, "run");  // ".hidden", "-x", "latest"
  return parent.empty() ? "run" : parent;
}

// Reads the nets as written (all phases) and points the solver at copies that will lie beside it in the run's config/.
void CollectNetFiles(const NetReadOptions& options, TrainSetup& setup) {
  const QuietScope quiet;  // they have been read before, for their phases
  SolverParameter& solver = setup.solver;
  const auto add = [&](const std::string& name, const NetParameter& net) {
    setup.net_files.emplace_back(name, NetToText(net));
    return name;
  };
  const auto read = [&](const std::string& file, std::string_view field) {
    return ReadNet(ResolveBeside(solver, file, field), options);
  };
  if (solver.has_net()) solver.set_net(add("net.prototxt", read(solver.net(), "net")));
  const auto finished = [&](const NetParameter& net, const char* field) { return FinishNet(net, field, options); };
  if (solver.has_net_param()) {
    solver.set_net(add("net.prototxt", finished(solver.net_param(), "net_param")));
    solver.clear_net_param();
  }
  if (solver.has_train_net()) solver.set_train_net(add("train_net.prototxt", read(solver.train_net(), "train_net")));
  if (solver.has_train_net_param()) {
    solver.set_train_net(add("train_net.prototxt", finished(solver.train_net_param(), "train_net_param")));
    solver.clear_train_net_param();
  }
  for (TrainTurn& turn : *solver.mutable_turn()) {
    if (turn.has_net()) turn.set_net(add(StrCat(turn.name(), "_net.prototxt"), read(turn.net(), "turn")));
  }
  // Those that the solver holds are tested before those that it names.
  std::vector<NetParameter> tested;
  for (const NetParameter& net : solver.test_net_param()) tested.push_back(finished(net, "test_net_param"));
  for (int i = 0; i < solver.test_net_size(); ++i) {
    tested.push_back(read(solver.test_net(i), StrCat("test_net[", i, "]")));
  }
  solver.clear_test_net_param();
  solver.clear_test_net();
  for (size_t i = 0; i < tested.size(); ++i) solver.add_test_net(add(StrCat("test_net_", i, ".prototxt"), tested[i]));
}

// The files of weights that the solver names, as they are found from here: its copy lies elsewhere.
void ResolveSolverWeights(SolverParameter& solver) {
  for (int i = 0; i < solver.weights_size(); ++i) {
    const std::string field = StrCat("weights[", i, "]");
    std::vector<std::string> files;
    for (const std::string& file : WeightFileNames(solver.weights(i), ErrorKind::kConfig, PlaceOf(solver, field))) {
      files.push_back(ResolveBeside(solver, file, field).string());
    }
    const std::string found = Join(files, ",");
    if (found != solver.weights(i)) solver.set_weights(i, found);
  }
}

// Collects the card beside the solver, which says what the net is for, the names that PyTorch has for its weights, and
// the names of its classes, which inference shows: they go into the run's config/ too.
void CollectCardAndNames(const fs::path& folder, TrainSetup& setup) {
  std::error_code code;
  const fs::path card = folder / kModelCardFile;
  if (fs::exists(fs::symlink_status(card, code))) {
    (void)ReadModelCard(card);  // a mistake in it is told before the training, not after
    setup.net_files.emplace_back(kModelCardFile, ReadTextFile(card, "a model's card"));
  }
  const fs::path torch = folder / kTorchNamesFile;
  if (fs::exists(fs::symlink_status(torch, code))) {
    setup.net_files.emplace_back(kTorchNamesFile, ReadTextFile(torch, "a table of names"));
  }
  std::vector<std::string> names;
  for (const LayerParameter& layer : setup.nets.train.layer()) {
    if (!names.empty() || layer.bottom_size() > 0) continue;
    names = ClassNamesOf(layer, {});
    // The class of pixels that count nowhere is none of the net's.
    const RecordDataParameter& records = layer.record_data_param();
    if (!names.empty() && records.has_ignore_label() && int64_t{records.ignore_label()} == std::ssize(names) - 1)
      names.pop_back();
  }
  const fs::path labels = folder / "labels.txt";
  if (fs::exists(fs::symlink_status(labels, code))) {
    const std::vector<std::string> beside = ReadNameLines(labels);
    if (names.empty()) {
      names = beside;
    } else if (names != beside) {  // it tells of other data, as where a model of the zoo is trained on one's own
      LogWarning(StrCat(Printable(labels.string()),
                        " names other classes than the training's data, whose names the run keeps"));
    }
  }
  if (!names.empty()) setup.net_files.emplace_back("labels.txt", Join(names, "\n") + "\n");
}

// The words of texts: with them in its config/ a run that was moved still reads and writes words. Of two layers' files
// of one name the second keeps its place alone.
void CollectVocabularies(TrainSetup& setup) {
  for (const LayerParameter& layer : setup.nets.train.layer()) {
    for (const LayerVocabulary& one : VocabulariesOf(layer)) {
      std::error_code code;
      if (!fs::is_regular_file(one.file, code)) continue;  // the layer that reads it tells, with its place
      const auto is_it = [&](const auto& each) { return each.first == one.copy; };
      if (std::ranges::none_of(setup.net_files, is_it)) setup.net_files.emplace_back(one.copy, ReadFile(one.file));
    }
  }
}

// Writes what inference needs of the data beside the net: mean images, and how large the records of the tests are. Of
// two mean files of one name the first is kept.
void KeepPicturesWay(const TrainSetup& setup, const RunFolder& run) {
  std::vector<const NetParameter*> nets;
  for (const NetParameter& test : setup.nets.tests) nets.push_back(&test);
  const std::string sizes = RecordSizesText(nets);
  if (!sizes.empty()) run.WriteConfig(kRecordSizesFile, sizes);
  nets.push_back(&setup.nets.train);
  std::set<std::string> names;
  for (const auto& [name, text] : setup.net_files) names.insert(name);
  for (const NetParameter* net : nets) {
    for (const LayerParameter& layer : net->layer()) {
      const fs::path file = layer.bottom_size() > 0 ? fs::path() : fs::path(PictureFieldsOf(layer).mean_file());
      std::error_code code;
      if (fs::is_regular_file(file, code) && names.insert(file.filename().string()).second)
        run.WriteConfig(file.filename().string(), ReadFile(file));
    }
  }
}

// The run whose folder --resume names: a path, a run's name, or the newest that is not finished.
fs::path FindRun(const Arguments& arguments, const std::string& name) {
  const std::string wanted = arguments.Get("resume");
  const fs::path runs = RunsFolder(arguments);
  std::error_code code;
  if (!wanted.empty() && wanted != "auto") {
    if (arguments.Has("run")) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--resume=", Printable(wanted),
                         " says which run goes on, so --run=", Printable(arguments.Get("run")), " has no use"),
                  StrCat("--from ", Printable(wanted), "@last --run ", Printable(arguments.Get("run")),
                         " starts a new run there"));
    }
    const std::optional<NamedRun> run = FindNamedRun(wanted, runs);
    if (run && !run->which.empty()) {
      throw Error(ErrorKind::kUsage, {},
                  StrCat("--resume goes on from a run's newest checkpoint, not from ", Printable(run->which)),
                  StrCat("--from ", Printable(wanted), " starts a new run there"));
    }
    if (run) return fs::weakly_canonical(run->folder, code);
    throw NoRunError(wanted, runs);
  }
  fs::path newest;
  RunProgress newest_progress;
  for (const fs::directory_entry& entry : fs::directory_iterator(runs, code)) {
    const std::string entry_name = entry.path().filename().string();
    const bool is_ours = name.empty() || (entry_name.starts_with(name + "-") && entry_name.size() == name.size() + 5);
    if (!entry.is_directory(code) || entry.is_symlink(code) || !is_ours) continue;
    const std::optional<RunProgress> progress = ReadProgress(entry.path());
    if (!progress || progress->state == "finished") continue;
    // If two spoke in the same second, the one of the larger number is taken.
    const bool is_newer = newest.empty() || std::pair(progress->heartbeat, entry.path().string()) >
                                                std::pair(newest_progress.heartbeat, newest.string());
    if (!is_newer) continue;
    newest = entry.path();
    newest_progress = *progress;
  }
  return newest;
}

// A run whose every checkpoint is damaged does not silently start again: the user decides.
void RefuseDamagedCheckpoints(const fs::path& folder) {
  const size_t manifests = ListFiles(folder, ".sha256").size();
  if (manifests == 0) return;  // it was stopped before its first checkpoint
  throw Error(ErrorKind::kBadData, {},
              StrCat("none of the ", manifests, " checkpoints in ", folder.string(), " is whole"),
              "to start again, train without --resume; to go on from one of them, restore its files");
}

// The overrides that a run was started with.
std::vector<std::string> OverridesOfRun(const fs::path& run) {
  std::vector<std::string> overrides;
  std::error_code code;
  const fs::path file = run / "config" / kOverridesFile;
  if (!fs::exists(file, code)) return overrides;
  for (std::string& line : Split(ReadLinesFile(file), '\n')) {
    if (!line.empty()) overrides.push_back(std::move(line));
  }
  return overrides;
}

fs::path OwnSolverOf(const fs::path& run_folder) { return run_folder / "config" / "solver.prototxt"; }

// Returns the solver that a resumed run goes on with. The run's own, in its config/, has its overrides in it already.
// One that the words name is read as the run once read it, so that what has changed in it or in its nets since either
// may change on resume and does, or is refused with its lines (CheckResume).
fs::path SolverOfResumed(const fs::path& named, std::vector<std::string>& overrides, TrainSetup& setup) {
  const std::vector<std::string> before = OverridesOfRun(setup.run_folder);
  const std::vector<std::string> all = Layered(before, overrides);
  // Those of a later session hold for it, and for what the run's own solver was made to say.
  setup.overrides = setup.resume ? before : all;
  if (named.empty()) return OwnSolverOf(setup.run_folder);
  std::vector<std::string> kept = all;
  kept.resize(all.size() - overrides.size());  // those of the words stand behind
  if (!kept.empty()) LogInfo(StrCat("as the run was started: ", Printable(Join(kept, " "))));
  overrides = all;
  return named;
}

// A run that is resumed with --stage has it in its solver by then.
void DropRepeatedStages(SolverParameter& solver) {
  std::vector<std::string> stages;
  for (const std::string& stage : solver.train_state().stage()) {
    if (std::ranges::find(stages, stage) == stages.end()) stages.push_back(stage);
  }
  if (static_cast<int>(stages.size()) == solver.train_state().stage_size()) return;
  solver.mutable_train_state()->clear_stage();
  for (const std::string& stage : stages) solver.mutable_train_state()->add_stage(stage);
}

}  // namespace

void RefuseUnfed(const NetParameter& net) {
  for (const LayerParameter& layer : net.layer()) {
    if (TraitsOf(layer).data != DataKind::kProgram) continue;
    throw Error(
        ErrorKind::kNoInput, PlaceOf(layer, "type"),
        StrCat("layer \"", Printable(layer.name()), "\": a program fills MemoryData, and a command line has none"),
        "read data by Data, HDF5Data or ImageData, or fill it from Python");
  }
}

fs::path RunsFolder(const Arguments& arguments) { return arguments.Get("runs", "runs"); }

fs::path SolverFileOf(const Arguments& arguments) {
  if (arguments.Has("solver")) return PathOfWord(arguments.Get("solver"));
  if (arguments.positionals.empty()) return {};
  return FindConfig(arguments.positionals[0], "solver.prototxt");
}

RunChoice ChooseRun(const Arguments& arguments) {
  const fs::path solver_file = SolverFileOf(arguments);
  RunChoice choice;
  if (arguments.Has("run")) CheckRunName(arguments.Get("run"));
  choice.name = solver_file.empty() ? arguments.Get("run") : RunName(arguments, solver_file);
  if (!arguments.Has("resume")) return choice;
  choice.resumed = FindRun(arguments, choice.name);
  if (choice.resumed.empty() && arguments.Get("resume") != "auto") {
    throw Error(ErrorKind::kNoInput, {},
                StrCat("no unfinished run", choice.name.empty() ? "" : " of " + choice.name, " in ",
                       RunsFolder(arguments).string()),
                "--resume=auto starts a new one then");
  }
  return choice;
}

namespace {

// The run that is resumed, if any, and the solver's file; `overrides` become those that the file is read with. Errors:
// kUsage without a solver, kBadData where all of the run's checkpoints are damaged.
fs::path ChooseSolver(const Arguments& arguments, std::vector<std::string>& overrides, TrainSetup& setup) {
  fs::path file = SolverFileOf(arguments);
  const RunChoice choice = ChooseRun(arguments);
  setup.run_name = choice.name;
  setup.run_folder = choice.resumed;
  if (!setup.run_folder.empty()) {
    setup.resume = FindNewestValid(setup.run_folder / "checkpoints");
    if (!setup.resume) RefuseDamagedCheckpoints(setup.run_folder / "checkpoints");
    setup.before = IdentityOfRun(setup.run_folder);
  }
  overrides = OverridesOf(arguments);
  setup.overrides = overrides;
  if (!setup.run_folder.empty()) file = SolverOfResumed(file, overrides, setup);
  if (file.empty())
    throw Error(ErrorKind::kUsage, {}, "missing argument: a solver.prototxt or a folder with one",
                "see moka train --help");
  return file;
}

void ReadSolverOf(const fs::path& file, const std::vector<std::string>& overrides, TrainSetup& setup) {
  SolverReadOptions options;
  options.overrides = overrides;
  setup.solver = ReadSolver(file, options);
  DropRepeatedStages(setup.solver);
  const fs::path own_file = OwnSolverOf(setup.run_folder);
  if (!setup.run_folder.empty() && file != own_file && !setup.solver.has_threads()) {
    // Threads that KeepThreads wrote there belong to the run, not to the file that the words name.
    const SolverParameter own = ReadSolver(own_file);
    if (own.has_threads()) setup.solver.set_threads(own.threads());
  }
  setup.solver.clear_first_solver();  // a run of its own, done by now or left out: this run's parent says which
  if (!setup.resume) ResolveSolverWeights(setup.solver);
}

// The nets and what they are read from.
void ReadNetsOf(const Arguments& arguments, const fs::path& folder, const std::vector<std::string>& overrides,
                TrainSetup& setup) {
  NetReadOptions options;
  options.overrides = overrides;
  setup.nets = ReadSolverNets(setup.solver, options);
  CheckTestData(setup.nets, !overrides.empty());
  CheckVocabularies(setup.nets);
  if (!LooksInside(arguments)) {
    RefuseUnfed(setup.nets.train);
    for (const NetParameter& net : setup.nets.turns) RefuseUnfed(net);
    for (const NetParameter& net : setup.nets.tests) RefuseUnfed(net);
  }
  CollectNetFiles(options, setup);
  CollectCardAndNames(folder, setup);
  CollectVocabularies(setup);
}

// Where the training starts from: --weights, --from, --snapshot. A job that is started again by the same words
// (--resume=auto) goes on from its own checkpoint, and these were read when it began. Errors: kUsage where several say
// it.
void ReadStart(const Arguments& arguments, TrainSetup& setup) {
  if (setup.resume && arguments.Get("resume") == "auto") {
    for (const char* start : {"weights", "from", "snapshot"}) {
      if (!arguments.Has(start)) continue;
      LogInfo(StrCat("--", start, "=", Printable(arguments.Get(start)), " began ", setup.run_folder.string(),
                     ", which goes on from its own checkpoint"));
    }
    return;
  }
  setup.caffe_snapshot = arguments.Get("snapshot");
  if (arguments.Has("weights"))
    setup.weights.push_back(ResolveWeights(arguments.Get("weights"), RunsFolder(arguments)));
  if (arguments.Has("from")) {
    setup.parent = arguments.Get("from");
    setup.from = FindStart(setup.parent, RunsFolder(arguments)).string();
  }
  if (arguments.Has("snapshot") && setup.resume) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("--snapshot=", Printable(arguments.Get("snapshot")), " and --resume of ",
                       setup.run_folder.string(), " both say where the training goes on"),
                "leave one of them out");
  }
  if ((!setup.weights.empty() || !setup.from.empty()) && (setup.resume || arguments.Has("snapshot"))) {
    throw Error(ErrorKind::kUsage, "weights are given and a run is resumed: only one can be where it starts from");
  }
}

// The solver's `auto` becomes what is chosen for the nets that are trained, so that whatever goes on from the run
// computes as it did.
void SettleTraining(const Arguments& arguments, TrainSetup& setup) {
  SolverParameter& solver = setup.solver;
  if (solver.precision() != ComputeName(Compute::kAuto)) return;
  CompileOptions compile = CompileOptionsOf(arguments);
  compile.device = DeviceOf(arguments, &solver);
  TimedOptions options{.turns = {solver.turn().begin(), solver.turn().end()}};
  const bool has_turns = !setup.nets.turns.empty();
  const std::span<const NetParameter> nets = has_turns ? std::span(setup.nets.turns) : std::span(&setup.nets.train, 1);
  solver.set_precision(std::string(ComputeName(AutoPrecision(nets, TRAIN, compile, options))));
}

}  // namespace

TrainSetup ReadTrainSetup(const Arguments& arguments) {
  if (arguments.positionals.size() > 1) {
    throw Error(ErrorKind::kUsage,
                StrCat("one solver is trained at a time, found also \"", Printable(arguments.positionals[1]), "\""));
  }
  TrainSetup setup;
  std::vector<std::string> overrides;
  const fs::path solver_file = ChooseSolver(arguments, overrides, setup);
  const SplitOverrides split = SplitByTarget(overrides);
  ReadSolverOf(solver_file, split.solver, setup);
  ReadNetsOf(arguments, solver_file.parent_path(), split.net, setup);
  SettleTraining(arguments, setup);
  ReadStart(arguments, setup);
  // Last, as it reads much.
  if (!LooksInside(arguments)) {
    setup.data = ReadRunData(setup.nets);
    if (setup.resume) CheckRunData(setup.data, setup.before, setup.run_folder);
  }
  return setup;
}

std::optional<RunFolder> TakeRun(const TrainSetup& setup) {
  if (setup.run_folder.empty()) return std::nullopt;
  return RunFolder::Take(setup.run_folder);
}

void BeginRun(const TrainSetup& setup, const Arguments& arguments, const std::string& ranks,
              std::optional<RunFolder>& run) {
  RunIdentity identity;
  identity.name = setup.run_name;
  identity.version = std::string(Version());
  identity.seed = static_cast<uint64_t>(std::max<int64_t>(0, setup.solver.random_seed()));
  identity.threads = ThreadCount();
  identity.parent = setup.parent;
  identity.argv = arguments.words;
  identity.more["ranks"] = ranks;
  identity.data = setup.data.contents;
  if (run) {
    run->BeginSession(identity);
  } else {
    run.emplace(RunFolder::Create(RunsFolder(arguments), identity));
  }
  // A run that was moved elsewhere has no runs beside it to be the latest of.
  std::error_code code;
  if (run->is_resumed() && fs::equivalent(run->path().parent_path(), RunsFolder(arguments), code)) run->BecomeLatest();
  for (const auto& [name, text] : setup.net_files) run->WriteConfig(name, text);
  run->WriteConfig("solver.prototxt", SolverToText(setup.solver));
  KeepPicturesWay(setup, *run);
  if (!setup.overrides.empty()) run->WriteConfig(kOverridesFile, Join(setup.overrides, "\n") + "\n");
}

}  // namespace moka
