// Files that say what is run and what must come of it: one mistake of a user (bad_input_test.cpp), one report of what
// went wrong elsewhere (reported_cases_test.cpp). A file's first lines, comments, are its head; other files that the
// run needs follow, each after a line "--- FILE" ("--- FILE hex": bytes as hex digits, "#" begins a comment; "--- FILE
// crlf": lines end as on Windows).
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace moka {

struct CaseFile {
  std::string name;
  std::string bytes;
};

// One "# key: value" line of a head.
struct CaseLine {
  std::string key;
  std::string value;
};

struct CaseText {
  std::string title;  // the lines before the first "# key: value", joined
  std::vector<CaseLine> head;
  std::vector<CaseFile> files;
};

// Requires: a file in the form above. A NAME.prototxt is itself the file that its head speaks of.
CaseText ReadCaseText(const std::filesystem::path& path);

std::string BytesOf(const std::filesystem::path& path);
// Words between spaces; 'one word' in single quotes.
std::vector<std::string> Words(std::string_view text);

// Writes a case's files into the folder.
void PlaceCaseFiles(const std::filesystem::path& folder, const std::vector<CaseFile>& files);

// Makes what text cannot hold, from the words of a "# make:" line (V...: values in turn, the last one repeated):
//   weights FILE LAYER/I:3x64[=V,V...]...   a .caffemodel, .caffemodel.h5 or .safetensors; 0.01 without values
//   mean FILE 3x8x8[=V,V...]                a .binaryproto
//   hdf5 FILE NAME:4x3[=V,V...]...          an HDF5 file of those datasets
//   picture FILE 8x6[x1] [V,V...]           a PNG or JPEG, width x height [x channels], pixels in turn from V (B,G,R)
//   cut FILE BYTES · put FILE OFFSET HEX · repeat FILE TIMES HEX · folder NAME · copy FILE TO (FILE: below tests/) ·
//   rename FILE TO
void MakeFile(const std::filesystem::path& folder, const std::vector<std::string>& words);

struct MokaOutcome {
  int exit_code = -1;  // -1: it did not end by itself
  std::string end;     // how it ended otherwise
  std::string out;
  std::string err;
};

// Runs moka in the folder with 10 s of CPU and 1 GiB of address space, more with a sanitizer in it; what it writes is
// kept beside the folder.
MokaOutcome RunMoka(const std::filesystem::path& folder, const std::vector<std::string>& words);

// Whether a line is the expected one, where {*} is any text and {~V} a number within 1e-4 of V's size (or 1e-6).
bool Fits(std::string_view pattern, std::string_view line);

// Lines of stderr that begin with one of these.
std::vector<std::string> LinesOf(const std::string& text, const std::vector<std::string>& beginnings);

// A name that GoogleTest takes.
std::string TestNameOf(std::string name);

}  // namespace moka
