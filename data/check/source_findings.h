// The parts of a check: each adds to `findings` what it knows of one source, or of all.
#pragma once

#include <memory>
#include <vector>

#include "data/check/findings.h"
#include "data/check/source_look.h"

namespace moka {

using SourceLooks = std::vector<std::unique_ptr<SourceLook>>;

// Bad files and annotations, boxes beyond the picture, files without a partner, and pictures unlike the others.
// `of_bad`: how grave a file is that an import refuses.
void FindInPictures(const SourceLooks& looks, size_t source, Severity of_bad, std::vector<Finding>& findings);
// Classes without pictures, few among many, and numbered otherwise in another source than in the first. Where
// `are_given`, one list numbers the classes of all.
void FindInClasses(const SourceLooks& looks, bool are_given, std::vector<Finding>& findings);
// Pictures that are there twice: in one source, in several, and under several classes.
void FindDuplicates(const SourceLooks& looks, std::vector<Finding>& findings);

}  // namespace moka
