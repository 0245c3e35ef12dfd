// The texts of new models: prototxt files in sections (recipe.h), embedded by the build.
#pragma once

#include <string_view>

namespace moka {

std::string_view AnswerTemplate();
std::string_view ClassifyTemplate();
std::string_view DetectTemplate();
std::string_view GenerateTemplate();
std::string_view InstancesTemplate();
std::string_view RegressTemplate();
std::string_view SegmentTemplate();
std::string_view TranslateTemplate();

}  // namespace moka
