// The param_str of Python layers: the part of YAML and of Python's literals that such nets use. Keys with numbers,
// texts, lists and dictionaries, in braces or one a line:
//   'feat_stride': 16
//   'scales': !!python/tuple [8, 16, 32]
//   {'split': 'train', 'mean': (104.0, 116.7, 122.7)}
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "layers/net/layer.h"

namespace moka {

struct PythonValue {
  enum class Kind : uint8_t { kNone, kNumber, kText, kList, kMap };  // True is 1, False 0
  Kind kind = Kind::kNone;
  double number = 0;
  std::string text = {};
  std::vector<PythonValue> items = {};
  std::vector<std::pair<std::string, PythonValue>> entries = {};
};

// The text as a kMap. Errors: kConfig with the line and what was expected.
PythonValue ParsePython(std::string_view text);

// The fields of one layer. Keys nobody asks for are allowed, as in Python. Errors: kConfig at python_param.param_str.
class PythonFields {
 public:
  explicit PythonFields(const LayerBuilder& l);
  // The fields of a map inside param_str.
  PythonFields(const LayerBuilder& l, PythonValue map) : l_(l), map_(std::move(map)) {}

  bool Has(std::string_view key) const { return Find(key) != nullptr; }
  double Number(std::string_view key, double fallback) const;
  // A whole number from least to 2^31-1.
  int64_t Count(std::string_view key, int64_t fallback, int64_t least) const;
  // As above, of a key that must be there.
  int64_t Count(std::string_view key, int64_t least) const;
  bool Flag(std::string_view key, bool fallback) const { return Number(key, fallback ? 1 : 0) != 0; }
  // A list of numbers (or one number).
  std::vector<double> Numbers(std::string_view key, const std::vector<double>& fallback) const;
  std::string Text(std::string_view key, const std::string& fallback) const;
  std::vector<std::string> Texts(std::string_view key, const std::vector<std::string>& fallback) const;

 private:
  const PythonValue* Find(std::string_view key) const;
  [[noreturn]] void Fail(std::string_view key, std::string_view expected) const;

  const LayerBuilder& l_;
  PythonValue map_;
};

}  // namespace moka
