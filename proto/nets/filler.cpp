// xavier: Glorot, Bengio 2010; msra: He et al. 2015 (arXiv 1502.01852).
#include "proto/nets/filler.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "core/error.h"
#include "core/open_file.h"
#include "core/rng.h"
#include "core/text.h"
#include "core/threads/parallel.h"
#include "proto/nets/filler_patterns.h"

namespace moka {
namespace {

constexpr int64_t kGrain = 1 << 14;

const std::vector<std::string>& FillerTypes() {
  static const std::vector<std::string> types = {
      "EdgeX",     "EdgeY",   "Laplacian", "LoG",      "bilinear",          "bilinear_3D", "bilinear_upsampling",
      "constant",  "file",    "gabor",     "gaussian", "gaussian_unitball", "msra",        "positive_unitball",
      "thrlinear", "uniform", "xavier"};
  return types;
}

// The types that read each field. scale and alpha are of forks' fillers that are computed without them here.
const std::map<std::string, std::vector<std::string>, std::less<>>& FillerFields() {
  static const std::map<std::string, std::vector<std::string>, std::less<>> fields = {
      {"alpha", {}},
      {"max", {"uniform"}},
      {"mean", {"gaussian"}},
      {"min", {"uniform"}},
      {"scale", {}},
      {"sparse", {"gaussian"}},
      {"std", {"gaussian", "LoG"}},
      {"value", {"constant"}},
      {"variance_norm", {"xavier", "msra"}}};
  return fields;
}

[[noreturn]] void Refuse(const std::string& text, std::string hint = {}) {
  throw Error(ErrorKind::kConfig, {}, text, std::move(hint));
}

void CheckFinite(std::string_view name, float value) {
  if (!std::isfinite(value)) Refuse(StrCat("filler: ", name, " must be a finite number, found ", value));
}

// count / dim 0, count / dim 1, or their mean.
double FanOf(const FillerParameter& filler, const Shape& shape) {
  const auto count = static_cast<double>(shape.Count());
  const double in = shape.rank() > 0 ? count / static_cast<double>(shape[0]) : count;
  const double out = shape.rank() > 1 ? count / static_cast<double>(shape[1]) : count;
  switch (filler.variance_norm()) {
    case FillerParameter::FAN_OUT: return out;
    case FillerParameter::AVERAGE: return (in + out) / 2;
    default: return in;
  }
}

// Value i is draw(stream), with the stream at word i*words: the same for any split over threads.
template <class Draw>
void FillRandom(std::span<float> values, uint64_t seed, uint64_t stream, uint64_t words, Draw draw) {
  ParallelFor(static_cast<int64_t>(values.size()), kGrain, [&](int64_t begin, int64_t end, int) {
    RandomStream random(seed, stream, static_cast<uint64_t>(begin) * words);
    for (int64_t i = begin; i < end; ++i) values[static_cast<size_t>(i)] = static_cast<float>(draw(random));
  });
}

void FillUniform(std::span<float> values, uint64_t seed, uint64_t stream, double low, double high) {
  FillRandom(values, seed, stream, 2, [=](RandomStream& random) { return random.Uniform(low, high); });
}

void FillNormal(std::span<float> values, uint64_t seed, uint64_t stream, double mean, double stddev) {
  FillRandom(values, seed, stream, 4, [=](RandomStream& random) { return random.Normal(mean, stddev); });
}

// Keeps each value with probability sparse / dim 0.
void Thin(std::span<float> values, const FillerParameter& filler, const Shape& shape, uint64_t seed, uint64_t stream) {
  const double kept = static_cast<double>(filler.sparse()) / static_cast<double>(shape[0]);
  RandomStream random(seed, stream);
  for (float& value : values) value = random.Uniform() < kept ? value : 0.0F;
}

// Uniform values, each row (dim 0) divided by its sum.
void FillUnitBall(std::span<float> values, const Shape& shape, uint64_t seed, uint64_t stream) {
  FillUniform(values, seed, stream, 0, 1);
  const size_t rows = shape.rank() > 0 ? static_cast<size_t>(shape[0]) : 1;
  const size_t length = values.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<float> part = values.subspan(row * length, length);
    double sum = 0;
    for (const float value : part) sum += static_cast<double>(value);
    for (float& value : part) value = static_cast<float>(static_cast<double>(value) / sum);
  }
}

// Normal values, each row (dim 0) divided by its norm (happynear).
void FillGaussianUnitBall(std::span<float> values, const Shape& shape, uint64_t seed, uint64_t stream) {
  FillNormal(values, seed, stream, 0, 1);
  const size_t rows = shape.rank() > 0 ? static_cast<size_t>(shape[0]) : 1;
  const size_t length = values.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    const std::span<float> part = values.subspan(row * length, length);
    double sum = 1e-12;
    for (const float value : part) sum += static_cast<double>(value) * static_cast<double>(value);
    for (float& value : part) value = static_cast<float>(static_cast<double>(value) / std::sqrt(sum));
  }
}

// The kernel of bilinear upsampling in every [k,k] plane. bilinear_upsampling is what BVLC Caffe's pull request 2213
// called it, before its centre of an odd kernel was mended (5713).
void FillBilinear(std::span<float> values, const Shape& shape, const std::string& type) {
  const int64_t width = shape[3];
  const int64_t half = (width + 1) / 2;
  const auto f = static_cast<double>(half);
  const int64_t twice = type == "bilinear" ? width - 1 : 2 * half - 1 - half % 2;
  const double center = static_cast<double>(twice) / (2 * f);
  const auto slope = [&](int64_t i) { return 1 - std::abs(static_cast<double>(i) / f - center); };
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    values[i] = static_cast<float>(slope(at % width) * slope(at / width % width));
  }
}

// That of trilinear upsampling in every [k,k,k] volume, with the centre of Caffe's older bilinear filler, which these
// forks have (ljpadam's thrlinear, 3D-Caffe's bilinear_3D): an odd kernel's is half a step beside its middle.
void FillTrilinear(std::span<float> values, const Shape& shape) {
  const int64_t side = shape[4];
  const int64_t half = (side + 1) / 2;
  const auto f = static_cast<double>(half);
  const double center = static_cast<double>(2 * half - 1 - half % 2) / (2 * f);
  const auto slope = [&](int64_t i) { return 1 - std::abs(static_cast<double>(i) / f - center); };
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    values[i] = static_cast<float>(slope(at % side) * slope(at / side % side) * slope(at / (side * side) % side));
  }
}

bool IsBilinear(const std::string& type) { return type == "bilinear" || type == "bilinear_upsampling"; }
bool IsTrilinear(const std::string& type) { return type == "thrlinear" || type == "bilinear_3D"; }

// The first numbers of a text file (Kaichun Mo's).
void FillFromFile(std::span<float> values, const std::string& path) {
  constexpr int64_t kLongestNumber = 64;  // bytes, with the blanks around it
  const OpenFile file = OpenFile::ForReading(path);
  std::string text(static_cast<size_t>(std::min(file.bytes(), std::ssize(values) * kLongestNumber)), '\0');
  text.resize(static_cast<size_t>(file.ReadAt(0, text.data(), std::ssize(text), path)));
  std::istringstream in(text);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(in >> values[i])) {
      throw Error(ErrorKind::kBadData,
                  StrCat("file filler: \"", path, "\" must hold ", values.size(), " numbers, found ", i));
    }
    CheckFinite("a value of the file", values[i]);
  }
}

}  // namespace

std::vector<UnreadFillerField> UnreadFieldsOf(const FillerParameter& filler) {
  std::vector<const google::protobuf::FieldDescriptor*> given;
  filler.GetReflection()->ListFields(filler, &given);
  const auto text = [](const FillerParameter& of, const google::protobuf::FieldDescriptor* field) {
    std::string value;
    google::protobuf::TextFormat::PrintFieldValueToString(of, field, -1, &value);
    return value;
  };
  std::vector<UnreadFillerField> unread;
  for (const google::protobuf::FieldDescriptor* field : given) {
    const auto row = FillerFields().find(field->name());
    if (row == FillerFields().end()) continue;
    const std::vector<std::string>& readers = row->second;
    if (std::ranges::find(readers, filler.type()) != readers.end()) continue;
    const bool is_default = !field->is_repeated() && text(filler, field) == text(FillerParameter(), field);
    if (!is_default || !filler.has_type()) unread.push_back({std::string(field->name()), Join(readers, " or ")});
  }
  return unread;
}

void CheckFiller(const FillerParameter& filler, const Shape& shape) {
  const std::string& type = filler.type();
  if (const std::vector<UnreadFillerField> unread = UnreadFieldsOf(filler); !filler.has_type() && !unread.empty()) {
    const UnreadFillerField& first = unread.front();
    Refuse(
        StrCat("filler: ", first.name, " is ", first.readers.empty() ? "no type's" : StrCat("for type ", first.readers),
               "; no type is given, and constant, the default, does not read it"),
        "give the filler its type");
  }
  if (std::ranges::find(FillerTypes(), type) == FillerTypes().end()) {
    Refuse(StrCat("unknown filler type \"", type, "\""), DidYouMean(type, FillerTypes()));
  }
  CheckFinite("value", filler.value());
  CheckFinite("min", filler.min());
  CheckFinite("max", filler.max());
  CheckFinite("mean", filler.mean());
  CheckFinite("std", filler.std());
  if (type == "uniform" && filler.min() > filler.max()) {
    Refuse(StrCat("uniform filler: min ", filler.min(), " is above max ", filler.max()));
  }
  if (filler.values_size() > 0 && (type != "constant" || filler.values_size() != shape.Count())) {
    Refuse(StrCat("filler: values are for type constant, one an element of ", shape.ToString(), "; found ",
                  filler.values_size(), " for type ", type));
  }
  for (const float value : filler.values()) CheckFinite("values", value);
  if (type == "gaussian" && filler.std() < 0) Refuse(StrCat("gaussian filler: std ", filler.std(), " is negative"));
  if (filler.sparse() < -1) Refuse(StrCat("filler: sparse must be -1 or at least 0, found ", filler.sparse()));
  if (type == "gaussian" && filler.sparse() >= 0 && shape.rank() == 0)
    Refuse("gaussian filler: sparse needs a parameter with axes");
  if ((type == "file") != filler.has_file()) {
    Refuse("filler: file, a text file of numbers, is for type file, which needs it");
  }
  if (IsBilinear(type) && (shape.rank() != 4 || shape[2] != shape[3])) {
    Refuse(StrCat(type, " filler: needs a square 2-D kernel, the parameter's shape is ", shape.ToString()));
  }
  const bool is_cube = shape.rank() == 5 && shape[2] == shape[3] && shape[3] == shape[4];
  if (IsTrilinear(type) && !is_cube) {
    Refuse(StrCat(type, " filler: needs a cubic 3-D kernel, the parameter's shape is ", shape.ToString()));
  }
  if (!IsPatternFiller(type)) return;
  if (const std::string fault = PatternFault(filler, shape); !fault.empty()) Refuse(fault);
}

void FillValues(const FillerParameter& filler, const Shape& shape, uint64_t seed, const FillerStreams& streams,
                std::span<float> values) {
  Require(static_cast<int64_t>(values.size()) == shape.Count(), "FillValues: as many values as the shape has");
  CheckFiller(filler, shape);
  const std::string& type = filler.type();
  const uint64_t stream = streams.values;
  if (type == "constant") std::ranges::fill(values, filler.value());
  if (filler.values_size() > 0) std::ranges::copy(filler.values(), values.begin());
  if (type == "uniform") {
    FillUniform(values, seed, stream, static_cast<double>(filler.min()), static_cast<double>(filler.max()));
  }
  if (type == "gaussian") {
    FillNormal(values, seed, stream, static_cast<double>(filler.mean()), static_cast<double>(filler.std()));
    if (filler.sparse() >= 0) Thin(values, filler, shape, seed, streams.kept);
  }
  if (type == "gaussian_unitball") FillGaussianUnitBall(values, shape, seed, stream);
  if (type == "positive_unitball") FillUnitBall(values, shape, seed, stream);
  if (type == "xavier") {
    const double bound = std::sqrt(3.0 / FanOf(filler, shape));
    FillUniform(values, seed, stream, -bound, bound);
  }
  if (type == "msra") FillNormal(values, seed, stream, 0, std::sqrt(2.0 / FanOf(filler, shape)));
  if (IsBilinear(type)) FillBilinear(values, shape, type);
  if (IsTrilinear(type)) FillTrilinear(values, shape);
  if (IsPatternFiller(type)) FillPattern(filler, shape, values);
  if (type == "file") FillFromFile(values, filler.file());
}

void FillBlob(const FillerParameter& filler, const Shape& shape, uint64_t seed, std::string_view name,
              std::span<float> values) {
  FillValues(filler, shape, seed, {StableHash(name), StableHash(StrCat(name, "/sparse"))}, values);
}

}  // namespace moka
