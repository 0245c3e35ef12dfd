// The classes of ILSVRC-2012 and those of its validation pictures, as the challenge and others publish them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace moka {

// Synsets of WordNet ("n01440764") in alphabetical order are the classes, as Caffe and torchvision number them.
struct ImagenetClasses {
  std::vector<std::string> synsets = {};
  std::vector<std::string> words = {};   // "tench, Tinca tinca", by class; empty where only synsets are known
  std::vector<int32_t> validation = {};  // classes of pictures 1, 2, ...; empty where they are not known
  std::string from = {};                 // the file that says so; empty: there is none
  // "n01440764 tench, Tinca tinca".
  std::vector<std::string> Names() const;
};

// From what lies in a folder, the first of:
//   ILSVRC2012_devkit_t12.tar.gz, or the folder ILSVRC2012_devkit_t12: data/meta.mat and the ground truth, whose
//   numbers
//     are the challenge's own (ILSVRC2012_ID, not alphabetical);
//   synset_words.txt or synsets.txt of Caffe, with val.txt, lines "ILSVRC2012_val_00000001.JPEG 65";
//   the same with imagenet_2012_validation_synset_labels.txt, a synset a line.
// Without any of them it is empty. `step` is called now and then, and may throw. Errors: kBadData naming the file and
// the line for what is not as it should be.
ImagenetClasses ReadImagenetClasses(const std::filesystem::path& folder, const std::function<void()>& step);

// The number of a picture "ILSVRC2012_val_00000001.JPEG"; 0 for another name.
int64_t ValidationNumber(std::string_view name);
// Whether a text is a synset's: "n" and eight digits.
bool IsSynset(std::string_view text);

}  // namespace moka
