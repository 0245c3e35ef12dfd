// Texts that the build puts into the program: tools/serve/openapi.json and page.html.
#pragma once

#include <string_view>

namespace moka {

std::string_view OpenApiDocument();
std::string_view ServicePage();

}  // namespace moka
