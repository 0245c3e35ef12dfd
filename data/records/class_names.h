// The names of the classes of a data layer's records, for those who show what a trained net says.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Returns a name for each class: a database's labels.txt, or what the layer takes of Moka's own records (boxes before
// masks before labels before targets). Empty where the source is not there or does not say. Errors: those of
// ReadSampleSchema.
std::vector<std::string> ClassNamesOf(const LayerParameter& layer, const std::filesystem::path& base_folder);

// A database's labels.txt, by label; empty without that file.
std::vector<std::string> LabelNamesIn(const std::filesystem::path& database);
// Lines of a file of names; blank ones at the end are none. Errors: those of ReadFile; kBadData for YAML, JSON, XML and
// prototxt by the name's ending, whose lines would be names.
std::vector<std::string> ReadNameLines(const std::filesystem::path& file);
// The same of a file that somebody wrote to be shown by. A name that stands twice is a warning. Errors: besides,
// kBadData for a file without names, and with the line's place for one that is blank, or that begins with the number of
// another class than the line's own.
std::vector<std::string> ReadGivenNames(const std::filesystem::path& file);
// The names of classes by number, each once, of a file with a name a line or of a database that has a labels.txt.
// Errors: those of reading; kBadData for a database without names, and those of CheckClassNames.
std::vector<std::string> ReadClassList(const std::filesystem::path& file_or_database);
// Whether a text has a line's break or another control character.
bool HasControl(std::string_view text);
// Why a file with a name a line does not keep a name, "is empty" say: a control character, blanks at its ends, no
// UTF-8. Empty where it does.
std::string ClassNameFault(std::string_view name);
// Errors: kBadData for a name that such a file does not keep.
void CheckClassName(std::string_view name);
// Checks the names of a file that has a class in each line. Errors: kBadData at the line of an empty name, and of one
// given before.
void CheckClassNames(const std::vector<std::string>& names, const std::filesystem::path& file);

}  // namespace moka
