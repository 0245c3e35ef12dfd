// From the text parser's complaints to Moka's errors: the right place, wording and suggestions. Used by
// text_format.cpp.
#pragma once

#include <optional>
#include <vector>

#include "core/error.h"
#include "proto/text/parsed_text.h"

namespace moka {

// The error list for a text that does not parse: `unknown` are complaints about unknown fields, `last` the one that
// ended the parse, if any. Requires: one of them is not empty.
[[noreturn]] void ThrowTextErrors(const ParsedText& parsed, const std::vector<ParserComplaint>& unknown,
                                  const std::vector<ParserComplaint>& last);

// Unknown fields that can be left to whoever uses the message they stand in, in the text's order. Nothing if they are
// the consequence of another mistake: a missing "}", a solver given as a net.
std::optional<std::vector<Error>> ToleratedFields(const ParsedText& parsed,
                                                  const std::vector<ParserComplaint>& unknown);

}  // namespace moka
