// Scores, marks and labels come to the one form that the ops take; marks and labels have no gradient.
#include "layers/types/recurrent/ctc.h"

#include "core/text.h"
#include "graph/attributes.h"

namespace moka {

ValueId ScoresOf(const LayerBuilder& l, int i) {
  const Shape x = l.shape(i);
  l.Check(x.rank() >= 3 && x.Count(3, x.rank()) == 1 && x.Count() >= 1, StrCat("bottom[", i, "]"),
          StrCat("the scores must be [steps,sequences,classes], found ", x.ToString()));
  return l.b().Reshape(l.bottom(i), {x[0], x[1], x[2]});
}

ValueId LengthsOf(const LayerBuilder& l, int i, const Shape& scores) {
  const Shape marks = l.shape(i);
  l.Check(marks.rank() >= 2 && marks[0] == scores[0] && marks[1] == scores[1] && marks.Count() == marks[0] * marks[1],
          StrCat("bottom[", i, "]"),
          StrCat("the marks must be [", scores[0], ",", scores[1], "], one a step of each sequence of ",
                 scores.ToString(), ", found ", marks.ToString()));
  const ValueId fixed = l.b().Add1("stop_gradient", {l.bottom(i)});
  return l.b().Add1("sequence_length", {l.b().Reshape(fixed, {marks[0], marks[1]})});
}

ValueId AllSteps(const LayerBuilder& l, const Shape& scores) {
  return l.b().Full({scores[1]}, static_cast<double>(scores[0]));
}

int64_t BlankOf(const LayerBuilder& l, const std::string& field, int64_t blank, int64_t classes) {
  l.Check(blank < classes, field, StrCat(field, " must be below the ", classes, " classes, found ", blank));
  return blank < 0 ? classes - 1 : blank;
}

ValueId LabelsOf(const LayerBuilder& l, int i, int64_t streams, bool time_major) {
  const GraphBuilder& b = l.b();
  const Shape x = l.shape(i);
  const std::string place = StrCat("bottom[", i, "]");
  const ValueId fixed = b.Add1("stop_gradient", {l.bottom(i)});
  if (time_major) {
    l.Check(x.rank() >= 2 && x[1] == streams && x.Count() == x[0] * x[1], place,
            StrCat("the labels must be [length,", streams, "], found ", x.ToString()));
    return b.Add1("transpose", {b.Reshape(fixed, {x[0], x[1]})}, {{"perm", Ints{1, 0}}});
  }
  l.Check(x.rank() >= 1 && x[0] == streams && x.Count() >= 1, place,
          StrCat("the labels must be [", streams, ",length], a row a sequence, found ", x.ToString()));
  return b.Reshape(fixed, {streams, x.Count() / streams});
}

}  // namespace moka
