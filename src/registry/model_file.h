// registry/model_file.h — a model's file on its way out of the server.
#pragma once

#include <string>

#include "registry/models.h"
#include "security/audit.h"

namespace falaj::registry {

struct ModelFileRequest {
  std::string model;
  std::int64_t version = 0;
};

// The ONNX file as it was registered, audited before it is handed out ("model.export"). FJ-5001 for
// a version that there is not, FJ-5002 when the file does not match its recorded hash.
Result<std::string> export_onnx(const Models& models, const storage::BlobStore& blobs,
                                security::Audit& audit, const security::RequestContext& context,
                                const ModelFileRequest& request);

}  // namespace falaj::registry
