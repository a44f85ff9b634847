#include "serving/model_import.h"

#include "base/decode.h"
#include "security/signing/model_format.h"

namespace falaj::serving {

ModelImport::ModelImport(registry::Models& models, storage::BlobStore& blobs, Inspector inspect,
                         std::string code_version)
    : models_(models),
      blobs_(blobs),
      inspect_(std::move(inspect)),
      code_version_(std::move(code_version)) {}

Result<registry::ModelVersion> ModelImport::judge(const security::RequestContext& context,
                                                  const std::string& model,
                                                  const File& file) const {
  registry::ModelVersion version;
  version.signer = FALAJ_TRY(models_.admit_foreign(context, model, file.bytes, file.bundle));
  const security::ModelFormat format = FALAJ_TRY(security::recognise_model(file.bytes));
  if (format != security::ModelFormat::kOnnx) {
    return Error{ErrorId::kModelFormatRefused,
                 "the file is a model of " + std::string(security::format_name(format)) +
                     ", which cannot be served as it is; train it here, or export it to ONNX"};
  }
  version.signature = FALAJ_TRY(inspect_(file.bytes));
  return version;
}

Result<registry::ModelVersion> ModelImport::add(const security::RequestContext& context,
                                                const std::string& model, const File& file) {
  FALAJ_TRY(check_name("model", model));
  Result<registry::ModelVersion> judged = judge(context, model, file);
  if (!judged.ok()) {
    return models_.refuse_foreign(context, model, file.bytes, std::move(judged).error());
  }
  registry::ModelVersion version = *std::move(judged);
  version.project = context.project.str();
  version.model = model;
  version.zone = context.zone.name();
  version.code_version = code_version_;
  FALAJ_TRY(registry::keep_onnx(blobs_, file.bytes, version));
  return models_.add_version(context, std::move(version));
}

}  // namespace falaj::serving
