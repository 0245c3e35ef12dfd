// Tables and lists for people: columns as wide as their widest cell, and the first few of many.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moka {

// A line a row, cells two spaces apart, numbers and their headings to the right. left[i] == 'l' aligns column i to the
// left; columns beyond `left` are right. Rows may be shorter than the first.
std::string TextTable(const std::vector<std::vector<std::string>>& rows, std::string_view left = {});

// "a, b, c and 4 more" of 7 texts of which at most 3 are shown.
std::string SomeOf(std::vector<std::string> texts, size_t most, std::string_view between = ", ");

// "12.345": seconds as milliseconds with `digits` behind the point.
std::string MillisecondsText(double seconds, int digits = 3);

}  // namespace moka
