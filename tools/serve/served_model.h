// A trained net ready to answer: a program for each of several numbers of rows over one set of weights, timed here.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tools/infer/deployed_net.h"
#include "tools/infer/task_answers.h"
#include "tools/serve/model/model_counts.h"
#include "tools/serve/model/model_settings.h"
#include "tools/serve/model/sequences.h"

namespace moka {

struct ServedTensor {
  std::string name;
  std::vector<int64_t> row;  // its shape without the rows
  int64_t rows = 1;          // along the first axis for each row of the request; more for nets that find many things

  int64_t Count() const;  // of a row of the request
};

// The cost of a program for so many rows.
struct Rung {
  int64_t rows = 0;
  double ms = 0;    // of a run, the least of several
  int threads = 0;  // that run it
};

// The batch to run next where `waiting` rows wait, of which the whole is run in the least time: the rung to use first
// (its rows may be more than wait). Requires: rungs by rows, waiting >= 1.
const Rung& NextRung(std::span<const Rung> rungs, int64_t waiting);
// Milliseconds that so many rows take.
double PredictedMs(std::span<const Rung> rungs, int64_t rows);

// Bytes of the files of weights.
int64_t WeightsBytes(const InferSource& source);

// A net with states, and those of sequences that are under way. For the thread that runs nets.
struct KeptStates {
  DeployedNet& net;
  Sequences sequences = Sequences();
};

// The methods that run nets are for one thread.
class ServedModel {
 public:
  // Compiles, times (which also warms) and checks; `most_rows` bounds the ladder where the settings do not. Errors:
  // those of DeployedNet and of the task; kConfig for a net that takes no rows, and settings that are none of this net.
  ServedModel(std::string name, std::string version, InferSource source, int64_t most_rows,
              ModelSettings settings = {});

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const InferSource& source() const { return source_; }
  // With the rows of the largest batch that is allowed, which the rungs may fall short of where more are not faster.
  const ModelSettings& settings() const { return settings_; }
  const std::vector<ServedTensor>& inputs() const { return inputs_; }
  const std::vector<ServedTensor>& outputs() const { return outputs_; }
  const std::vector<Rung>& rungs() const { return rungs_; }
  // Null for a task that nothing is asked of but rows.
  TaskAnswers* answers() const { return answers_.get(); }
  ModelCounts& counts() const { return counts_; }

  // Null unless the net keeps states between runs. Such a net has one rung, of one row, and runs request by request.
  KeptStates* states() const { return states_.get(); }

  // Sets the calling thread's team to that of one row, for who runs the net by answers().
  void UseTeamOfOne() const;
  // The time that runs take now as a multiple of that at the load: others may want the machine, then or now. Any
  // thread.
  double slowness() const { return slowness_; }

  // The place of an input's row in the program of a rung.
  std::span<float> InputRow(const Rung& rung, size_t input, int64_t row);
  // Requires: the rows are filled.
  void Run(const Rung& rung);
  std::span<const float> OutputRow(const Rung& rung, size_t output, int64_t row) const;

 private:
  DeployedNet& NetOf(const Rung& rung) const;
  void AddRung(int64_t rows);
  // A small net's is for one thread.
  void AddLargerRung(int64_t rows);
  void DropRung();
  // The rungs beside that for one row, as many as are worth it or as the settings name.
  void AddLadder(int64_t most_rows);
  int64_t MemoryBytes() const;
  // Errors: kConfig at the settings' place, for `runs_rows`: whether several rows may run at once.
  void CheckSettings(bool runs_rows) const;
  void WarmUp();
  // Puts a program for one thread in the place of that for one row, where this takes hardly longer and gives the same
  // bits.
  void PreferOneThread();
  // Whether each input and output is rows along its first axis.
  bool TakesRows(const DeployedNet& net) const;
  double TimeOf(DeployedNet& net) const;

  std::string name_;
  std::string version_;
  InferSource source_;
  ModelSettings settings_;
  std::unique_ptr<TaskAnswers> answers_;
  std::vector<std::unique_ptr<DeployedNet>> own_nets_;
  std::vector<DeployedNet*> nets_;  // of the rungs
  std::vector<Rung> rungs_;
  std::vector<ServedTensor> inputs_;
  std::vector<ServedTensor> outputs_;
  mutable ModelCounts counts_;
  std::unique_ptr<KeptStates> states_;
  int team_ = 1;
  std::atomic<double> slowness_ = 1;
};

}  // namespace moka
