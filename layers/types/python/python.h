// Python layers that are built in: a row for each (module, class) that known nets name, in place of the interpreter. A
// file lists its rows in a function of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "layers/net/layer.h"
#include "layers/types/python/python_fields.h"

namespace moka {

struct PythonLayerDef {
  std::string module;
  std::string layer;
  std::string doc;  // one sentence, part of the doc of layer type Python
  int min_bottoms = 0;
  int max_bottoms = 0;
  int min_tops = 1;
  int max_tops = 1;
  bool reads_list = false;  // param_str has no keys: build reads it itself and gets no fields
  void (*build)(LayerBuilder&, const PythonFields&) = nullptr;
};

// Every list of this build, which the build finds.
std::vector<PythonLayerDef> PythonLayerRows();
// All of them, sorted by module and class.
const std::vector<PythonLayerDef>& AllPythonLayers();

// Null if the module and class are not built in.
const PythonLayerDef* FindPythonLayer(std::string_view module, std::string_view layer);

// The random stream of a layer: its name's hash, an integer that doubles hold.
int64_t StreamOf(const LayerBuilder& l);

}  // namespace moka
