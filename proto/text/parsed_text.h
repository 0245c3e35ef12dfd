// A text that does not parse and the parser's complaints about it, for whoever words them.
#pragma once

#include <string>
#include <string_view>

#include "proto/moka.pb.h"
#include "proto/text/text_scan.h"

namespace moka {

// A complaint as the parser gives it: line and column from 0, of the token after the one it is about.
struct ParserComplaint {
  int line = 0;
  int column = 0;
  std::string message;
};

// A text that is being parsed.
struct ParsedText {
  std::string_view text;
  const std::string& file;
  const TextPositions& lines;
  const google::protobuf::Descriptor* root;
};

}  // namespace moka
