// Where layers, nets, solvers and their fields stood in the text they were read from.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "proto/moka.pb.h"

namespace moka {

// The place of a field of the message ("convolution_param.num_output", "bottom[1]"), of the nearest enclosing message
// of it that is known, or of the message itself when the path is empty. Line 0 when nothing is known.
SourcePlace PlaceOf(const LayerParameter& layer, std::string_view field_path = {});
SourcePlace PlaceOf(const NetParameter& net, std::string_view field_path = {});
SourcePlace PlaceOf(const SolverParameter& solver, std::string_view field_path = {});
SourcePlace PlaceOf(const BlockParameter& block, std::string_view field_path = {});
SourcePlace PlaceOf(const Origin& origin, std::string_view field_path);

// The place of the first of the layer's fields that a sentence names by its path ("transform_param.crop_size is ...")
// and that was written, or of the message that it would stand in; nothing where it names none.
std::optional<SourcePlace> PlaceNamedIn(const LayerParameter& layer, std::string_view sentence);

// 'layer "conv1" at net.prototxt:12:3', without the place where it is not known.
std::string Located(const LayerParameter& layer);

// Whether the field's value was given on the command line (an override), not in a file.
bool IsOverridden(const SourcePlace& place);

// An error at a layer's field, with the notes of the blocks it came from.
Error ErrorAt(const LayerParameter& layer, std::string_view field_path, std::string text, std::string hint = {});

// Errors for the fields that the schema does not have: of the message itself, not of layers in it.
std::vector<Error> UnknownFieldsOf(const Origin& origin);

}  // namespace moka
