// Constants of an ONNX file that is read: initialisers and attributes, inside the messages or in files beside it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/open_file.h"
#include "proto/onnx.pb.h"
#include "tools/exchange/onnx_model.h"

namespace moka {

// Reads tensors of one model. Files beside it lie in its folder or below it: a name that is absolute, that has ".." or
// that links lead elsewhere with is refused. One thread.
class OnnxTensorReader {
 public:
  // `file` is for messages; files beside it are looked for in `folder`.
  OnnxTensorReader(std::string file, std::filesystem::path folder);

  // The values as float32, or as int64 for whole numbers and truth values; `name` is for messages. Values that lie in
  // the message are freed there. Errors: kBadData naming the tensor: a negative dimension, too many elements, bytes of
  // another number than the shape wants, a type that is no number, a place beside the file that is none; kNoInput for
  // a file that is missing.
  OnnxTensor Read(onnx::TensorProto& tensor, const std::string& name);

  // Tensors of float64, whose values were rounded to float32.
  int64_t rounded() const { return rounded_; }

 private:
  struct Beside {
    OpenFile file;
    std::filesystem::path path;
    int64_t read_bytes = 0;  // by all tensors together
  };
  [[noreturn]] void Fail(const std::string& name, const std::string& what, const std::string& hint = {}) const;
  Beside& FileBeside(const std::string& name, const std::string& location);
  std::string BytesBeside(const onnx::TensorProto& tensor, const std::string& name, int64_t expected);

  std::string file_;
  std::filesystem::path folder_;
  std::map<std::string, Beside> beside_;  // by location
  int64_t rounded_ = 0;
};

// "float32", "int64", .. of a TensorProto.DataType; "type 17" for one that is not known.
std::string OnnxTypeName(int type);

}  // namespace moka
