// moka frechet: how far two sets of pictures are from each other in the eyes of a net.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "tools/cli/command_line.h"
#include "tools/cli/print.h"
#include "tools/infer/picture_report.h"
#include "tools/measure/frechet.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

// The features of a picture are the values of the blob, one item of the batch each.
PointSums FeaturesOf(PictureNet& net, const std::string& pictures) {
  const std::vector<std::filesystem::path> files = PicturesOf({pictures});
  const Tensor features = net.output(net.outputs().front());
  const int64_t dimensions = features.shape().Count() / net.batch();
  PointSums sums(dimensions);
  const auto count = static_cast<int64_t>(files.size());
  const FilesSeen done = ForEachPicture(net, files, [&](const std::filesystem::path&, const Image&, int64_t slot) {
    sums.Add(
        features.as<const float>().subspan(static_cast<size_t>(slot * dimensions), static_cast<size_t>(dimensions)));
  });
  if (done.code != 0) {
    throw Error(static_cast<ErrorKind>(done.code),
                StrCat(Printable(pictures), ": not all pictures of the set can be read"));
  }
  if (count < 2) {
    throw Error(ErrorKind::kNoInput, {}, StrCat(Printable(pictures), " is ", count, " picture"),
                "a set is a folder of at least two pictures");
  }
  if (count <= dimensions) {
    LogWarning(StrCat(Printable(pictures), ": ", count, " pictures are too few for ", dimensions,
                      " features, whose covariance they cannot fill; the distance says little"));
  }
  return sums;
}

int RunFrechet(const Arguments& arguments) {
  const InferSource source = InferSourceOf(arguments);
  if (source.inputs.size() != 2)
    throw Error(ErrorKind::kUsage, {}, "moka frechet wants a net and two folders of pictures",
                "see moka frechet --help");
  PictureNet net(source, arguments.Int("batch", 100, 1, 65536), arguments.Get("blob"));
  const Shape shape = net.output(net.outputs().front()).shape();
  if (shape.rank() < 1 || shape[0] != net.batch()) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("\"", net.outputs().front(), "\" is ", shape.ToString(), ", not features [N,..]"),
                "name another with --blob");
  }
  constexpr int64_t kMostFeatures = 8192;  // whose covariance has half a gigabyte
  if (const int64_t features = shape.Count() / net.batch(); features > kMostFeatures) {
    throw Error(ErrorKind::kUsage, {},
                StrCat("\"", net.outputs().front(), "\" has ", features, " features, more than ", kMostFeatures),
                "name a smaller blob with --blob, as one that is averaged over the picture");
  }
  const std::string left = source.inputs[0];
  const std::string right = source.inputs[1];
  arguments.RefuseUnread({"json"});
  const PointSums first = FeaturesOf(net, left);
  const PointSums second = FeaturesOf(net, right);
  const double distance = FrechetDistance(first, second);
  if (arguments.Has("json")) {
    const nlohmann::ordered_json json = {{"frechet", distance},
                                         {"blob", net.outputs().front()},
                                         {"features", first.dimensions()},
                                         {"pictures", {first.count(), second.count()}}};
    PrintJson(json);
    return 0;
  }
  Print("frechet {:.4f}  ({} features of \"{}\", {} and {} pictures)\n", distance, first.dimensions(),
        net.outputs().front(), first.count(), second.count());
  return 0;
}

}  // namespace

Verb FrechetVerb() {
  Verb verb;
  verb.name = "frechet";
  verb.summary = "how far two sets of pictures are from each other, by a net's features";
  verb.usage = "RUN|MODEL|DEPLOY.prototxt FOLDER FOLDER [--flags]";
  verb.examples = {"moka frechet models/cifar10_quick --weights quick.safetensors --blob ip1 fakes/ reals/"};
  verb.options = {{"model", "FILE", "deploy or training prototxt (Caffe's spelling)"},
                  {"weights", "FILES", ".safetensors, .caffemodel or .npz (default: a run's best, or the model's own)"},
                  {"runs", "FOLDER", "where runs lie (default runs)"},
                  {"mean", "VALUES", "subtracted from pixels: one value, B,G,R, or a mean image's file"},
                  {"scale", "X", "pixels are multiplied by it after that"},
                  {"resize", "HxW", "pictures are resized to it, then cut to the input"},
                  {"resize-short", "N", "their shorter side is resized to it, then they are cut"},
                  {"blob", "NAME", "whose values are the features (default: the net's first output)"},
                  {"batch", "N", "pictures a pass (default 100)"},
                  {"json", "", "print as JSON"}};
  constexpr std::array<std::string_view, 4> kNotHere = {"dry-run", "explain", "recompute", "trace"};
  for (const OptionSpec& option : ProgramOptionSpecs()) {
    if (std::ranges::find(kNotHere, option.name) == kNotHere.end()) verb.options.push_back(option);
  }
  verb.run = RunFrechet;
  verb.takes_fields = TakenFields::kOfNet;
  return verb;
}

}  // namespace moka
