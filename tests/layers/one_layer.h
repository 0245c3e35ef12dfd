// Nets of Input layers and one layer "l", for tests of a layer's shapes and errors.
#pragma once

#include <string>
#include <vector>

#include "net_run.h"

namespace moka {

using DimLists = std::vector<std::vector<int64_t>>;

struct NamedInput {
  std::string name;
  std::vector<int64_t> shape;
};

// The layer's `fields` hold its type; it reads the inputs and writes `tops`.
inline std::string OneLayer(const std::vector<NamedInput>& inputs, const std::vector<std::string>& tops,
                            const std::string& fields) {
  std::string text;
  for (const NamedInput& input : inputs) text += InputText(input.name, input.shape);
  text += "layer { name: \"l\" ";
  for (const NamedInput& input : inputs) text += "bottom: \"" + input.name + "\" ";
  for (const std::string& top : tops) text += "top: \"" + top + "\" ";
  return text + fields + " }\n";
}

inline std::vector<Shape> ShapesOf(const BuiltNet& net, const std::vector<std::string>& tops) {
  std::vector<Shape> shapes;
  shapes.reserve(tops.size());
  for (const std::string& top : tops) shapes.push_back(net.graph.shape(net.tops.at(top)));
  return shapes;
}

// Shapes of the layer's tops.
inline std::vector<Shape> ShapesOf(const std::vector<NamedInput>& inputs, const std::vector<std::string>& tops,
                                   const std::string& fields, Phase phase = TRAIN) {
  return ShapesOf(BuildText(OneLayer(inputs, tops, fields), phase), tops);
}

inline std::string OneLayerErrors(const std::vector<NamedInput>& inputs, const std::vector<std::string>& tops,
                                  const std::string& fields, Phase phase = TRAIN) {
  return ErrorsOf(OneLayer(inputs, tops, fields), phase);
}

// A layer of a type that reads inputs "a", "b", .. of these shapes and writes `tops`.
inline std::string Layer(const DimLists& shapes, const std::string& type, const std::string& fields = "",
                         const std::vector<std::string>& tops = {"y"}) {
  std::vector<NamedInput> inputs;
  for (const std::vector<int64_t>& shape : shapes) {
    inputs.push_back({std::string(1, static_cast<char>('a' + static_cast<int>(inputs.size()))), shape});
  }
  return OneLayer(inputs, tops, "type: \"" + type + "\" " + fields);
}

// The shape of top "y".
inline Shape ShapeOf(const DimLists& shapes, const std::string& type, const std::string& fields = "") {
  return ShapesOf(BuildText(Layer(shapes, type, fields)), {"y"})[0];
}

inline std::string ErrorOf(const DimLists& shapes, const std::string& type, const std::string& fields = "") {
  return ErrorsOf(Layer(shapes, type, fields));
}

}  // namespace moka
