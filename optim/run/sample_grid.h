// Images that a net makes, as files: one value of a blob becomes a pixel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/device/tensor.h"
#include "data/image/image.h"
#include "optim/step/test_net.h"
#include "proto/moka.pb.h"

namespace moka {

// The values of a blob that are black and white; values outside are cut off.
struct GrayRange {
  double low = -1;
  double high = 1;
};

// Image i of [N,C,H,W], plain float32, C 1 or 3 (B,G,R). Requires: i < N.
Image PictureOfValues(const Tensor& values, int64_t i, const GrayRange& range);
// Puts the pictures in rows of so many, a pixel apart.
Image SheetOf(std::vector<Image> pictures, int64_t columns);

// Blobs of a test net that the solver's sample_grid fields draw. Errors: kConfig at a field that names no test net, no
// blob, or numbers below 1.
std::vector<WatchedBlob> WatchedForSamples(const SolverParameter& solver, int test_net);
// Errors: kConfig for a blob of the test net that is no images, or fewer than asked for.
void CheckSampleGrids(const SolverParameter& solver, int test_net, const TestNet& net);
// After a test: samples/iter_0000500.png of the run's folder ("_1" and so on behind those of later sample_grid fields),
// from the test's last batch. Requires: CheckSampleGrids. Errors: kCantCreate, kIo.
void DrawSampleGrids(const SolverParameter& solver, int test_net, const TestNet& net, int64_t iteration,
                     const std::filesystem::path& run_folder);

}  // namespace moka
