#include "serving/model_import.h"

#include <optional>

#include "base/decode.h"
#include "security/signing/model_format.h"

namespace falaj::serving {
namespace {

Status check_turned(std::string_view onnx) {
  const Result<security::ModelFormat> format = security::recognise_model(onnx);
  if (format.ok() && *format == security::ModelFormat::kOnnx) return {};
  return Error{ErrorId::kModelFormatRefused, "the model was not turned into ONNX"};
}

// Whether the one can stand in for the other: the same tensors in, the same out.
Status check_stand_in(const registry::ModelVersion& original,
                      const registry::Signature& signature) {
  const bool same = signature.inputs == original.signature.inputs &&
                    signature.outputs == original.signature.outputs &&
                    signature.features == original.signature.features;
  if (same) return {};
  return Error{ErrorId::kModelFormatRefused, "it takes or gives other tensors than version " +
                                                 std::to_string(original.version) +
                                                 ", which it is said to be made from"};
}

void note_origin(const registry::ModelVersion& original, registry::ModelVersion& version) {
  version.training_set = original.training_set;
  version.feature_service = original.feature_service;
  version.proof["optimized_from"]["version"] = original.version;
  version.proof["optimized_from"]["onnx"] = original.onnx_sha256;
}

}  // namespace

ModelImport::ModelImport(registry::Models& models, storage::BlobStore& blobs, Inspector inspect,
                         std::string code_version)
    : models_(models),
      blobs_(blobs),
      inspect_(std::move(inspect)),
      code_version_(std::move(code_version)) {}

Result<ModelImport::Judged> ModelImport::judge(const security::RequestContext& context,
                                               const std::string& model, const File& file) const {
  Judged judged;
  judged.signer = FALAJ_TRY(models_.admit_foreign(context, model, file.bytes, file.bundle));
  const security::ModelFormat format = FALAJ_TRY(security::recognise_model(file.bytes));
  judged.inspected = FALAJ_TRY(inspect_(file.bytes));
  if (format == security::ModelFormat::kOnnx) {
    judged.inspected.onnx.clear();
  } else {
    // The process that read a stranger's file is not believed either.
    FALAJ_TRY(check_turned(judged.inspected.onnx));
  }
  return judged;
}

Result<registry::ModelVersion> ModelImport::add(const security::RequestContext& context,
                                                const std::string& model, const File& file) {
  FALAJ_TRY(check_name("model", model));
  std::optional<registry::ModelVersion> original;
  if (file.optimized_from != 0) {
    original = FALAJ_TRY(models_.get(context.project, model, file.optimized_from));
    if (original->zone != context.zone.name()) {
      return Error{Code::kFailedPrecondition, "version " + std::to_string(original->version) +
                                                  " is of zone " + original->zone +
                                                  ", the project is now of another"};
    }
  }
  Result<Judged> judged = judge(context, model, file);
  if (judged.ok() && original) {
    const Status same = check_stand_in(*original, judged->inspected.signature);
    if (!same.ok()) judged = same.error();
  }
  if (!judged.ok()) {
    return models_.refuse_foreign(context, model, file.bytes, std::move(judged).error());
  }
  registry::ModelVersion version;
  version.signer = std::move(judged->signer);
  version.signature = std::move(judged->inspected.signature);
  version.proof = std::move(judged->inspected.proof);
  if (original) note_origin(*original, version);
  const std::string& turned = judged->inspected.onnx;
  version.project = context.project.str();
  version.model = model;
  version.zone = context.zone.name();
  version.code_version = code_version_;
  FALAJ_TRY(registry::keep_onnx(blobs_, turned.empty() ? file.bytes : turned, version));
  if (!turned.empty()) FALAJ_TRY(registry::keep_native(blobs_, file.bytes, version));
  return models_.add_version(context, std::move(version));
}

}  // namespace falaj::serving
