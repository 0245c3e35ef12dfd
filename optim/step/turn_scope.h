// The part of its net that a turn of an alternating training (SolverParameter.turn) trains, and the turn's name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

// "train", or "train:discriminator": names the program, its data positions and what its layers keep.
std::string ProgramNameOf(const TrainTurn& turn);

// Errors: kConfig at a pattern of the turn's `train` that means none of the layers with blobs.
void CheckTurnLayers(const SolverParameter& solver, const TrainTurn& turn, const std::vector<NetBlob>& blobs);

// Returns the blobs whose layers the turn trains; all if it names none.
std::vector<NetBlob> TrainedInTurn(std::vector<NetBlob> trained, const TrainTurn& turn);
// Running statistics of other layers are read by the turn but not renewed: their assignments leave the net's graph.
void KeepOtherStatistics(BuiltNet& net, const TrainTurn& turn);

}  // namespace moka
