// Nets in a line that are looked at without their data.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "core/text.h"
#include "proto/nets/net_file.h"
#include "tools/check/net_check.h"

namespace moka {

inline constexpr const char* kTwoTops =
    "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: 'x' batch_size: 2 } } ";
inline constexpr const char* kPredictions =
    "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc' inner_product_param { num_output: 10 } } ";

inline StateCheck Check(const std::string& text, const std::map<std::string, Shape>& given = {}) {
  NetState state;
  state.set_phase(TRAIN);
  return CheckNet(NetFromText(text, "net.prototxt"), state, given);
}

inline std::string PythonData(const std::string& tops, const std::string& layer = "Own",
                              const std::string& module = "own") {
  std::string text = "layer { name: 'd' type: 'Python' ";
  for (const std::string_view top : Split(tops, ' ')) text += StrCat("top: '", top, "' ");
  return text + StrCat("python_param { module: '", module, "' layer: '", layer, "' } } ");
}

inline Shape TopOf(const StateCheck& check, const std::string& name) {
  for (const auto& [top, shape] : check.tops) {
    if (top == name) return shape;
  }
  ADD_FAILURE() << "no top " << name << ": " << check.error;
  return {};
}

inline std::string Loss(const std::string& type, const std::string& scores, const std::string& label) {
  return "layer { name: 'loss_" + label + "' type: '" + type + "' bottom: '" + scores + "' bottom: '" + label +
         "' top: 'loss_" + label + "' } ";
}

}  // namespace moka
