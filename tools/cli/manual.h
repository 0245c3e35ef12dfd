// The manual page moka(1), made of the verbs' rows as their help is.
#pragma once

#include <string>

namespace moka {

// The page in man(7)'s words: overview, options that every verb has, then each verb and subverb with its forms,
// examples and flags.
std::string ManualText();

}  // namespace moka
