// Pictures are tried one by one: a bad file is told, counted and left out, and the exit code says so at the end.
#include "tools/infer/picture_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/error.h"
#include "core/log.h"
#include "core/text.h"
#include "core/threads/slow_phase.h"
#include "core/trace.h"
#include "layers/net/layer.h"
#include "proto/text/places.h"
#include "tools/cli/print.h"
#include "tools/infer/source.h"
#include "tools/train/program_options.h"

namespace moka {
namespace {

// Work on one of `count` files.
void Try(const std::filesystem::path& file, size_t count,
         const std::function<void(const std::filesystem::path& file)>& work, FilesSeen& done) {
  try {
    work(file);
    done.files.push_back(file);
  } catch (const Error& error) {
    const bool is_files = error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kNoInput;
    if (count == 1 || !is_files) throw;
    LogWarning(error.what());
    if (done.code == 0) done.code = static_cast<int>(error.kind());
  }
}

std::string PhaseOfPictures(size_t count) {
  return StrCat("the net looks at ", count, count == 1 ? " picture" : " pictures");
}

// "what loss "loss2" makes of "main"".
std::string OriginOf(const DeployedScores& scores) {
  const bool is_raw = scores.top == scores.bottom;
  return StrCat("what loss \"", scores.loss, is_raw ? "\" trains" : StrCat("\" makes of \"", scores.bottom, "\""));
}

void TellLeftOut(size_t count, const FilesSeen& done) {
  if (done.files.size() < count) LogWarning(StrCat(count - done.files.size(), " of ", count, " left out"));
}

}  // namespace

std::vector<std::filesystem::path> PicturesToInfer(const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (inputs.empty() && !LooksInside(arguments))
    throw Error(ErrorKind::kUsage, "missing argument: at least one picture or folder of pictures");
  return PicturesOf(inputs);
}

int64_t PicturesARun(const std::vector<std::filesystem::path>& files, const Arguments& arguments) {
  return arguments.Int("batch", std::clamp<int64_t>(static_cast<int64_t>(files.size()), 1, 16), 1, 65536);
}

FilesSeen ForEachFile(const std::vector<std::filesystem::path>& files,
                      const std::function<void(const std::filesystem::path& file)>& work) {
  const SlowPhase said(PhaseOfPictures(files.size()));
  FilesSeen done;
  for (const std::filesystem::path& file : files) Try(file, files.size(), work, done);
  TellLeftOut(files.size(), done);
  return done;
}

FilesSeen ForEachPicture(PictureNet& net, const std::vector<std::filesystem::path>& files, const SeenPicture& seen) {
  const SlowPhase said(PhaseOfPictures(files.size()));
  FilesSeen done;
  std::vector<Image> pictures;  // of the last files read
  const auto load = [&](const std::filesystem::path& file) {
    pictures.push_back(net.Load(file, static_cast<int64_t>(pictures.size())));
  };
  for (size_t i = 0; i < files.size(); ++i) {
    Try(files[i], files.size(), load, done);
    const bool is_full = static_cast<int64_t>(pictures.size()) == net.batch();
    if (pictures.empty() || (!is_full && i + 1 < files.size())) continue;
    net.Run(std::ssize(pictures));
    const size_t first = done.files.size() - pictures.size();
    for (size_t slot = 0; slot < pictures.size(); ++slot)
      seen(done.files[first + slot], pictures[slot], static_cast<int64_t>(slot));
    pictures.clear();
  }
  TellLeftOut(files.size(), done);
  return done;
}

void TellOutput(const PictureNet& net, const std::string& used) {
  const bool is_of_loss = net.scores() && net.scores()->top == used;
  const bool is_alone = net.outputs().size() == 1 && net.outputs().front() == used;
  if (is_of_loss && !net.scores()->other_losses.empty()) {
    const DeployedScores& scores = *net.scores();
    const bool has_one = scores.other_losses.size() == 1;
    LogWarning(StrCat("the net learns by several losses: \"", used, "\", ", OriginOf(scores), ", is used; '~layer[",
                      scores.loss, "]' leaves it out, for ", has_one ? "\"" : "one of \"",
                      Join(scores.other_losses, "\", \""), "\""));
  } else if (!is_alone) {
    const std::string why =
        is_of_loss ? StrCat(OriginOf(*net.scores()), ", is used")
                   : StrCat("the last in the net, is used; '~layer[", net.WriterOf(used).name(), "]' leaves it out");
    LogWarning(StrCat("the net has ", net.outputs().size(), net.outputs().size() == 1 ? " output (" : " outputs (",
                      Join(net.outputs(), ", "), "): \"", used, "\", ", why));
  }
}

void RefuseIndices(const PictureNet& net, const std::string& used) {
  const LayerParameter& writer = net.WriterOf(used);
  if (!TraitsOf(writer).gives_indices) return;
  const ArgMaxParameter& best = writer.argmax_param();
  std::string_view held = "the numbers of the best classes, not their scores";
  if (best.out_max_val()) {
    held = best.has_axis() ? "the scores of the best classes alone, and not of which they are"
                           : "the numbers of the best classes and behind them their scores, not a score of each class";
  }
  throw ErrorAt(writer, {}, StrCat("output \"", used, "\" holds ", held),
                StrCat("leave the layer out, moka infer ranks the scores itself: ~layer[", writer.name(), "]"));
}

void CheckNames(const InferSource& source, const std::string& output, int64_t classes) {
  const auto names = static_cast<int64_t>(source.names.size());
  if (names == 0 || names == classes || classes == 1) return;
  LogWarning(StrCat("there are ", names, " class names, and output \"", output, "\" has ", classes, " classes"));
}

PictureReport::PictureReport(const Arguments& arguments) : arguments_(arguments), as_json_(arguments.Has("json")) {
  BeginTrace(arguments);
  begin_us_ = NowMicros();
}

void PictureReport::Finish(size_t pictures, int indent) const {
  const double ms = static_cast<double>(NowMicros() - begin_us_) * 1e-3;
  EndTrace(arguments_);
  if (as_json_) PrintJson(pictures_, indent);
  LogInfo(fmt::format("{} image{}, {:.1f} ms", pictures, pictures == 1 ? "" : "s", ms));
}

}  // namespace moka
