// registry/model_file.h — a model's file on its way out of the server.
#pragma once

#include <string>

#include "registry/models.h"
#include "security/audit.h"

namespace falaj::registry {

enum class ModelFile : std::uint8_t { kOnnx, kNative };  // model.onnx, model.txt of the signature.

struct ModelFileRequest {
  std::string model;
  std::int64_t version = 0;
  ModelFile file = ModelFile::kOnnx;
};

// The file as it was registered, audited before it is handed out ("model.export"). FJ-5001 for a
// version that there is not, kNotFound when it has no such file (an imported model has no native
// one), FJ-5002 when the file does not match its recorded hash.
Result<std::string> export_file(const Models& models, const storage::BlobStore& blobs,
                                security::Audit& audit, const security::RequestContext& context,
                                const ModelFileRequest& request);

}  // namespace falaj::registry
