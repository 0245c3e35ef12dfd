// Chooses the arithmetic of a run: the one that the solver names (precision, loss_scale), else NVCaffe's fields of the
// net (default_forward_type, global_grad_scale, global_grad_scale_adaptive), else float32.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "graph/program.h"
#include "optim/optimizers/loss_scale.h"
#include "proto/moka.pb.h"

namespace moka {

// float32, tf32, bfloat16, float16; also fp32, bf16, fp16; auto. Errors: `kind` at the place, with the nearest name.
Compute ComputeNamed(const std::string& name, ErrorKind kind, const SourcePlace& place = {});

// Its full name.
std::string_view ComputeName(Compute compute);

// The solver's precision; else float16 where the net's default_forward_type is FLOAT16; else `fallback`. Errors:
// kConfig at the solver's field.
Compute PrecisionOf(const SolverParameter& solver, const NetParameter& net, Compute fallback);
// Requires: CheckSolverNumbers passed.
LossScaling ScalingOf(const SolverParameter& solver, const NetParameter& net, Compute compute);

// A sentence, with its place, for types that the net or its layers give (NVCaffe) and that have no effect.
std::vector<std::string> UnreadTypes(const NetParameter& net, Compute compute);

// Layers that compute in float32 in any run: losses, and those whose forward_type or backward_type says FLOAT
// (NVCaffe).
std::set<std::string> LayersInFloat32(const NetParameter& net);

}  // namespace moka
