// Values are cut to the range, rounded to bytes and laid out in a sheet of rows.
#include "optim/run/sample_grid.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/file.h"
#include "core/text.h"
#include "data/image/drawing.h"
#include "optim/checkpoint/checkpoint.h"
#include "proto/text/places.h"

namespace moka {
namespace {

[[noreturn]] void FailGrid(const SolverParameter& solver, int i, std::string_view field, const std::string& text) {
  throw Error(ErrorKind::kConfig, PlaceOf(solver, StrCat("sample_grid[", i, "].", field)), text);
}

void CheckGridBlob(const SolverParameter& solver, int i, const Shape& shape) {
  const SampleGrid& grid = solver.sample_grid(i);
  if (shape.rank() != 4 || (shape[1] != 1 && shape[1] != 3)) {
    FailGrid(solver, i, "blob",
             StrCat("sample_grid draws pictures [N,C,H,W] of 1 or 3 channels, and \"", grid.blob(), "\" is ",
                    shape.ToString()));
  }
  if (grid.count() > shape[0]) {
    FailGrid(solver, i, "count",
             StrCat("count is ", grid.count(), " and \"", grid.blob(), "\" has ", shape[0], " pictures"));
  }
}

}  // namespace

Image PictureOfValues(const Tensor& values, int64_t i, const GrayRange& range) {
  const Shape& shape = values.shape();
  const int64_t channels = shape[1];
  const int64_t plane = shape[2] * shape[3];
  Image image;
  image.Resize(shape[3], shape[2], channels);
  const float* from = values.as<const float>().data() + i * channels * plane;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t p = 0; p < plane; ++p) {
      const double part = (double{from[c * plane + p]} - range.low) / (range.high - range.low);
      // NaN becomes black: an image is drawn while a training goes wrong, too.
      const double pixel = part > 0 ? std::min(part, 1.0) * 255 : 0;
      image.pixels[static_cast<size_t>(p * channels + c)] = static_cast<uint8_t>(std::lround(pixel));
    }
  }
  return image;
}

Image SheetOf(std::vector<Image> pictures, int64_t columns) {
  for (Image& picture : pictures) ConvertChannels(3, picture);
  return Tiled(pictures, columns, 1);
}

std::vector<WatchedBlob> WatchedForSamples(const SolverParameter& solver, int test_net) {
  std::vector<WatchedBlob> blobs;
  for (int i = 0; i < solver.sample_grid_size(); ++i) {
    const SampleGrid& grid = solver.sample_grid(i);
    if (grid.blob().empty()) FailGrid(solver, i, "blob", "sample_grid says no blob");
    if (grid.count() < 1 || grid.columns() < 1)
      FailGrid(solver, i, "count", "count and columns of sample_grid must be at least 1");
    if (!(grid.low() < grid.high())) FailGrid(solver, i, "low", "low of sample_grid must be below high");
    if (grid.test_net() < 0 || grid.test_net() >= solver.test_iter_size()) {
      FailGrid(solver, i, "test_net",
               StrCat("sample_grid is of test net ", grid.test_net(), " of ", solver.test_iter_size()));
    }
    const bool is_new = std::ranges::find(blobs, grid.blob(), &WatchedBlob::name) == blobs.end();
    if (grid.test_net() == test_net && is_new)
      blobs.push_back({grid.blob(), PlaceOf(solver, StrCat("sample_grid[", i, "].blob"))});
  }
  return blobs;
}

void CheckSampleGrids(const SolverParameter& solver, int test_net, const TestNet& net) {
  for (int i = 0; i < solver.sample_grid_size(); ++i) {
    const SampleGrid& grid = solver.sample_grid(i);
    if (grid.test_net() == test_net) CheckGridBlob(solver, i, net.watched_shape(grid.blob()));
  }
}

void DrawSampleGrids(const SolverParameter& solver, int test_net, const TestNet& net, int64_t iteration,
                     const std::filesystem::path& run_folder) {
  for (int i = 0; i < solver.sample_grid_size(); ++i) {
    const SampleGrid& grid = solver.sample_grid(i);
    if (grid.test_net() != test_net) continue;
    const Tensor values = net.watched(grid.blob());
    CreateFolders(run_folder / "samples");
    const std::string name = StrCat(CheckpointName(iteration), i == 0 ? std::string() : StrCat("_", i), ".png");
    std::vector<Image> pictures;
    const int64_t count = std::min<int64_t>(grid.count(), values.shape()[0]);
    for (int64_t k = 0; k < count; ++k) {
      pictures.push_back(PictureOfValues(values, k, {double{grid.low()}, double{grid.high()}}));
    }
    WriteFileAtomically(run_folder / "samples" / name, EncodePng(SheetOf(std::move(pictures), grid.columns())));
  }
}

}  // namespace moka
