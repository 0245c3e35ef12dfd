// The part that the rows "batch_lanes" share: the layout, the instructions, and what they do not cover.
#pragma once

#include <optional>
#include <string>

#include "graph/kernel.h"
#include "layers/kernels/cpu/batch_lanes/axis.h"
#include "layers/kernels/cpu/batch_lanes/tile.h"
#include "layers/kernels/cpu/batch_lanes/transforms.h"
#include "layers/ops/geometry.h"

namespace moka::batch_lanes {

// The loops over blocks of `lanes` images; null without the instructions, on this machine or in this build.
const Functions* FunctionsOf(int64_t lanes);

// The sentence that says which instructions are missing.
std::string LacksInstructions(int64_t lanes);

// "Abcd16a": images in blocks.
Layout DataLayout(int64_t lanes);
// The images in a block of data that lies so; 0 if it lies otherwise.
int64_t LanesOf(const TensorType& data);

// The three tensors of a convolution or of one of its gradients: x [N,C,H,W], w [K,C/groups,kh,kw], y [N,K,oh,ow].
struct Problem {
  TensorType x;
  TensorType w;
  TensorType y;
  Geometry geometry;
  int64_t groups = 1;
  int64_t lanes = 0;

  int64_t blocks() const { return (x.shape[0] + lanes - 1) / lanes; }
  int64_t group_inputs() const { return w.shape[1]; }
  int64_t group_outputs() const { return w.shape[0] / groups; }
  // Along dimension 0 (height) or 1 (width); of the gradient of x, or of a forward pass.
  Axis AxisOf(int dimension, bool is_gradient) const;
};

// Requires: the query is of one of the three ops.
Problem ReadProblem(const KernelQuery& query);

// Returns why the node cannot run whatever its layouts are; empty: nothing forbids it.
std::string RefuseShapes(const KernelQuery& query);
// Why the node cannot run as its tensors lie; empty: it can.
std::string Refuse(const KernelQuery& query);
// Data in blocks of images, everything else plain. None where blocks of channels are the better choice: half a block
// of images would be padding, or channels fill their registers.
std::optional<LayoutProposal> Propose(const KernelQuery& query);

// The same of Winograd's algorithm along rows, of a forward pass or of the gradient of the weights.
std::string RefuseRows(const KernelQuery& query);
std::optional<LayoutProposal> ProposeRows(const KernelQuery& query);

// masks [2][lanes]: 1 for every image of a block; then of the last block, 0 in its padding, which is to stay zero.
void FillLaneMasks(const Problem& p, float* masks);

// The transform of one plane of x, a channel of a block of images, to its place in v [block][point][channel][row,
// padding included][tile][lanes].
void TransformPlane(const Problem& p, const Transforms& transforms, int64_t plane, const float* x, float* v);

// How many parts of at most `most` [0, count) is cut into; part i begins at count*i/parts.
int64_t PartsOf(int64_t count, int64_t most);

}  // namespace moka::batch_lanes
