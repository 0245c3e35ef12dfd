// The nets of a training, read for verbs that look at them, time them or read their data.
#pragma once

#include <string>
#include <vector>

#include "proto/moka.pb.h"
#include "proto/nets/net_file.h"

namespace moka {

// A training is made of one net, or of one a turn of the folder's solver.
struct TrainingNets {
  std::vector<NetParameter> nets;  // each with the state that it trains in
  std::vector<TrainTurn> turns;    // of each net, if the solver has turns
};

// Reads those of a file, folder or run. The turns of the folder's solver.prototxt and its state for training count, and
// behind that the given level and stages. Errors: those of FindConfig and of reading.
TrainingNets ReadTrainingNets(const std::string& config, const NetReadOptions& read, const NetState& given);

// The nets of a phase, of which a given level or stage chooses: those of training as the folder's solver has them, if
// none is given and the phase is TRAIN, else the one net of the file or folder. Each comes unfiltered, or filtered as a
// turn is, with its whole state, so that BuildNet and FilterNet need no more than the phase. Stages that no rule names
// are warned about. Errors: those of FindConfig and of reading.
std::vector<NetParameter> ReadNetsIn(const std::string& config, const NetReadOptions& read, const NetState& given);

// "SNGAN, stage critic": how one of several nets is called.
std::string NameWithStages(const NetParameter& filtered);

}  // namespace moka
