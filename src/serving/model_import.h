// serving/model_import.h — a model that was made elsewhere becomes a version here, or is refused.
//
// In this order, and nothing of a later step before the one above agreed: an accepted signer signed
// the bytes where the policy demands it, they are of an accepted format
// (security/signing/model_format.h), a confined process opened and ran them, and only then they are
// kept, signed by this server and given a number. What is refused is written down.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "registry/models.h"
#include "security/context.h"
#include "storage/blob.h"

namespace falaj::serving {

inline constexpr std::int64_t kImportBytesMax = std::int64_t{64} << 20;

// Opens the model in a process that can harm nobody and tells its inputs and outputs. FJ-7060 when
// it cannot be opened or run there.
using Inspector = std::function<Result<registry::Signature>(std::string_view onnx)>;

// Thread-safe. May take seconds: not for an event-loop thread.
class ModelImport {
 public:
  ModelImport(registry::Models& models, storage::BlobStore& blobs, Inspector inspect,
              std::string code_version);

  struct File {
    std::string_view bytes;   // At most kImportBytesMax.
    std::string_view bundle;  // OpenSSF model signature (Sigstore bundle), or "".
  };
  // FJ-7060 for a format that is refused, FJ-7061 for a signature that is missing or wrong. A
  // refusal leaves the audit entry "model.refused"; where that cannot be written, its error.
  Result<registry::ModelVersion> add(const security::RequestContext& context,
                                     const std::string& model, const File& file);

 private:
  // Who signed it, and what it takes and gives; nothing is kept.
  Result<registry::ModelVersion> judge(const security::RequestContext& context,
                                       const std::string& model, const File& file) const;

  registry::Models& models_;
  storage::BlobStore& blobs_;
  Inspector inspect_;
  std::string code_version_;
};

}  // namespace falaj::serving
