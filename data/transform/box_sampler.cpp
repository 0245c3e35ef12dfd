// Windows are drawn and tested against the constraints, a bounded number of times each.
#include "data/transform/box_sampler.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

constexpr uint32_t kMaxTrials = 100000;  // a sample must not take minutes

float DrawBetween(RandomStream& random, float low, float high) {
  return static_cast<float>(random.Uniform(double{low}, double{high}));
}

// A window of random scale and aspect, anywhere in the image. The aspect is cut so that both sides fit.
NormalBox RandomWindow(const CropSampler& sampler, RandomStream& random) {
  const float scale = DrawBetween(random, sampler.min_scale(), sampler.max_scale());
  const float limit = scale * scale;
  const float aspect =
      std::clamp(DrawBetween(random, sampler.min_aspect_ratio(), sampler.max_aspect_ratio()), limit, 1 / limit);
  const float width = std::min(1.0F, scale * std::sqrt(aspect));
  const float height = std::min(1.0F, scale / std::sqrt(aspect));
  const float x = DrawBetween(random, 0, 1 - width);
  const float y = DrawBetween(random, 0, 1 - height);
  return {x, y, x + width, y + height};
}

// Whether a bound pair is given and the value lies outside.
bool IsOutsideSample(bool has_min, float min, bool has_max, float max, float value) {
  return (has_min && value < min) || (has_max && value > max);
}

}  // namespace

void CheckSamplers(const BatchSamplers& samplers) {
  for (int i = 0; i < samplers.size(); ++i) {
    const CropSampler& s = samplers[i].sampler();
    const auto fail = [&](const std::string& text) {
      throw Error(ErrorKind::kConfig, StrCat("annotated_data_param.batch_sampler[", i, "]: ", text));
    };
    if (!(s.min_scale() > 0 && s.min_scale() <= s.max_scale() && s.max_scale() <= 1)) {
      fail(StrCat("scales from ", s.min_scale(), " to ", s.max_scale(), ", expected 0 < min_scale <= max_scale <= 1"));
    }
    const bool is_range = s.min_aspect_ratio() > 0 && s.min_aspect_ratio() <= s.max_aspect_ratio();
    if (!is_range || !std::isfinite(s.max_aspect_ratio())) {
      fail(StrCat("aspect ratios from ", s.min_aspect_ratio(), " to ", s.max_aspect_ratio(),
                  ", expected 0 < min_aspect_ratio <= max_aspect_ratio"));
    }
    if (samplers[i].max_trials() > kMaxTrials) {
      fail(StrCat("max_trials is ", samplers[i].max_trials(), ", at most ", kMaxTrials, " are possible"));
    }
  }
}

bool Satisfies(const SampleConstraint& c, const NormalBox& window, std::span<const Annotated> objects) {
  const bool wants_overlap = c.has_min_jaccard_overlap() || c.has_max_jaccard_overlap();
  const bool wants_sample = c.has_min_sample_coverage() || c.has_max_sample_coverage();
  const bool wants_object = c.has_min_object_coverage() || c.has_max_object_coverage();
  if (!wants_overlap && !wants_sample && !wants_object) return true;
  // As in Caffe, with several kinds of constraint it is enough that some object passes the first.
  bool passed_one = false;
  for (const Annotated& object : objects) {
    if (wants_overlap) {
      if (IsOutsideSample(c.has_min_jaccard_overlap(), c.min_jaccard_overlap(), c.has_max_jaccard_overlap(),
                          c.max_jaccard_overlap(), Overlap(window, object.box))) {
        continue;
      }
      passed_one = true;
    }
    if (wants_sample) {
      if (IsOutsideSample(c.has_min_sample_coverage(), c.min_sample_coverage(), c.has_max_sample_coverage(),
                          c.max_sample_coverage(), Coverage(window, object.box))) {
        continue;
      }
      passed_one = true;
    }
    if (wants_object) {
      if (IsOutsideSample(c.has_min_object_coverage(), c.min_object_coverage(), c.has_max_object_coverage(),
                          c.max_object_coverage(), Coverage(object.box, window))) {
        continue;
      }
      passed_one = true;
    }
    return true;
  }
  return passed_one;
}

bool SampleWindow(const BatchSamplers& samplers, std::span<const Annotated> objects, RandomStream& random,
                  std::vector<NormalBox>& found, NormalBox& window) {
  found.clear();
  for (const BatchSampler& sampler : samplers) {
    if (!sampler.use_original_image()) continue;
    uint32_t count = 0;
    for (uint32_t trial = 0; trial < sampler.max_trials(); ++trial) {
      if (sampler.has_max_sample() && count >= sampler.max_sample()) break;
      const NormalBox tried = RandomWindow(sampler.sampler(), random);
      if (!Satisfies(sampler.sample_constraint(), tried, objects)) continue;
      found.push_back(tried);
      ++count;
    }
  }
  if (found.empty()) return false;
  window = found[random.Below(found.size())];
  return true;
}

NormalBox JitterWindow(float jitter, bool keeps_aspect, RandomStream& random) {
  const uint64_t kind = random.Below(5);
  if (kind == 0) return {0, 0, 1, 1};
  const float most = kind == 1 ? jitter / 2 : jitter;
  const float width = DrawBetween(random, 1 - most, 1);
  const float height = keeps_aspect ? width : DrawBetween(random, 1 - most, 1);
  const float x = DrawBetween(random, 0, 1 - width);
  const float y = DrawBetween(random, 0, 1 - height);
  return {x, y, x + width, y + height};
}

}  // namespace moka
