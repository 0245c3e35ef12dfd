// SSD's batch samplers: random windows of an image that fit its boxes as asked (enough overlap, enough of an object),
// one of which the image is cut to.
#pragma once

#include <span>
#include <vector>

#include "core/rng.h"
#include "data/records/annotated_record.h"
#include "proto/moka.pb.h"

namespace moka {

using BatchSamplers = google::protobuf::RepeatedPtrField<BatchSampler>;

// Errors: kConfig for a sampler whose ranges are empty or outside of what is possible.
void CheckSamplers(const BatchSamplers& samplers);

// Whether any object makes the window one the constraint allows.
bool Satisfies(const SampleConstraint& constraint, const NormalBox& window, std::span<const Annotated> objects);

// Tries every sampler and picks one of the windows found, all equally likely. False when there is none.
// `found` is scratch.
bool SampleWindow(const BatchSamplers& samplers, std::span<const Annotated> objects, RandomStream& random,
                  std::vector<NormalBox>& found, NormalBox& window);

// YOLO's: in 3 of 5 draws a window whose sides are from 1 - jitter to 1 of the image's, in 1 by half of jitter, in 1
// the whole image. keeps_aspect: both sides by one number.
NormalBox JitterWindow(float jitter, bool keeps_aspect, RandomStream& random);

}  // namespace moka
