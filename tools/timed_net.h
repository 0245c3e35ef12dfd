// A net compiled for timing: its data layers replaced by fixed values, so nothing but compute is measured.
#pragma once

#include <memory>

#include "graph/parameter_store.h"
#include "graph/program.h"
#include "layers/net.h"

namespace moka {

struct TimedNet {
  ParameterStore store;
  std::unique_ptr<Program> program;
  int64_t batch = 0;
};

// Forward, backward and an SGD update with momentum (TRAIN), or inference (TEST). Weights come from the fillers, inputs
// are uniform in [-1, 1], labels 0. Errors: those of building and compiling.
std::unique_ptr<TimedNet> MakeTimedNet(const NetParameter& net, Phase phase, const CompileOptions& compile);

}  // namespace moka
