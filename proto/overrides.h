// Changes to a net or solver from the command line, typed by the schema:
//   base_lr=0.02                                    sets a field
//   layer[conv1].convolution_param.num_output=64    selects by name ...
//   layer[res*].param[0].lr_mult=0                  ... by pattern (* and ?) or by index from 0
//   +layer[data].transform_param.mirror=true        appends to a list, or sets, making what is missing on the way
//   ~layer[drop7]                                   deletes
// Values are protobuf text; texts need no quotes; lists are [1, 2]. A pattern passes over elements that lack a message
// of the path. A name in brackets may hold anything: layer[loss3/classifier], layer[a[0]]; quotes take it to the
// letter, layer["a*]"]. An override that matches nothing is an error.
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

// Whether a word of a command line is one, rather than a file: "data/x=1.png" is a file, "layer[a/b].name=c" is none.
bool IsOverride(std::string_view word);
// Whether an override's path begins at a field that nets have and solvers have not.
bool SpeaksOfNet(std::string_view text);

// Applies one override, or several in order. Errors: kUsage naming the override, with the nearest known name.
std::vector<AppliedOverride> ApplyOverride(std::string_view text, NetParameter& net);
std::vector<AppliedOverride> ApplyOverride(std::string_view text, SolverParameter& solver);

}  // namespace moka
