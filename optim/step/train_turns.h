// The nets that an iteration trains: the train net, or (SolverParameter.turn, for GANs) several nets one after the
// other over one ParameterStore. An ordinary training is the case of one turn without a name. Each turn is a TrainNet
// with a solver of its own: the common one with the turn's fields in place of its. Optimiser slots belong to
// parameters, so turns that train one parameter share them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optim/step/train_net.h"
#include "proto/nets/solver_file.h"

namespace moka {

class TrainTurns {
 public:
  using Make = std::function<std::unique_ptr<TrainNet>(const NetParameter&, const SolverParameter&, const TrainTurn&)>;
  // Reads the turns and builds a net for each by `make`. Errors: kConfig at the turn's field; kUnavailable for fields
  // of the solver that do not work with turns yet.
  TrainTurns(const SolverParameter& solver, const SolverNets& nets, const Make& make);

  bool alternates() const { return !turns_.front().rule.name().empty(); }
  size_t size() const { return turns_.size(); }
  TrainNet& net(size_t i) const { return *turns_.at(i).net; }
  const TrainTurn& rule(size_t i) const { return turns_.at(i).rule; }
  // The turn whose data count epochs: the first with data that end, else the first.
  TrainNet& lead() const { return *turns_[lead_].net; }
  int lead_steps() const { return turns_[lead_].rule.steps(); }
  const SolverParameter& lead_solver() const { return *turns_[lead_].solver; }
  // Once it is known: policies of rates ask for it.
  void SetLength(int32_t max_iter);

  // A round; arguments as TrainNet::Step's. The sum of the turns' losses, each the mean over its steps. Where one is
  // not finite, that turn's states are as they were, and without on_nan: IGNORE the round ends there.
  double Step(int64_t iteration, int plateau_step, bool must_agree);
  // The net whose loss was not finite. Requires: such a Step.
  TrainNet& failed() const { return *turns_[failed_].net; }

  // Outputs of each turn's last batch, called "turn/output".
  std::vector<OutputValue> Outputs() const;
  // Returns the blobs of all nets, each layer's once.
  const std::vector<NetBlob>& blobs() const { return blobs_; }
  // The train net as it stands in checkpoints: of several turns one net with a stage each.
  NetParameter WholeNet() const;

 private:
  struct Turn {
    TrainTurn rule;
    std::unique_ptr<SolverParameter> solver;  // the net refers to it
    std::unique_ptr<TrainNet> net;
  };

  std::vector<Turn> turns_;
  std::vector<NetBlob> blobs_;
  size_t lead_ = 0;
  size_t failed_ = 0;
};

// The slots of all turns, each once: those of all ranks, and this rank's own (optim/step/trained_states.h). SetSlot and
// StartMeans do of all turns what those of TrainedStates do of one.
std::vector<std::string> AllSlots(const TrainTurns& turns);
std::vector<std::string> OwnSlots(const TrainTurns& turns);
std::optional<std::string> SetSlot(const TrainTurns& turns, const std::string& name, const StateTensor& whole,
                                   ParameterStore& store);
void StartMeans(const TrainTurns& turns, ParameterStore& store);
// Checkpoints of Moka before 30 November 2026 have means of weights alone: takes means of statistics out of the slots
// that are missing and begins them with the newest. Returns whether there were any.
bool StartMeansOfStatistics(const TrainTurns& turns, std::vector<std::string>& missing, ParameterStore& store);

// The positions of all turns' data, as of Feed.
void SavePositions(const TrainTurns& turns, std::map<std::string, int64_t>& positions);
void Seek(const TrainTurns& turns, const std::map<std::string, int64_t>& positions);

// As TrainTurns::WholeNet, for nets that are not built yet.
NetParameter WholeTrainNet(const SolverParameter& solver, const SolverNets& nets);

// Refuses what turns cannot be combined with; `processes` train together, `compute` is what the run was asked for.
// Errors: kUnavailable at the field.
void RefuseBesideTurns(const SolverParameter& solver, const SolverNets& nets, int64_t processes, Compute compute);

}  // namespace moka
