// Shapes of tops, one formula an output, and which VideoData is caffe_action's.
#include "proto/nets/data_fields.h"

namespace moka {

bool IsOfSource(TextPairDataParameter::Output output) {
  return output == TextPairDataParameter::SOURCE || output == TextPairDataParameter::SOURCE_CONT ||
         output == TextPairDataParameter::SOURCE_MASK || output == TextPairDataParameter::SOURCE_LENGTH;
}

bool IsLength(TextPairDataParameter::Output output) {
  return output == TextPairDataParameter::SOURCE_LENGTH || output == TextPairDataParameter::TARGET_LENGTH;
}

int64_t TextPairSteps(const TextPairDataParameter& fields, TextPairDataParameter::Output output) {
  if (IsLength(output)) return 1;
  return IsOfSource(output) ? fields.source_length() : fields.target_length();
}

Shape TextPairShape(const TextPairDataParameter& fields, TextPairDataParameter::Output output, int64_t batch_size) {
  if (IsLength(output)) return {batch_size};
  return {TextPairSteps(fields, output), batch_size};
}

Shape StoryShape(StoryDataParameter::Output output, int64_t batch_size, int64_t sentences, int64_t words) {
  switch (output) {
    case StoryDataParameter::STORY: return {batch_size, sentences, words};
    case StoryDataParameter::QUESTION: return {batch_size, words};
    case StoryDataParameter::TIME:
    case StoryDataParameter::SUPPORT: return {batch_size, sentences};
    case StoryDataParameter::ANSWER:
    case StoryDataParameter::SENTENCES: break;
  }
  return {batch_size};
}

std::vector<Shape> StoryShapes(const StoryDataParameter& fields, int64_t batch_size, int64_t words) {
  std::vector<Shape> shapes;
  shapes.reserve(static_cast<size_t>(fields.output_size()));
  for (int i = 0; i < fields.output_size(); ++i)
    shapes.push_back(StoryShape(fields.output(i), batch_size, fields.sentences(), words));
  return shapes;
}

Shape SkipGramShape(const SkipGramDataParameter& fields, SkipGramDataParameter::Output output, int64_t batch_size) {
  if (output == SkipGramDataParameter::CENTER) return {batch_size};
  return {batch_size, 1 + int64_t{fields.negatives()}};
}

bool IsActionVideo(const LayerParameter& layer) {
  const VideoDataParameter& param = layer.video_data_param();
  return param.has_rep_label() || param.has_num_views() || param.has_stride_tmp() || param.has_suffix() ||
         layer.transform_param().has_num_segments();
}

}  // namespace moka
