// The work of a training step: what it computes and learns, layer by layer: the simulator's picture of a net.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comm/exchange/fusion_plan.h"

namespace moka {

struct ProfileLayer {
  std::string name;
  int64_t elements = 0;  // learned values
  double forward_s = 0;
  double backward_s = 0;
};

struct ModelProfile {
  std::string name;                  // the net's, or the file's
  std::vector<ProfileLayer> layers;  // in the order of the forward pass

  int64_t elements() const;
  double forward_s() const;
  double backward_s() const;
};

// Lines of four columns with tabs between: layer, learned values, milliseconds forward, milliseconds backward. "#"
// begins a line of comment. Errors: kBadData with file and line.
ModelProfile ProfileOfText(std::string_view text, const std::string& file);
// Times to six digits.
std::string ToText(const ModelProfile& profile);

// Times by work where none were measured: a third of the step is the forward pass, and a layer's part of both passes is
// its part of the multiply-adds. work: by layer, in any unit; at least one above 0. Requires: one a layer.
void SetTimesByWork(ModelProfile& profile, const std::vector<double>& work, double step_s);
// The same profile on a device that takes step_s for forward and backward pass. Requires: times above 0.
void ScaleTo(ModelProfile& profile, double step_s);

// Gradients as the backward pass ends them, a layer's together.
FusionInput FusionInputOf(const ModelProfile& profile, int64_t bytes_per_element);

}  // namespace moka
