// The page of a layer type: what a person says of it, in Markdown beside its source (layers/types/activation/relu.md),
// put into the program by the build (tools/cmake/moka_pages.cmake). What the program knows itself, counts, fields and
// their defaults, is no part of it; `moka explain layer` prints both.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moka {

// The parts of a page under "# TYPE" and its four headings. A line break inside a paragraph or an item is a space here.
struct ManualPage {
  std::string type;
  std::string doc;       // under the title: what it does, its fields, shapes; the first sentence stands in lists
  std::string formula;   // of the tops
  std::string gradient;  // of bottoms and parameters; "None: ..." if it has none
  std::string example;   // prototxt of a whole small net, which the tests build and run
  std::string source;    // the paper, and the code whose semantics it has
};

// A page as the build found it; both live as long as the program.
struct ManualFile {
  std::string_view path;  // in the repository
  std::string_view text;
};

// All pages of this build, in no order that matters.
std::vector<ManualFile> ManualFiles();

// Errors: kBadData at the line where the title or one of the headings Formula, Gradient, Example and Source, in this
// order and each with text, was expected.
ManualPage ReadManualPage(const ManualFile& file);

// Requires: the type has a page, as each type of a build has.
const ManualPage& ManualPageOf(std::string_view type);

// "Convolves each bottom" of "Convolves each bottom. Weights ...".
std::string FirstSentence(const ManualPage& page);

}  // namespace moka
