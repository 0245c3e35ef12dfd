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

int ForEachFile(const std::vector<std::filesystem::path>& files,
                const std::function<void(const std::filesystem::path& file)>& work,
                std::vector<std::filesystem::path>& read) {
  int code = 0;
  for (const std::filesystem::path& file : files) {
    try {
      work(file);
      read.push_back(file);
    } catch (const Error& error) {
      const bool is_files = error.kind() == ErrorKind::kBadData || error.kind() == ErrorKind::kNoInput;
      if (files.size() == 1 || !is_files) throw;
      LogWarning(error.what());
      if (code == 0) code = static_cast<int>(error.kind());
    }
  }
  if (read.size() < files.size()) LogWarning(StrCat(files.size() - read.size(), " of ", files.size(), " left out"));
  return code;
}

PicturesSeen ForEachPicture(PictureNet& net, const std::vector<std::filesystem::path>& files, const SeenPicture& seen) {
  std::vector<std::filesystem::path> read;
  std::vector<std::filesystem::path> names;
  std::vector<Image> pictures;
  const auto run = [&] {
    if (pictures.empty()) return;
    net.Run();
    for (size_t i = 0; i < pictures.size(); ++i) seen(names[i], pictures[i], static_cast<int64_t>(i));
    names.clear();
    pictures.clear();
  };
  const auto load = [&](const std::filesystem::path& file) {
    pictures.push_back(net.Load(file, static_cast<int64_t>(pictures.size())));
    names.push_back(file);
    if (static_cast<int64_t>(pictures.size()) == net.batch()) run();
  };
  const int code = ForEachFile(files, load, read);
  run();
  return {code, read.size()};
}

void TellOutput(const PictureNet& net, const std::string& used) {
  if (net.outputs().size() < 2) return;
  LogWarning(StrCat("the net has ", net.outputs().size(), " outputs (", Join(net.outputs(), ", "), "): \"", used,
                    "\" is used"));
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
  if (as_json_) fmt::print("{}\n", pictures_.dump(indent, ' ', false, PictureJson::error_handler_t::replace));
  LogInfo(fmt::format("{} image{}, {:.1f} ms", pictures, pictures == 1 ? "" : "s", ms));
}

}  // namespace moka
