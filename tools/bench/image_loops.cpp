// The loops that a data pipeline is measured against: loops without a pipeline around them, over the JPEG files of a
// folder.
//   image_loops turbojpeg FOLDER BATCH THREADS SIDE   decoding alone, by TurboJPEG's scaled decoding, with the
//                                                     scale that a random-resized-crop to SIDE pixels allows
//   image_loops opencv FOLDER BATCH THREADS SIDE      a loop as one writes it with OpenCV: decode, random-resized-
//                                                     crop, flip, normalise, planes of a batch (where OpenCV's
//                                                     codecs are there)
// Answers "run N" with the milliseconds of N batches, as tools/bench/peers/worker.py wants it.
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#ifdef MOKA_OPENCV_CODECS
#include <opencv2/core.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#endif

#include "core/error.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/threads/parallel.h"

namespace moka {
namespace {

struct Loop {
  std::vector<std::string> files;
  int64_t batch = 64;
  int64_t side = 224;
  int64_t next = 0;             // of all samples so far
  std::vector<float> out = {};  // [batch, 3, side, side]
};

struct Window {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool flipped = false;
};

// torchvision's RandomResizedCrop with its defaults, and a coin.
Window RandomWindow(RandomStream& random, int width, int height) {
  Window window{0, 0, width, height, (random.Bits() & 1U) != 0};
  for (int i = 0; i < 10; ++i) {
    const double area = random.Uniform(0.08, 1) * width * height;
    const double ratio = std::exp(random.Uniform(std::log(3.0 / 4), std::log(4.0 / 3)));
    const auto w = static_cast<int>(std::lround(std::sqrt(area * ratio)));
    const auto h = static_cast<int>(std::lround(std::sqrt(area / ratio)));
    if (w < 1 || h < 1 || w > width || h > height) continue;
    window.x = static_cast<int>(random.Below(static_cast<uint64_t>(width - w + 1)));
    window.y = static_cast<int>(random.Below(static_cast<uint64_t>(height - h + 1)));
    window.width = w;
    window.height = h;
    break;
  }
  return window;
}

RandomStream StreamOf(int64_t sample) { return {1, static_cast<uint64_t>(sample)}; }

const std::string& FileOf(const Loop& loop, int64_t sample) {
  RandomStream random(2, static_cast<uint64_t>(sample));
  return loop.files[static_cast<size_t>(random.Below(loop.files.size()))];
}

void DecodeWithTurboJpeg(Loop& loop, int64_t sample, int64_t /*item*/) {
  thread_local const std::unique_ptr<void, decltype(&tjDestroy)> handle(tjInitDecompress(), &tjDestroy);
  thread_local std::vector<unsigned char> pixels;
  const std::string& file = FileOf(loop, sample);
  const auto* bytes = reinterpret_cast<const unsigned char*>(file.data());
  int width = 0;
  int height = 0;
  int sampling = 0;
  int space = 0;
  Require(tjDecompressHeader3(handle.get(), bytes, file.size(), &width, &height, &sampling, &space) == 0, "a header");
  RandomStream random = StreamOf(sample);
  const Window window = RandomWindow(random, width, height);
  int divisor = 8;
  while (divisor > 1 && std::min(window.width, window.height) < loop.side * divisor) divisor /= 2;
  const int scaled_width = (width + divisor - 1) / divisor;
  const int scaled_height = (height + divisor - 1) / divisor;
  pixels.resize(static_cast<size_t>(scaled_width) * static_cast<size_t>(scaled_height) * 3);
  Require(
      tjDecompress2(handle.get(), bytes, file.size(), pixels.data(), scaled_width, 0, scaled_height, TJPF_BGR, 0) == 0,
      "a picture");
}

#ifdef MOKA_OPENCV_CODECS
void TransformWithOpenCv(Loop& loop, int64_t sample, int64_t item) {
  const std::string& file = FileOf(loop, sample);
  const cv::Mat bytes(1, static_cast<int>(file.size()), CV_8U, const_cast<char*>(file.data()));
  const cv::Mat image = cv::imdecode(bytes, cv::IMREAD_COLOR);
  RandomStream random = StreamOf(sample);
  const Window window = RandomWindow(random, image.cols, image.rows);
  const auto side = static_cast<int>(loop.side);
  cv::Mat small;
  cv::resize(image(cv::Rect(window.x, window.y, window.width, window.height)), small, {side, side});
  if (window.flipped) cv::flip(small, small, 1);
  std::vector<cv::Mat> planes;
  cv::split(small, planes);
  const int64_t plane = loop.side * loop.side;
  constexpr std::array<double, 3> kMean = {0.406, 0.456, 0.485};
  constexpr std::array<double, 3> kDeviation = {0.225, 0.224, 0.229};
  for (size_t c = 0; c < 3; ++c) {
    cv::Mat to(side, side, CV_32F, loop.out.data() + (item * 3 + static_cast<int64_t>(c)) * plane);
    planes[c].convertTo(to, CV_32F, 1 / (255 * kDeviation[c]), -kMean[c] / kDeviation[c]);
  }
}
#endif

using Work = std::function<void(Loop&, int64_t sample, int64_t item)>;

Work WorkOf(const std::string& name) {
  if (name == "turbojpeg") return DecodeWithTurboJpeg;
#ifdef MOKA_OPENCV_CODECS
  if (name == "opencv") {
    cv::setNumThreads(1);
    return TransformWithOpenCv;
  }
#endif
  return nullptr;
}

double BatchMs(Loop& loop, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  ParallelFor(loop.batch, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) work(loop, loop.next + i, i);
  });
  loop.next += loop.batch;
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

int Run(int argc, char** argv) {
  const Work work = argc == 6 ? WorkOf(argv[1]) : nullptr;
  if (work == nullptr) {
    std::fputs("usage: image_loops turbojpeg|opencv FOLDER BATCH THREADS SIDE\n", stderr);
    return 64;
  }
  Loop loop;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[2])) {
    if (entry.path().extension() == ".jpg") loop.files.push_back(ReadFile(entry.path()));
  }
  Require(!loop.files.empty(), "the folder holds .jpg files");
  loop.batch = std::atoll(argv[3]);
  SetThreadCount(std::atoi(argv[4]));
  loop.side = std::atoll(argv[5]);
  loop.out.resize(static_cast<size_t>(loop.batch * 3 * loop.side * loop.side));
  std::printf("{\"ready\": true, \"batch\": %lld}\n", static_cast<long long>(loop.batch));
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line) && line.starts_with("run ");) {
    std::string ms;
    for (int64_t i = std::atoll(line.c_str() + 4); i > 0; --i) {
      ms += (ms.empty() ? "" : ", ") + std::to_string(BatchMs(loop, work));
    }
    std::printf("{\"ms\": [%s]}\n", ms.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace moka

int main(int argc, char** argv) { return moka::Run(argc, argv); }
