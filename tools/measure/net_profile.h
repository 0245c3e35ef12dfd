// A net's layers as the scaling simulator sees them: what they learn, and how long they take.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "comm/simulate/model_profile.h"
#include "layers/net/net.h"

namespace moka {

// Floating-point operations of each layer's forward ops, a batch.
std::map<std::string, int64_t> FlopsByLayer(const BuiltNet& net);

// Layers that learn, in order; one that does not counts with the one before it. Times follow the work: a third of the
// step forward. Errors: kConfig for a net that learns or computes nothing.
ModelProfile ProfileOfNet(const BuiltNet& net, double step_s);

// The same with the times that `moka time --json` printed for the net. Errors: those of ReadFile; kBadData for other
// text, or when no layer of the net has a time.
ModelProfile ProfileOfNet(const BuiltNet& net, const std::filesystem::path& times_file);

}  // namespace moka
