// Slips of the pen in prototxt that the parser words in its own terms: characters of other scripts, a text that does
// not end, several values without brackets, the marks of a merge. Used by text_errors.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"
#include "proto/text/parsed_text.h"

namespace moka {

// Returns the error for the slip that the parse's complaint is about; none if it is about something else.
std::optional<Error> SlipAt(const ParsedText& parsed, const ParserComplaint& complaint);

// The error for a number at `offset` that follows the value of a field ("dim: 1 3"); nothing if it does not.
std::optional<Error> FurtherValue(const ParsedText& parsed, size_t offset);

// Why a path that was written in a text and leads nowhere may be another than was meant: "~", "$HOME", a "\t" of a
// path of Windows, a blank at an end. Empty where none is seen.
std::string PathHint(std::string_view path);

// Whether all of a word is a number's characters, a digit among them.
bool IsNumber(std::string_view word);

// The name of the field whose ":" stands at `colon`.
std::string_view NameBefore(std::string_view text, size_t colon);

// The message type of the blocks that are open at `offset` of a text of the type `root`; null where one of their names
// is unknown.
const google::protobuf::Descriptor* BlockTypeAt(std::string_view text, size_t offset,
                                                const google::protobuf::Descriptor* root);

}  // namespace moka
