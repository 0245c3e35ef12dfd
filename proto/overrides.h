// Changes to a net or solver from the command line, typed by the schema:
//   base_lr=0.02                                    sets a field
//   layer[conv1].convolution_param.num_output=64    selects by name ...
//   layer[res*].param[0].lr_mult=0                  ... by pattern (* and ?) or by index from 0
//   +layer[data].transform_param.mirror=true        appends to a list, or sets, making what is missing on the way
//   ~layer[drop7]                                   deletes
// Values are protobuf text; texts need no quotes; lists are [1, 2]. A pattern passes over elements that lack a message
// of the path; an override that matches nothing is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "proto/moka.pb.h"

namespace moka {

// One change an override made.
struct AppliedOverride {
  std::string override_text;  // as the user wrote it
  std::string path;           // of the one field: "layer[conv1].convolution_param.num_output"
  std::string old_value;      // as text; empty: it was not set
  std::string new_value;      // as text; empty: deleted
  SourcePlace place;          // where the old value stood; line 0 when it was not in the file
};

// Applies one override, or several in order. Errors: kUsage naming the override, with the nearest known name.
std::vector<AppliedOverride> ApplyOverride(std::string_view text, NetParameter& net);
std::vector<AppliedOverride> ApplyOverride(std::string_view text, SolverParameter& solver);

}  // namespace moka
