#include "tools/infer/picture_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "core/log.h"
#include "core/trace.h"
#include "tools/infer/source.h"
#include "tools/program_options.h"

namespace moka {

std::vector<std::filesystem::path> PicturesToInfer(const std::vector<std::string>& inputs, const Arguments& arguments) {
  if (inputs.empty() && !LooksInside(arguments))
    throw Error(ErrorKind::kUsage, "missing argument: at least one picture or folder of pictures");
  return PicturesOf(inputs);
}

int64_t PicturesARun(const std::vector<std::filesystem::path>& files, const Arguments& arguments) {
  return arguments.Int("batch", std::clamp<int64_t>(static_cast<int64_t>(files.size()), 1, 16), 1, 65536);
}

void ForEachPicture(PictureNet& net, const std::vector<std::filesystem::path>& files, const SeenPicture& seen) {
  const auto batch = static_cast<size_t>(net.batch());
  for (size_t first = 0; first < files.size(); first += batch) {
    const size_t count = std::min(files.size() - first, batch);
    std::vector<Image> pictures;
    for (size_t i = 0; i < count; ++i) pictures.push_back(net.Load(files[first + i], static_cast<int64_t>(i)));
    net.Run();
    for (size_t i = 0; i < count; ++i) seen(files[first + i], pictures[i], static_cast<int64_t>(i));
  }
}

PictureReport::PictureReport(const Arguments& arguments) : arguments_(arguments), as_json_(arguments.Has("json")) {
  BeginTrace(arguments);
  begin_us_ = NowMicros();
}

void PictureReport::Finish(size_t pictures, int indent) const {
  const double ms = static_cast<double>(NowMicros() - begin_us_) * 1e-3;
  EndTrace(arguments_);
  if (as_json_) fmt::print("{}\n", pictures_.dump(indent, ' ', false, PictureJson::error_handler_t::replace));
  LogInfo(fmt::format("{} image{}, {:.1f} ms", pictures, pictures == 1 ? "" : "s", ms));
}

}  // namespace moka
