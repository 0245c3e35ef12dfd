// The regions that a second stage learns from and their targets (Girshick 2015), for batches of several images.
// Candidates of an image are its proposals and its objects; those that overlap an object by foreground_overlap are
// foreground. A sample of `rows` an image is taken, foreground first; rows without a candidate are of image -1 and
// class -1. The first mask_rows foreground regions of an image come once more, for a net that cuts out objects.
#include "graph/op.h"
#include "layers/forks/mask_rcnn/ops/geometry.h"
#include "layers/forks/rcnn/ops/rois.h"
#include "layers/ops/on_host.h"

namespace moka {
namespace {

constexpr std::string_view kPictureRegionsOp = "picture_regions";

std::vector<TensorType> InferPictureRegions(const Attributes& attributes, std::span<const TensorType> in) {
  CheckInputCount(kPictureRegionsOp, in, 3, 3);
  CheckRois(kPictureRegionsOp, in[0]);
  CheckPictureTruth(kPictureRegionsOp, in[1]);
  CheckShape(kPictureRegionsOp, "key", in[2].shape, Shape{}, "a scalar");
  (void)PictureExtent::Of(kPictureRegionsOp, attributes);
  const int64_t rows = attributes.Int("rows");
  const int64_t mask_rows = attributes.Int("mask_rows");
  const int64_t classes = attributes.Int("classes");
  if (rows < 1 || mask_rows < 1 || classes < 2) {
    throw Error(ErrorKind::kConfig, StrCat(kPictureRegionsOp,
                                           ": rows and mask_rows must be at least 1 and classes at "
                                           "least 2, found ",
                                           rows, ", ", mask_rows, " and ", classes));
  }
  if (attributes.Get<Doubles>("stds").size() != 4) {
    throw Error(ErrorKind::kConfig, StrCat(kPictureRegionsOp, ": stds must be four numbers"));
  }
  const int64_t all = (Size(attributes.Int("pictures")) * rows).value();
  const int64_t masks = (Size(attributes.Int("pictures")) * mask_rows).value();
  const TensorType four = PlainType(DType::kFloat32, Shape{all, (Size(classes) * 4).value()});
  const TensorType mask = PlainType(DType::kFloat32, Shape{masks});
  return {PlainType(DType::kFloat32, Shape{all, 5}),
          PlainType(DType::kFloat32, Shape{all}),
          four,
          four,
          four,
          PlainType(DType::kFloat32, Shape{masks, 5}),
          mask,
          mask};
}

struct RegionCandidate {
  Box<double> box;
  int64_t match;  // of the image's truth; -1: background
};

std::vector<RegionCandidate> CandidatesOfPicture(const std::vector<double>& rois, int64_t picture,
                                                 const std::vector<PictureTruth>& truth, double foreground) {
  std::vector<RegionCandidate> candidates;
  const auto add = [&](const Box<double>& box) {
    double most = 0;
    int64_t match = -1;
    for (size_t g = 0; g < truth.size(); ++g) {
      const double overlap = Overlap(box, truth[g].box, kUnitSide);
      if (!(overlap > most)) continue;
      most = overlap;
      match = static_cast<int64_t>(g);
    }
    candidates.push_back({box, most >= foreground ? match : -1});
  };
  for (size_t i = 0; i + 5 <= rois.size(); i += 5) {
    if (rois[i] == static_cast<double>(picture)) add({rois[i + 1], rois[i + 2], rois[i + 3], rois[i + 4]});
  }
  for (const PictureTruth& object : truth) add(object.box);
  return candidates;
}

// Returns the candidates that are taken, foreground first.
std::vector<RegionCandidate> SampleOfPicture(const Attributes& attributes,
                                             const std::vector<RegionCandidate>& candidates, uint64_t key,
                                             uint64_t stream) {
  std::vector<int64_t> foreground;
  std::vector<int64_t> background;
  for (size_t i = 0; i < candidates.size(); ++i) {
    (candidates[i].match >= 0 ? foreground : background).push_back(static_cast<int64_t>(i));
  }
  const int64_t rows = attributes.Int("rows");
  const auto most = static_cast<int64_t>(static_cast<double>(rows) * attributes.Float("foreground_fraction"));
  foreground = Sampled(foreground, most, key, stream * 2);
  background = Sampled(background, rows - std::ssize(foreground), key, stream * 2 + 1);
  std::vector<RegionCandidate> taken;
  for (const std::vector<int64_t>& part : {foreground, background}) {
    for (const int64_t i : part) taken.push_back(candidates[static_cast<size_t>(i)]);
  }
  return taken;
}

// Writes the rows of one image.
void WritePictureRegions(const Attributes& attributes, int64_t picture, const std::vector<RegionCandidate>& taken,
                         const std::vector<PictureTruth>& truth, double weight, std::span<RefTensor> out) {
  const int64_t rows = attributes.Int("rows");
  const int64_t mask_rows = attributes.Int("mask_rows");
  const int64_t classes = attributes.Int("classes");
  int64_t masks = 0;
  for (size_t r = 0; r < taken.size(); ++r) {
    const RegionCandidate& region = taken[r];
    const int64_t at = picture * rows + static_cast<int64_t>(r);
    const auto write_roi = [&](RefTensor& to, int64_t row) {
      to.values[static_cast<size_t>(row * 5)] = static_cast<double>(picture);
      std::ranges::copy(region.box, to.values.begin() + row * 5 + 1);
    };
    write_roi(out[0], at);
    out[1].values[static_cast<size_t>(at)] = 0;
    if (region.match < 0) continue;
    const PictureTruth& object = truth[static_cast<size_t>(region.match)];
    const int64_t label = object.label;
    if (label < 1 || label >= classes) continue;  // the kernel tells of it
    out[1].values[static_cast<size_t>(at)] = static_cast<double>(label);
    const std::array<double, 4> code = CodeOfBox(region.box, object.box, attributes.Get<Doubles>("stds"));
    for (size_t k = 0; k < 4; ++k) {
      const size_t to = static_cast<size_t>(at * classes + label) * 4 + k;
      out[2].values[to] = code[k];
      out[3].values[to] = 1;
      out[4].values[to] = weight;
    }
    if (masks == mask_rows) continue;
    const int64_t mask = picture * mask_rows + masks++;
    write_roi(out[5], mask);
    out[6].values[static_cast<size_t>(mask)] = static_cast<double>(label);
    out[7].values[static_cast<size_t>(mask)] = static_cast<double>(object.row);
  }
}

void PictureRegionsReference(const Attributes& attributes, std::span<const RefTensor> in, std::span<RefTensor> out) {
  const PictureExtent size = PictureExtent::Of(kPictureRegionsOp, attributes);
  const int64_t pictures = attributes.Int("pictures");
  std::vector<std::vector<PictureTruth>> truths;
  std::vector<std::vector<RegionCandidate>> samples;
  int64_t sampled = 0;
  for (int64_t n = 0; n < pictures; ++n) {
    truths.push_back(TruthOfPicture(in[1].values, n, size));
    const std::vector<RegionCandidate> candidates =
        CandidatesOfPicture(in[0].values, n, truths.back(), attributes.Float("foreground_overlap"));
    samples.push_back(SampleOfPicture(attributes, candidates, KeyOf(in[2]), StreamOfPicture(attributes, n)));
    sampled += std::ssize(samples.back());
  }
  for (RefTensor& y : out) std::ranges::fill(y.values, 0.0);
  for (const size_t k : {1, 6, 7}) std::ranges::fill(out[k].values, -1.0);
  for (const size_t k : {0, 5}) {
    for (size_t i = 0; i < out[k].values.size(); i += 5) out[k].values[i] = kNoPicture;
  }
  // So that the sum over weighted errors, divided by the rows, is the mean over those that are there.
  const double weight = static_cast<double>(out[0].type.shape[0]) / static_cast<double>(std::max<int64_t>(sampled, 1));
  for (int64_t n = 0; n < pictures; ++n) {
    WritePictureRegions(attributes, n, samples[static_cast<size_t>(n)], truths[static_cast<size_t>(n)], weight, out);
  }
}

std::vector<OpCase> PictureRegionsCases() {
  const Attributes attributes{{"height", int64_t{16}}, {"width", int64_t{20}},     {"pictures", int64_t{2}},
                              {"rows", int64_t{8}},    {"mask_rows", int64_t{3}},  {"classes", int64_t{4}},
                              {"stream", int64_t{1}},  {"foreground_overlap", 0.2}};
  const auto one = [&](const char* name, int64_t rois, const Attributes& more) {
    return OpCase{.name = name,
                  .inputs = {Float32({rois, 5}), Float32({1, 1, 30, 8}), {DType::kInt64, Shape{}, {}}},
                  .attributes = With(attributes, more),
                  .low = 0,
                  .high = 2,
                  .ranges = {{0, -1, 14}, {1, 1, 2}, {2, 5, 5}}};
  };
  return {one("sampled", 60, {}), one("padded", 4, {{"rows", int64_t{40}}, {"mask_rows", int64_t{20}}})};
}

}  // namespace

OpDef PictureRegionsOp() {
  std::vector<AttributeSpec> specs = PictureAttributes();
  const std::vector<AttributeSpec> own = {
      {"pictures", {}, "of the batch"},
      {"rows", int64_t{512}, "regions of a picture"},
      {"mask_rows", int64_t{128}, "foreground regions of a picture that come once more"},
      {"classes", {}, "classes with the background"},
      {"foreground_fraction", 0.25, "the largest part of the rows that is foreground"},
      {"foreground_overlap", 0.5, "overlap of a foreground region"},
      {"stds", Doubles{0.1, 0.1, 0.2, 0.2}, "the targets are divided by them"},
      {"stream", {}, "number of the random stream"}};
  specs.insert(specs.end(), own.begin(), own.end());
  return {.name = std::string(kPictureRegionsOp),
          .doc =
              "(rois [R,5], boxes [1,1,G,8], key) -> rois [N*rows,5], labels [N*rows] (-1: no region), targets, inside "
              "and outside weights [N*rows,4*classes]; mask rois [N*mask_rows,5], their classes and their objects' "
              "rows [N*mask_rows].",
          .attributes = specs,
          .infer = InferPictureRegions,
          .reference = PictureRegionsReference,
          .precision = Precision::kKeep32,
          .on_host = on_host::kMatches,
          .cases = PictureRegionsCases};
}

}  // namespace moka
