// A type that is not said (old writers) is taken from what is asked for.
#include "tools/exchange/import/node_attributes.h"

#include "core/error.h"
#include "core/text.h"
#include "tools/exchange/import/onnx_tensors.h"

namespace moka {

using Attribute = onnx::AttributeProto;

const Attribute* NodeAttributes::Find(std::string_view name) const {
  if (asked_ != nullptr) asked_->emplace(name);
  for (const Attribute& attribute : node_->attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const Attribute* NodeAttributes::OfType(std::string_view name, Attribute::AttributeType type) const {
  const Attribute* found = Find(name);
  if (found == nullptr || !found->has_type() || found->type() == type) return found;
  throw Error(ErrorKind::kConfig, StrCat("its attribute \"", name, "\" is of another type than ONNX says"));
}

int64_t NodeAttributes::Int(std::string_view name, int64_t fallback) const {
  const Attribute* found = OfType(name, Attribute::INT);
  return found == nullptr ? fallback : found->i();
}

double NodeAttributes::Float(std::string_view name, double fallback) const {
  const Attribute* found = OfType(name, Attribute::FLOAT);
  return found == nullptr ? fallback : static_cast<double>(found->f());
}

std::string NodeAttributes::Text(std::string_view name, std::string_view fallback) const {
  const Attribute* found = OfType(name, Attribute::STRING);
  return found == nullptr ? std::string(fallback) : found->s();
}

Ints NodeAttributes::List(std::string_view name, Ints fallback) const {
  const Attribute* found = OfType(name, Attribute::INTS);
  return found == nullptr ? std::move(fallback) : Ints(found->ints().begin(), found->ints().end());
}

std::vector<float> NodeAttributes::Floats(std::string_view name) const {
  const Attribute* found = OfType(name, Attribute::FLOATS);
  if (found == nullptr) return {};
  return {found->floats().begin(), found->floats().end()};
}

std::optional<OnnxTensor> NodeAttributes::Tensor(std::string_view name) const {
  const Attribute* found = OfType(name, Attribute::TENSOR);
  if (found == nullptr) return std::nullopt;
  onnx::TensorProto tensor = found->t();
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL)
    throw Error(ErrorKind::kConfig, StrCat("its attribute \"", name, "\" lies in another file"));
  return OnnxTensorReader({}, {}).Read(tensor, std::string(name));
}

}  // namespace moka
