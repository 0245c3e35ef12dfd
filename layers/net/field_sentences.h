// Sentences about fields that a net gives and that change nothing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/moka.pb.h"

namespace moka {

// Sentences by kind, so that a hundred convolutions with an engine are one.
class Sentences {
 public:
  void Add(const LayerParameter& layer, const std::string& path, const std::string& why);
  void AddOfNet(const NetParameter& net, const std::string& field, const std::string& why);
  std::vector<std::string> Take() const;

 private:
  struct Kind {
    std::string text;
    int count = 0;
  };
  std::map<std::string, Kind> kinds_;
  std::vector<const Kind*> order_;
};

}  // namespace moka
