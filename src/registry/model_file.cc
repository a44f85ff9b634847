#include "registry/model_file.h"

#include "base/hash.h"

namespace falaj::registry {

Result<std::string> export_file(const Models& models, const storage::BlobStore& blobs,
                                security::Audit& audit, const security::RequestContext& context,
                                const ModelFileRequest& request) {
  const ModelVersion version =
      FALAJ_TRY(models.get(context.project, request.model, request.version));
  const bool onnx = request.file == ModelFile::kOnnx;
  const BlobId& blob = onnx ? version.onnx : version.native;
  const std::string& sha256 = onnx ? version.onnx_sha256 : version.native_sha256;
  if (blob.empty()) {
    return Error(Code::kNotFound, "model '" + request.model + "' version " +
                                      std::to_string(request.version) +
                                      " was imported: it has no file but its ONNX file");
  }
  std::string bytes = FALAJ_TRY(blobs.get(owner_of(version), blob));
  if (sha256_hex(bytes) != sha256) {
    return Error(ErrorId::kModelCorrupt, "model '" + request.model + "' version " +
                                             std::to_string(request.version) +
                                             ": the file is not the one that was registered");
  }
  Value detail;
  detail["sha256"] = sha256;
  detail["zone"] = version.zone;
  FALAJ_TRY(audit.record(context, {"model.export",
                                   "ModelVersion/" + version.project + "/" + version.model + "/" +
                                       std::to_string(version.version),
                                   std::move(detail)}));
  return bytes;
}

}  // namespace falaj::registry
