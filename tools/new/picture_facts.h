// The facts that a net is derived from: what moka data check looks at, and besides the colours of pictures and the
// sizes of their objects.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "data/check/source_look.h"

namespace moka {

// An object's box, in pixels of its picture as it is stored in the source.
struct BoxFacts {
  int64_t picture = 0;  // its index
  int64_t label = 0;
  double width = 0;
  double height = 0;
};

// Mean and standard deviation of each channel (B,G,R, or one of grey), 0 to 255.
struct ColorFacts {
  std::vector<double> mean;
  std::vector<double> deviation;
};

// Filled by any number of threads while a source is looked at; read afterwards.
class PictureFacts : public SourceLook {
 public:
  explicit PictureFacts(std::string source) : SourceLook(std::move(source)) {}

  void Visit(const SeenItem& seen) override;

  // The colours of the pictures at these places alone, each counting alike, whatever its size; grey ones count as three
  // equal channels where a coloured one is among them.
  ColorFacts ColorsOf(const std::vector<int64_t>& pictures) const;
  // In no order.
  const std::vector<BoxFacts>& sizes_of_boxes() const { return boxes_; }

 private:
  // Means of values and of their squares, a channel.
  struct Sums {
    std::array<float, 3> values = {};
    std::array<float, 3> squares = {};
  };

  std::mutex colors_mutex_;
  std::vector<Sums> sums_;       // by picture; guarded by colors_mutex_ while threads look
  std::vector<BoxFacts> boxes_;  // likewise
};

// The value below which this share of them lies. Requires: values is not empty, 0 <= share <= 1.
double Quantile(std::vector<double> values, double share);

}  // namespace moka
