// The boxes of a set as recipes of detectors count them: classes, boxes of a part, places that a picture needs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/new/new_data.h"
#include "tools/new/recipe.h"

namespace moka {

// Classes by number from 0, which stands for no object. Errors: kBadData where parts number them differently.
std::vector<std::string> BoxClasses(const NewData& data);

// How many boxes each class has in a part.
std::map<int64_t, int64_t> BoxesByClass(const NewPart& part);

// Errors: kBadData for classes with too few boxes in the training, and for too few pictures. Boxes of the training
// count alone: what the other parts have, nothing learns from.
void RefuseFewBoxes(const NewData& data, const std::vector<std::string>& classes);

// The most boxes of a picture of any part, in eights.
int64_t MostBoxes(const NewData& data);

// "class_rows", "classes", "all_classes" (with that of no object), "things" and "max_boxes".
void AddBoxClasses(const NewData& data, const std::vector<std::string>& classes, Values& values);
// "2 classes, boxes: cup 12, plate 20".
std::string BoxesText(const NewData& data, const std::vector<std::string>& classes);

}  // namespace moka
