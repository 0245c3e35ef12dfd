// Whether nets and solvers of Caffe and its forks are understood: a net is built in every phase and set of stages it
// declares, with shapes guessed where its data is not there; a solver's rates are computed.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/types.h"
#include "proto/moka.pb.h"

namespace moka {

struct StateCheck {
  Phase phase = TRAIN;
  std::vector<std::string> stages;
  std::string error;  // empty: the net builds
  int layers = 0;
  int64_t parameters = 0;                           // learned values
  int64_t statistics = 0;                           // running values
  std::vector<std::pair<std::string, Shape>> tops;  // "layer:top" in layer order
  // Tops of data layers whose shape the text leaves open: what was taken for it.
  std::vector<std::pair<std::string, Shape>> assumed;
  // Layers that leave their number of classes to the command line, as DIGITS' networks do; it was taken to be
  // kAssumedClasses, and their tops are among `assumed`.
  std::set<std::string> open_classes;
  // "module.Class" of Python layers that are not built in: the net runs only where Python holds it.
  std::set<std::string> elsewhere;
};

constexpr int kAssumedClasses = 10;

// Both phases, or those for which the net has data layers; each with no stage, with each stage alone, with each pair of
// them (with any of them, if there are at most four), and with the stages of each rule together.
std::vector<NetState> DeclaredStates(const NetParameter& net);

// Builds the net in one state. `shapes` sets tops of data layers by name. An error in a phase without any data layer
// says so when the other phase has one.
StateCheck CheckNet(const NetParameter& net, const NetState& state, const std::map<std::string, Shape>& shapes);

// The rate at iterations 0, 1 and then at `points` places evenly spaced up to max_iter. Errors: kConfig.
std::vector<std::pair<int64_t, double>> RateCurve(const SolverParameter& solver, int points);

}  // namespace moka
