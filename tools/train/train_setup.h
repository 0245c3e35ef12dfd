// From the words of `moka train` to a solver, its nets and a run folder: overrides, resume, branch.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "optim/checkpoint/checkpoint.h"
#include "optim/run/run_folder.h"
#include "optim/run/run_identity.h"
#include "proto/nets/solver_file.h"
#include "tools/cli/command_line.h"
#include "tools/train/run_data.h"

namespace moka {

// All that a training starts from.
struct TrainSetup {
  SolverParameter solver;
  SolverNets nets;
  std::vector<std::pair<std::string, std::string>> net_files;  // config/NAME of the run and its text
  std::string run_name;
  std::vector<std::string> overrides;
  std::vector<std::string> weights;
  std::string from;                  // the file of --from; its layers of other numbers of outputs start fresh
  std::string caffe_snapshot;        // the file of --snapshot
  std::filesystem::path run_folder;  // not empty: resume there
  std::optional<Checkpoint> resume;
  RunIdentity before;  // of the run that is resumed, as its run.json stood; empty for a new run
  std::string parent;  // what --from says: "run@checkpoint", "zoo:lenet"
  DataOfRun data;      // what the nets read; empty where nothing is trained (--dry-run, --explain)
};

// Where runs lie: --runs.
std::filesystem::path RunsFolder(const Arguments& arguments);

// The solver that the words name: CONFIG, --solver or a folder's; empty where they name none. Errors: kNoInput.
std::filesystem::path SolverFileOf(const Arguments& arguments);

// Errors: kNoInput at a layer that only a program fills.
void RefuseUnfed(const NetParameter& net);

// The run that the words start or go on with. Errors: kNoInput when there is no such run to resume.
struct RunChoice {
  std::string name;               // of a new run: --run, else the solver's folder
  std::filesystem::path resumed;  // folder of the run that is resumed; empty: a new one is started
};
RunChoice ChooseRun(const Arguments& arguments);

// Reads everything; writes nothing. Errors: kUsage, kNoInput, kConfig as the readers say.
TrainSetup ReadTrainSetup(const Arguments& arguments);

// The run that is resumed, locked and otherwise as it was; none where a new one starts.
std::optional<RunFolder> TakeRun(const TrainSetup& setup);
// Makes the run's folder, or begins a session of the one that was taken, and writes its config/. All that can refuse
// the training comes before it. `ranks`: what run.json says of them.
void BeginRun(const TrainSetup& setup, const Arguments& arguments, const std::string& ranks,
              std::optional<RunFolder>& run);

}  // namespace moka
