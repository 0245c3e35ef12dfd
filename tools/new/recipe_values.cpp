// The words and numbers that the texts of several tasks share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/size.h"
#include "core/text.h"
#include "tools/new/recipe.h"

namespace moka {
namespace {

// Whether train and val were made of a part, and the test was one.
bool HasOwnTest(const NewData& data) { return !data.train().chosen.empty() && data.parts.back().chosen.empty(); }

std::string SplitWords(const NewData& data) {
  if (data.train().chosen.empty()) return "They are the source's own.";
  return StrCat("The part of each of the ", data.items, " follows from a hash of ", data.hashed,
                ": copies are in one part, and ", data.items, " that are added later move no others.",
                HasOwnTest(data) ? " The test is the source's own." : "");
}

}  // namespace

Values CommonValues(const NewData& data, const NewOptions& options) {
  Values values;
  values["title"] = options.name;
  values["name"] = Quoted(options.name);
  values["net_name"] = Quoted(options.name);
  values["quoted_title"] = Quoted(options.name);
  values["folder"] = Printable(options.folder);
  values["source"] = Printable(data.source);
  values["split_words"] = SplitWords(data);
  values["remark"] = PartsText(data) + ".";
  std::string names;
  std::string rules;
  for (const NewPart& part : data.parts) {
    values[part.name] = StrCat(part.size());
    values[part.name + "_db"] = Quoted((options.databases / part.name).string());
    names += (names.empty() ? "" : " | ") + part.name;
    rules += "---|";
  }
  values["part_names"] = names;
  values["part_rules"] = rules;
  values["val_stage"] = data.parts.size() > 2 ? " not_stage: \"test\"" : "";
  values["test_words"] =
      data.parts.size() > 2
          ? "`moka test runs/latest --stage test` takes the part \"test\", which no training looks at.\n\n"
          : "";
  return values;
}

void AddColors(const ColorFacts& colors, Values& values) {
  const bool is_gray = colors.mean.size() == 1;
  values["channels"] = is_gray ? "grey" : "B, G, R";
  values["depth"] = StrCat(colors.mean.size());
  values["mean"] = Repeated("mean_value", colors.mean);
  values["std"] = Repeated("std_value", colors.deviation);
  std::vector<std::string> means;
  std::vector<std::string> deviations;
  for (const double mean : colors.mean) means.push_back(Rounded(mean, 1));
  for (const double deviation : colors.deviation) deviations.push_back(Rounded(deviation, 1));
  values["mean_words"] = StrCat(Join(means, ", "), " and ", Join(deviations, ", "));
}

void AddTestBatches(const NewData& data, int64_t most, Values& values) {
  const int64_t batch = TestBatch(data.val().size(), most);
  values["test_batch"] = StrCat(batch);
  values["test_iter"] = StrCat(CeilDiv(data.val().size(), batch).value());
  if (data.parts.size() > 2) values["held_out_batch"] = StrCat(TestBatch(data.parts[2].size(), most));
}

void AddLength(const NetChoice& choice, const Search& search, Values& values) {
  const int64_t iterations = choice.length.iterations;
  const int64_t an_epoch = std::max<int64_t>(1, search.pictures / search.batch);
  constexpr int64_t kTests = 20;
  constexpr int64_t kMostDisplay = 100;
  const int64_t test_interval = std::max<int64_t>(1, iterations / kTests);
  // The mean of the weights goes over a sixteenth of the training.
  const double window = std::max(2.0, static_cast<double>(iterations) / 16);
  values["max_iter"] = StrCat(iterations);
  values["epochs"] = StrCat(choice.length.epochs);
  values["batch"] = StrCat(search.batch);
  values["warmup"] = StrCat(std::max<int64_t>(1, iterations / 12));
  values["test_interval"] = StrCat(test_interval);
  values["test_epochs"] = fmt::format("{} tests in all", CeilDiv(iterations, test_interval).value());
  values["display"] = StrCat(std::clamp<int64_t>(an_epoch, 1, kMostDisplay));
  values["snapshot"] = StrCat(std::max<int64_t>(1, iterations / 4));
  values["ema"] = Rounded(1 - 1 / window, 4);
  values["ema_epochs"] = fmt::format("{:.0f} steps, a sixteenth of the training", window);
  values["step_words"] =
      fmt::format("{} ms{} (the fastest of {} in {} short trials)", MsText(choice.step.ms),
                  choice.step.is_of_cpus ? " of its own processor time" : "", choice.step.steps, choice.step.trials);
  values["minutes"] = MinutesText(choice.minutes);
  values["choice"] = choice.remark;
  values["length_why"] = fmt::format("about {} {} are shown, {} to {} epochs", search.samples, search.items,
                                     search.least_epochs, search.most_epochs);
}

void AddWidths(int64_t width, int stages, Values& values) {
  for (int stage = 0; stage < stages; ++stage) values[StrCat("w", stage + 1)] = StrCat(width << stage);
}

InputSize InputSizeOf(const NewPart& train, int64_t most, int64_t step) {
  std::vector<double> longer;
  std::vector<double> shapes;
  for (const int64_t i : train.pictures) {
    const PictureRow& row = train.row(i);
    longer.push_back(static_cast<double>(std::max(row.width, row.height)));
    shapes.push_back(static_cast<double>(row.width) / static_cast<double>(row.height));
  }
  InputSize size;
  size.shape = std::clamp(Quantile(shapes, 0.5), 0.25, 4.0);
  const double side = std::min(static_cast<double>(most), Quantile(longer, 0.5));
  const auto whole = [&](double pixels) {
    return std::max(step, static_cast<int64_t>(std::lround(pixels / static_cast<double>(step))) * step);
  };
  size.width = whole(size.shape >= 1 ? side : side * size.shape);
  size.height = whole(size.shape >= 1 ? side / size.shape : side);
  return size;
}

void AddInputSize(const InputSize& size, const NewPart& train, Values& values) {
  const auto has_channels = [&](uint8_t channels) {
    return std::ranges::any_of(train.pictures, [&](int64_t i) { return train.row(i).channels == channels; });
  };
  values["width"] = StrCat(size.width);
  values["height"] = StrCat(size.height);
  values["max_side"] = StrCat(std::max(size.width, size.height));
  values["ratio_min"] = Rounded(size.shape * 0.82, 2);
  values["ratio_max"] = Rounded(size.shape * 1.2, 2);
  values["force"] = has_channels(3) && has_channels(1) ? "force_color: true " : "";
  values["colors"] = has_channels(3) ? "saturation: 0.2 hue: 0.02 " : "";
  values["size_words"] = StrCat(size.width, "x", size.height, " pixels, the shape of the median picture (",
                                Rounded(size.shape, 2), " times as wide as high); whole pictures are resized to it.");
}

ImportOptions PixelStorage(const NewData& data, int64_t max_side) {
  constexpr int64_t kMostBytes = int64_t{4} << 30U;
  int64_t bytes = 0;
  for (const NewPart& part : data.parts) {
    for (const int64_t i : part.pictures) {
      const PictureRow& row = part.row(i);
      const double longest = std::max(row.width, row.height);
      const double scale = std::min(1.0, static_cast<double>(max_side) / longest);
      bytes += static_cast<int64_t>(scale * scale * row.width * row.height * row.channels);
    }
  }
  ImportOptions options;
  options.max_dim = max_side;
  options.storage = bytes <= kMostBytes ? ImportOptions::Storage::kRaw : ImportOptions::Storage::kJpeg;
  return options;
}

std::string CountsText(const std::vector<std::string>& names, const std::map<int64_t, int64_t>& counts) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = counts.find(static_cast<int64_t>(i));
    texts.push_back(StrCat(Printable(names[i]), " ", found == counts.end() ? 0 : found->second));
  }
  return Join(texts, ", ");
}

std::map<int64_t, int64_t> Shifted(const std::map<int64_t, int64_t>& counts) {
  std::map<int64_t, int64_t> shifted;
  for (const auto& [label, count] : counts) shifted[label - 1] = count;
  return shifted;
}

std::string PartsText(const NewData& data) {
  std::vector<std::string> texts;
  for (const NewPart& part : data.parts) texts.push_back(StrCat(part.name, " ", part.size(), " ", data.items));
  const char* how = data.train().chosen.empty() ? " (as the source has them)"
                    : HasOwnTest(data) ? " (train and val by a hash of their bytes, the test as the source has it)"
                                       : " (by a hash of their bytes)";
  return StrCat("parts: ", Join(texts, ", "), how);
}

std::string MsText(double ms) { return Rounded(ms, ms < 1 ? 2 : ms < 10 ? 1 : 0); }

std::string MinutesText(double minutes) {
  if (minutes < 1.5) return "a minute";
  if (minutes < 100) return fmt::format("{:.0f} minutes", minutes);
  return fmt::format("{:.1f} hours", minutes / 60);
}

}  // namespace moka
