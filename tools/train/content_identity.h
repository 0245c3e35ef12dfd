// The identity of what a file or a data set holds: a few words that are equal where it is the same and, for all
// practical purposes, differ where it is not: how ranks find that one of them reads something else under the same name.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace google::protobuf {
class Message;
}

namespace moka {

// A file: how many bytes it has and a checksum, of all of it or, where it is large, of parts all over it. A list of
// files: also of some of the files that it names, which start at `root` or the current folder. A folder with a
// database: its records and their checksum. Any other folder: "a folder". Empty: there is nothing under that name, or
// nothing that can be read, which whoever reads it tells with its place.
std::string ContentOf(const std::filesystem::path& path, const std::string& root = {});

// Whether texts of the fields of that name are words (a layer's name, a filler's type) and never a file's, even where
// a file has that name.
bool IsNeverAFile(std::string_view field);
// Where the files begin that a list in this field names: the root_folder beside it; empty where there is none.
std::string RootBeside(const google::protobuf::Message& message, std::string_view field);

}  // namespace moka
