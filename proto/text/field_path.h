// Fields of a message by path ("layer[conv1].param[0].lr_mult"), typed by the schema. Used by overrides and blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

enum class PathUse {
  kSet,     // messages on the way must exist in elements chosen by a pattern; others are made
  kAppend,  // everything missing on the way is made
  kDelete,  // nothing is made
};

// A field found by a path.
struct FieldRef {
  google::protobuf::Message* parent = nullptr;
  const google::protobuf::FieldDescriptor* field = nullptr;
  int index = -1;           // of a list's element; -1: the whole field
  std::string path;         // from the root, with names of elements: "layer[conv1].name"
  std::string key;          // the same, with their indices besides: a net's phases have layers of one name
  Origin* scope = nullptr;  // the origin of the nearest message that has one
  std::string scope_path;   // the field's path in it
};

// Where the selector that opens at text[open] ("[conv1]") closes; npos if it does not. Brackets in a name must be in
// pairs there, or the name in quotes: [a[0]], ["a]b"].
size_t SelectorEnd(std::string_view text, size_t open);

// All fields the path means, in order; never empty. Errors: kUsage with the nearest known name.
std::vector<FieldRef> FindFields(google::protobuf::Message& root, std::string_view path, PathUse use);

// Sets a field, a whole list, or an element from text; `append` adds to a list instead. `source` becomes the place of
// the field ("override x=y"); if empty, its place stays. Errors: kUsage saying what the field takes.
void SetField(const FieldRef& ref, std::string_view value, bool append, const std::string& source);
// Clears a field or removes an element. Later elements of the list move up.
void DeleteField(const FieldRef& ref);

// A field's present value as text, without origins; empty when it is not set.
std::string ValueText(const FieldRef& ref);

// Matches with * (any run) and ? (any one character).
bool MatchesPattern(std::string_view text, std::string_view pattern);

}  // namespace moka
