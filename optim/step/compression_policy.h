// Compression of gradients as the solver asks for it: what it goes together with, which gradients it takes, and what
// ranks remember for it in checkpoints.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/compression/gradient_compression.h"
#include "comm/transport/communicator.h"
#include "graph/graph.h"
#include "layers/net/layer.h"
#include "optim/checkpoint/checkpoint.h"
#include "optim/optimizers/loss_scale.h"
#include "proto/moka.pb.h"

namespace moka {

// Errors: kConfig at the first number of distributed.compression that its method does not take. Requires: the method is
// known.
void CheckCompressionNumbers(const SolverParameter& solver);

// Null: none is asked for. Errors: those of CheckCompressionNumbers, and kConfig at the method: what compression does
// not work with: gradients exchanged other than synchronously, a loss scale that changes (what is kept back would be of
// another scale), and for "dgc" solvers other than SGD or with clip_gradients, rates from norms or a momentum that
// changes.
std::unique_ptr<GradientCompression> CompressionOf(const SolverParameter& solver, const LossScaling& scaling,
                                                   uint64_t seed, const Communicator& world);

// gradients: sums over ranks as SumOverRanks gives them, of these blobs; those of weights may be compressed.
void AllowWeights(const Graph& graph, std::span<const NetBlob> blobs, std::span<const ValueId> gradients,
                  GradientCompression* compression);

// Blobs whose gradients come with the optimiser's momentum in them.
std::vector<std::string> CorrectedBlobs(std::span<const NetBlob> blobs, const GradientCompression* compression);

// All ranks; the first gets what each remembers, the others nothing. Errors: kPeer.
std::vector<RankMemory> GatherStates(GradientCompression& compression, Communicator& world);
// This rank's states from a checkpoint of `ranks` ranks; where it is of another number all stay at zero and the log
// says so. Errors: kBadData naming `file` and a state that is missing or of another size.
void RestoreStates(GradientCompression& compression, std::span<const RankMemory> states, const Communicator& world,
                   const std::string& file);

}  // namespace moka
