// A net as a picture: layers are boxes coloured by kind, blobs the arrows between them. Graphviz's `dot` draws.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

struct DrawingOptions {
  std::string direction = "TB";  // Graphviz's rankdir: TB, BT, LR or RL
  bool show_lr_mult = false;     // multipliers of layers with weights
};

struct DrawnNet {
  NetParameter net;
  std::map<std::string, std::string> shapes{};  // of blobs, written beside their names
};

// The nets as Graphviz's source; several each in a frame under its name and stages. Layers of one name, as in a net of
// which all phases are drawn, stay apart. Requires: one net at least.
std::string NetsToDot(const std::vector<DrawnNet>& nets, const DrawingOptions& options);

// Writes the drawing: the source itself as .dot or .gv, else a picture by `dot`, as .svg, .png or .pdf; the file
// appears whole or not at all.
// Errors: kUsage for another ending; kUnavailable when `dot` is missing or fails.
void WriteDrawing(const std::string& dot, const std::filesystem::path& out);

}  // namespace moka
