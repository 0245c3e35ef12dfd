// Tells the kind of a file by its first bytes: for errors that say "this is a solverstate" and not "parse error".
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace moka {

enum class Content {
  kEmpty,
  kText,
  kUtf16Text,
  kNetBinary,    // .caffemodel
  kSolverState,  // .solverstate
  kBlob,         // .binaryproto
  kOnnx,
  kSafetensors,
  kHdf5,
  kNumpy,     // .npy
  kNumpyZip,  // .npz
  kPickle,    // a checkpoint of PyTorch (.pt, .pth), or another pickle of Python
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
Content RecognizeContent(std::string_view head);
// The same of a file; kEmpty also when there is no regular file to read.
Content RecognizeFile(const std::filesystem::path& path);
// "an HDF5 file", "a Git LFS pointer (fetch the file itself with `git lfs pull`)", ...
std::string_view Describe(Content content);

// Runs a reader of binary content of the kind. Errors: kBadData "expected EXPECTED, but this is ..." when the first
// bytes are surely of another kind, or when the reader refuses what looks like text; else the reader's own.
void ReadAs(Content kind, std::string_view bytes, const std::string& file, std::string_view expected,
            const std::function<void()>& read);

}  // namespace moka
