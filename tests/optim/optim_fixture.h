// The part that the optim tests share: a folder that goes away, expected errors, solvers from text, small nets.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): mkdtemp

#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "core/text.h"
#include "layers/net/layer.h"
#include "proto/moka.pb.h"
#include "proto/nets/solver_file.h"

namespace moka {

class FolderTest : public testing::Test {
 protected:
  FolderTest() {
    std::string name = (std::filesystem::temp_directory_path() / "moka_optim_XXXXXX").string();
    folder_ = mkdtemp(name.data());
    SetStderrLevel(LogLevel::kError);
  }
  ~FolderTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    SetStderrLevel(LogLevel::kInfo);
  }
  std::filesystem::path At(const std::string& name) const { return folder_ / name; }

  std::filesystem::path folder_;
};

// The error a function throws: its kind and text. A test failure when it throws none.
struct Caught {
  ErrorKind kind = ErrorKind::kInternal;
  std::string text;
};
inline Caught ErrorOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

inline SolverParameter Solver(const std::string& text) { return SolverFromText(text, "solver.prototxt"); }

inline NetBlob Blob(const std::string& layer, int index, const Shape& shape,
                    ParameterRole role = ParameterRole::kWeight) {
  NetBlob blob;
  blob.name = StrCat(layer, "/", index);
  blob.layer = layer;
  blob.index = index;
  blob.shape = shape;
  blob.role = role;
  blob.lr_mult = role == ParameterRole::kStatistic ? 0 : 1;
  return blob;
}

}  // namespace moka
