// Boxes of single-shot detection: corners as fractions of the image, their overlap, and the codes a net predicts them
// in (Liu et al., "SSD", 2016). Also how ops read and write numbers that are double in the reference and float in
// kernels, so that both run the same code.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/op.h"

namespace moka {

struct Box {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

// 0 for a box turned inside out.
double Area(const Box& box);
// Intersection over union; 0 when the boxes share no area.
double Overlap(const Box& a, const Box& b);
// Whether any corner lies outside the image.
bool CrossesBorder(const Box& box);

// How four numbers say a box relative to a prior.
enum class BoxForm : uint8_t {
  kCorner,      // differences of the corners
  kCenterSize,  // differences of the centre in prior sizes, logarithms of the size's ratios
  kCornerSize,  // differences of the corners in prior sizes
};
using BoxCode = std::array<double, 4>;

struct BoxCoding {
  BoxForm form = BoxForm::kCorner;
  // The code is not divided by the prior's variances.
  bool variance_in_target = false;

  // code, variance_in_target. Errors: kConfig for a form that is none.
  static BoxCoding Of(std::string_view op, const Attributes& attributes);
};
std::vector<AttributeSpec> BoxCodingAttributes();

BoxCode Encode(const BoxCoding& coding, const Box& prior, const BoxCode& variance, const Box& box);
Box Decode(const BoxCoding& coding, const Box& prior, const BoxCode& variance, const BoxCode& code);

// TextBoxes++: x and y of four corners, from the upper left one clockwise. Coded as their differences from the prior's
// own corners in prior sizes, divided by its first two variances.
using Polygon = std::array<double, 8>;
Polygon EncodePolygon(const Box& prior, const BoxCode& variance, const Polygon& polygon);
Polygon DecodePolygon(const Box& prior, const BoxCode& variance, const Polygon& code);

// Read-only numbers, row-major: float or double.
class Reals {
 public:
  Reals() = default;
  explicit Reals(const float* floats) : floats_(floats) {}
  explicit Reals(const double* doubles) : doubles_(doubles) {}
  bool empty() const { return floats_ == nullptr && doubles_ == nullptr; }
  double operator[](int64_t i) const { return floats_ != nullptr ? double{floats_[i]} : doubles_[i]; }
  // The numbers from `offset` on.
  Reals From(int64_t offset) const {
    if (empty()) return {};
    return floats_ != nullptr ? Reals(floats_ + offset) : Reals(doubles_ + offset);
  }
  BoxCode Four(int64_t i) const { return {(*this)[i], (*this)[i + 1], (*this)[i + 2], (*this)[i + 3]}; }
  Polygon EightAt(int64_t i) const {
    Polygon eight;
    for (size_t k = 0; k < eight.size(); ++k) eight[k] = (*this)[i + static_cast<int64_t>(k)];
    return eight;
  }
  Box BoxAt(int64_t i) const { return {(*this)[i], (*this)[i + 1], (*this)[i + 2], (*this)[i + 3]}; }

 private:
  const float* floats_ = nullptr;
  const double* doubles_ = nullptr;
};

// Numbers to be written.
class RealsOut {
 public:
  explicit RealsOut(float* floats) : floats_(floats) {}
  explicit RealsOut(double* doubles) : doubles_(doubles) {}
  void Set(int64_t i, double value) const {
    if (floats_ != nullptr) {
      floats_[i] = static_cast<float>(value);
    } else {
      doubles_[i] = value;
    }
  }
  void Fill(int64_t begin, int64_t end, double value) const {
    for (int64_t i = begin; i < end; ++i) Set(i, value);
  }
  RealsOut From(int64_t offset) const {
    return floats_ != nullptr ? RealsOut(floats_ + offset) : RealsOut(doubles_ + offset);
  }

 private:
  float* floats_ = nullptr;
  double* doubles_ = nullptr;
};

inline Reals View(const RefTensor& tensor) { return Reals(tensor.values.data()); }
inline RealsOut View(RefTensor& tensor) { return RealsOut(tensor.values.data()); }

// Boxes and variances of a tensor [1,2,priors*4].
void ReadPriors(const Reals& prior, int64_t count, std::vector<Box>& boxes, std::vector<BoxCode>& variances);

// One row [item_id, label, instance_id, xmin, ymin, xmax, ymax, difficult] of the ground truth, of which more columns
// may follow.
struct TruthRow {
  int64_t image = -1;  // -1: padding, or no number
  int64_t label = -1;
  Box box;
  bool difficult = false;
  int64_t row = 0;
};
TruthRow ReadTruth(const Reals& rows, int64_t row, int64_t width = 8);
// The integer part of a number as Caffe casts it; -1 for what no int holds.
int64_t WholePart(double value);

// Indices of the scores above `threshold`, highest first, among equals the lower index; at most top_k of them
// (-1: all).
void RankScores(std::span<const double> scores, double threshold, int64_t top_k, std::vector<int64_t>& order);

// Greedy non-maximum suppression: of `order`, those that overlap no box kept before by more than the threshold. With
// eta < 1 the threshold shrinks by eta at each box kept while above 0.5.
void SuppressOverlaps(std::span<const Box> boxes, std::span<const int64_t> order, double threshold, double eta,
                      std::vector<int64_t>& kept);

// Errors: kConfig unless prior is [1,2,P*4] (or has that many elements); returns P.
int64_t PriorCount(std::string_view op, const Shape& prior);
// Errors: kConfig unless x is [items, per_item] whatever the trailing ones.
void CheckPerItem(std::string_view op, std::string_view name, const Shape& x, int64_t items, int64_t per_item,
                  std::string_view rule);
// Errors: kConfig unless x is rows of `width` numbers, [1,1,rows,width]; returns the rows.
int64_t RowCount(std::string_view op, std::string_view name, const Shape& x, int64_t width);

}  // namespace moka
