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

#include <map>
#include <optional>
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
  bool is_added = false;      // an element behind those of a list
  std::string key = {};       // of the field, as FieldRef has it
};

// Keeps what the overrides of one message have set so far.
class OverridesSoFar {
 public:
  // Takes what the next override did. Errors: kUsage if nothing remains of an earlier one, which is as if it had not
  // been written; layer[*].x=0 layer[conv].x=1 leave both something.
  void Add(const std::vector<AppliedOverride>& applied);

 private:
  struct Earlier {
    std::string text;
    std::map<std::string, std::string> values;  // by key, those that still are as it set them
  };
  std::vector<Earlier> earlier_;
};

// Whether a word of a command line is one, rather than a file: "data/x=1.png" is a file, "layer[a/b].name=c" is none.
bool IsOverride(std::string_view word);
// For a word that is neither a file nor an override and looks like one: "max-iter=3", "max_iter:3", "layer[conv].name",
// "=3": how it is written, or the nearest field. Nothing for other words.
std::optional<std::string> HintForMeantOverride(std::string_view word);
// The path that an override sets, "max_iter" of "+solver.max_iter = 3": without its sign and its target.
std::string_view PathOfOverride(std::string_view text);
// The value behind it, a text without its quotes; empty where it has none.
std::string_view ValueOfOverride(std::string_view text);
// Whether an override's path begins at a field that nets have and solvers have not.
bool SpeaksOfNet(std::string_view text);

// Joins two lists of overrides, of which the second wins (a recipe's and a person's, a run's and those with which it
// goes on): those of `under` whose path none of `over` sets, then those of `over`.
std::vector<std::string> Layered(const std::vector<std::string>& under, const std::vector<std::string>& over);

// Applies one override, or several in order. Errors: kUsage naming the override, with the nearest known name.
std::vector<AppliedOverride> ApplyOverride(std::string_view text, NetParameter& net);
std::vector<AppliedOverride> ApplyOverride(std::string_view text, SolverParameter& solver);
// Applies them in order, refusing those of which nothing remains (OverridesSoFar).
std::vector<AppliedOverride> ApplyOverrides(const std::vector<std::string>& texts, SolverParameter& solver);

}  // namespace moka
