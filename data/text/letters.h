// Characters of text: which are blanks, which are marks, and lower case.
//
// Lower case is Unicode 14's simple mapping, one character for one and whatever the neighbours, of the alphabets Latin
// (U+0041-024F, 1E00-1EFF), Greek (without the accents of U+1F00-1FFF), Cyrillic and Armenian; other alphabets with
// two cases stay as they are. Blanks are control characters and those of category Z with U+200B and U+FEFF. Marks are
// the punctuation and symbols that these alphabets are written with (categories P and S without `_`), those of
// U+2010-2BFF and of East Asian text, and pictographs. What is neither is part of a word.
#pragma once

namespace moka {

char32_t LowerCase(char32_t code);
bool IsBlank(char32_t code);
bool IsMark(char32_t code);

}  // namespace moka
