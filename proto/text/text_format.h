// The text language (prototxt): strict reading that reports every unknown field of a file at once with file, line,
// column and the nearest known name, and printing back. Recipe and wording follow docs on errors: names are looked for
// among the sibling fields or the enum's values, and a forgotten "}" is told apart from an unknown field.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "proto/moka.pb.h"

namespace moka {

constexpr int64_t kTextLimitBytes = int64_t{16} << 20;  // largest text net or solver
constexpr int kTextDepthLimit = 64;                     // deepest nesting of { }

// Parses text into `message` (NetParameter, SolverParameter, ...) and fills the `origin` of it and of every layer and
// block in it. `file` is the name used in places. A field that the schema does not have is noted in the
// origin of the layer, net or solver it stands in and passed over: whoever uses that asks UnknownFieldsOf. Errors:
// ErrorList of kConfig.
void ParseText(std::string_view text, const std::string& file, google::protobuf::Message& message);

// The content of a text file. Errors: those of ReadFile; kBadData if the content is not text, naming what it is.
// `expected` is what the caller wants, with its article: "a net", "a solver".
std::string ReadTextFile(const std::filesystem::path& path, std::string_view expected);

// Prints without origins; reads back as the same message.
std::string ToText(const google::protobuf::Message& message);

}  // namespace moka
