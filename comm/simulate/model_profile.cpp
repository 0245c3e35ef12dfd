// Profiles are text, a layer a line, checked number by number. Where no times were measured a layer gets its share of a
// step by its work, a backward pass counting twice a forward one.
#include "comm/simulate/model_profile.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

template <class T>
bool ReadProfileNumber(std::string_view text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc() && end == text.data() + text.size() && value >= 0 && value <= 1e15;
}

}  // namespace

int64_t ModelProfile::elements() const {
  int64_t sum = 0;
  for (const ProfileLayer& layer : layers) sum += layer.elements;
  return sum;
}

double ModelProfile::forward_s() const {
  double sum = 0;
  for (const ProfileLayer& layer : layers) sum += layer.forward_s;
  return sum;
}

double ModelProfile::backward_s() const {
  double sum = 0;
  for (const ProfileLayer& layer : layers) sum += layer.backward_s;
  return sum;
}

ModelProfile ProfileOfText(std::string_view text, const std::string& file) {
  ModelProfile profile;
  profile.name = file;
  SourcePlace place{file, 0};
  for (const std::string& line : Split(text, '\n')) {
    ++place.line;
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> columns = Split(line, '\t');
    ProfileLayer layer;
    if (columns.size() != 4 || columns[0].empty() || !ReadProfileNumber(columns[1], layer.elements) ||
        !ReadProfileNumber(columns[2], layer.forward_s) || !ReadProfileNumber(columns[3], layer.backward_s)) {
      throw Error(ErrorKind::kBadData, place, StrCat("\"", Printable(line), "\" is no layer of a profile"),
                  "columns are layer, learned values, ms forward, ms backward, with tabs between");
    }
    layer.name = columns[0];
    layer.forward_s *= 1e-3;
    layer.backward_s *= 1e-3;
    profile.layers.push_back(std::move(layer));
  }
  if (profile.elements() == 0) throw Error(ErrorKind::kBadData, place, "the profile has no layer that learns");
  return profile;
}

std::string ToText(const ModelProfile& profile) {
  std::string text = StrCat("# ", Printable(profile.name), ": layer, learned values, ms forward, ms backward\n");
  for (const ProfileLayer& layer : profile.layers) {
    char times[64];
    std::snprintf(times, sizeof times, "%.6g\t%.6g", layer.forward_s * 1e3, layer.backward_s * 1e3);
    text += StrCat(Printable(layer.name), '\t', layer.elements, '\t', times, '\n');
  }
  return text;
}

void SetTimesByWork(ModelProfile& profile, const std::vector<double>& work, double step_s) {
  Require(work.size() == profile.layers.size(), "SetTimesByWork: work of each layer");
  for (size_t i = 0; i < work.size(); ++i) {
    profile.layers[i].forward_s = work[i];
    profile.layers[i].backward_s = 2 * work[i];
  }
  ScaleTo(profile, step_s);
}

void ScaleTo(ModelProfile& profile, double step_s) {
  const double factor = step_s / (profile.forward_s() + profile.backward_s());
  Require(std::isfinite(factor) && factor > 0, "ScaleTo: times above 0");
  for (ProfileLayer& layer : profile.layers) {
    layer.forward_s *= factor;
    layer.backward_s *= factor;
  }
}

FusionInput FusionInputOf(const ModelProfile& profile, int64_t bytes_per_element) {
  FusionInput input;
  for (auto layer = profile.layers.rbegin(); layer != profile.layers.rend(); ++layer) {
    input.backward_s += layer->backward_s;
    if (layer->elements > 0) {
      input.gradients.push_back({layer->name, layer->elements * bytes_per_element, input.backward_s});
    }
  }
  input.other_s = profile.forward_s();
  return input;
}

}  // namespace moka
