// From the text parser's complaints to Moka's errors: the right place, wording and suggestions. Used by
// text_format.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "proto/moka.pb.h"
#include "proto/text/text_scan.h"

namespace moka {

// A complaint as the parser gives it: line and column from 0, of the token after the one it is about.
struct ParserComplaint {
  int line = 0;
  int column = 0;
  std::string message;
};

// What is being parsed.
struct ParsedText {
  std::string_view text;
  const std::string& file;
  const TextPositions& lines;
  const google::protobuf::Descriptor* root;
};

// The error list for a text that does not parse: `unknown` are complaints about unknown fields, `last` the one that
// ended the parse, if any. Requires: one of them is not empty.
[[noreturn]] void ThrowTextErrors(const ParsedText& parsed, const std::vector<ParserComplaint>& unknown,
                                  const std::vector<ParserComplaint>& last);

// Unknown fields that can be left to whoever uses the message they stand in, in the text's order. Nothing if they are
// the consequence of another mistake: a missing "}", a solver given as a net.
std::optional<std::vector<Error>> ToleratedFields(const ParsedText& parsed,
                                                  const std::vector<ParserComplaint>& unknown);

// "a number", "true or false", "an integer from 0 to 4294967295", "one of MAX, AVE": what a field takes.
std::string TakenBy(const google::protobuf::FieldDescriptor& field);
std::vector<std::string> FieldNames(const google::protobuf::Descriptor& message);
std::vector<std::string> ValueNames(const google::protobuf::EnumDescriptor& values);
// A message's name without the package: "ConvolutionParameter", "SolverParameter".
std::string ShortName(const google::protobuf::Descriptor& message);
// "did you mean ...?" for a name that is no field of the message, or where else a field of that name stands.
std::string FieldHint(const google::protobuf::Descriptor& message, std::string_view name);

}  // namespace moka
