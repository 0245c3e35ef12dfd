// What a file is, told from its first bytes: for errors that say "this is a solverstate" and not "parse error".
#pragma once

#include <string_view>

namespace moka {

enum class Content {
  kEmpty,
  kText,
  kUtf16Text,
  kNetBinary,    // .caffemodel
  kSolverState,  // .solverstate
  kBlob,         // .binaryproto
  kSafetensors,
  kHdf5,
  kLfsPointer,
  kHtml,
  kZip,
  kGzip,
  kImage,
  kLmdb,
  kZeros,  // a run of zero bytes: a file that was cut by a crash
  kUnknownBinary,
};

// From the first 4 KiB or more of a file.
Content RecogniseContent(std::string_view head);
// "an HDF5 file", "a Git LFS pointer (fetch the file itself with `git lfs pull`)", ...
std::string_view Describe(Content content);

}  // namespace moka
