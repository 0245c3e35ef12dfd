// A fully connected layer whose outputs are split among the ranks, beside layers that all ranks have whole: each rank
// holds, updates and multiplies with its rows of the weight and of the bias, and its gradient of them crosses nothing.
// (Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv 1404.5997, scheme b for large
// classifiers; An et al., "Killing two birds with one stone", arXiv 2203.15565.)
//
//   x [n,D] -> gather_rows [N,D] -> matmul with [k,D] -> [N,k] -> exchange_columns -> y [n,K]
//
// n rows of this rank, N of all; k of K columns. Backward the same way round: the gradients of y are those that each
// rank's own loss has, so a part's gradient is the sum over ranks that the gradient of a whole weight comes to be.
// Where nothing but a softmax loss reads y, split_softmax_loss takes [N,k] as it is, and there is no y.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "comm/transport/communicator.h"
#include "graph/parameter_store.h"
#include "layers/net/net.h"
#include "proto/moka.pb.h"

namespace moka {

// A blob of which each rank trains some rows. The store has this rank's under `part`, and for tests and checkpoints all
// of them under the blob's own name, as they were when they were gathered last.
struct SplitBlob {
  NetBlob whole;
  std::string part;
  Shape part_shape;
};

// Null: the blob is no part.
const SplitBlob* FindPart(std::span<const SplitBlob> splits, std::string_view part);

// The graph as rank `rank` computes it, with the layers split that ask for it (multinode, of the layer or of the net
// for a range of layers; model_parts 0 is all ranks, 1 not split); in net.blobs theirs are this rank's part. Returns
// them. Errors: kConfig at another number of parts or nodes, and at a layer that cannot be split.
std::vector<SplitBlob> SplitColumns(BuiltNet& net, int64_t rank, int64_t ranks);

// Errors: kConfig for a net that asks for it: in a pipeline a layer is of one rank.
void RefuseSplitInPipeline(const NetParameter& net);
// Refuses what split columns cannot be trained with. Errors: kConfig at the solver's field.
void RefuseBesideSplit(const SolverParameter& solver);

// This rank's rows of values of the whole.
std::vector<float> PartOf(const SplitBlob& blob, int64_t rank, int64_t ranks, std::span<const float> whole);
// The store, which has the blobs whole, comes to have this rank's rows of each as they are now.
void SetParts(std::span<const SplitBlob> splits, const Communicator& world, ParameterStore& store);
// All ranks: the whole of what each has a part of. Errors: kPeer.
std::vector<float> WholeOf(Communicator& world, std::span<const float> part);

}  // namespace moka
