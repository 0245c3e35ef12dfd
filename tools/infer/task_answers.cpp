// The outputs are copied, so that an answer is made while the net looks at the next picture.
#include "tools/infer/task_answers.h"

namespace moka {

TaskAnswer PictureAnswers::Answer(const AskedContent& asked) {
  const PreparedPicture prepared = net_.preparer().Prepare(asked.bytes, asked.name);
  return AnswerOf(asked, prepared, Run(prepared));
}

NetOutputs PictureAnswers::Run(const PreparedPicture& prepared) {
  net_.PutPrepared(prepared, 0);
  net_.SetState({});  // a picture alone follows no other
  net_.DeployedNet::Run(1);
  NetOutputs outputs;
  for (const std::string& name : Wanted()) {
    const Tensor output = net_.output(name);
    outputs.emplace_back(output.type());
    CopyTensor(output, outputs.back().tensor());
  }
  return outputs;
}

}  // namespace moka
