// serving/model_import.h — a model that was made elsewhere becomes a version here, or is refused.
//
// In this order, and nothing of a later step before the one above agreed: an accepted signer signed
// the bytes where the policy demands it, they are of an accepted format
// (security/signing/model_format.h), a confined process opened and ran them (and turned LightGBM's
// text or XGBoost's JSON into ONNX, which it proved equal), and only then they are kept, signed by
// this server and given a number. What is refused is written down.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "registry/models.h"
#include "security/context.h"
#include "storage/blob.h"

namespace falaj::serving {

inline constexpr std::int64_t kImportBytesMax = std::int64_t{64} << 20;

// What a process that can harm nobody made of the model.
struct Inspected {
  registry::Signature signature;
  std::string onnx;  // What a model in another format was turned into; "" for ONNX.
  Value proof;       // That both answer alike; null for ONNX.
};
// FJ-7060 when the model cannot be opened, turned or run there.
using Inspector = std::function<Result<Inspected>(std::string_view model)>;

// Thread-safe. May take seconds: not for an event-loop thread.
class ModelImport {
 public:
  ModelImport(registry::Models& models, storage::BlobStore& blobs, Inspector inspect,
              std::string code_version);

  struct File {
    std::string_view bytes;   // At most kImportBytesMax.
    std::string_view bundle;  // OpenSSF model signature (Sigstore bundle), or "".
    // The version of this model that it is a faster or smaller form of; 0: of none.
    std::int64_t optimized_from = 0;
  };
  // With `optimized_from`, the new version says so ("optimized_from" of its proof, with the hash of
  // the original's file) and takes over that one's training set and feature service, so that it can
  // stand in for it. FJ-5001 when there is no such version, FJ-7060 when it takes or gives other
  // tensors, FJ-0006 when that one is of another zone.
  //
  // FJ-7060 for a format that is refused, FJ-7061 for a signature that is missing or wrong. A
  // refusal leaves the audit entry "model.refused"; where that cannot be written, its error.
  Result<registry::ModelVersion> add(const security::RequestContext& context,
                                     const std::string& model, const File& file);

 private:
  struct Judged {
    std::string signer;
    Inspected inspected;
  };
  // Who signed it, and what it takes and gives; nothing is kept.
  Result<Judged> judge(const security::RequestContext& context, const std::string& model,
                       const File& file) const;

  registry::Models& models_;
  storage::BlobStore& blobs_;
  Inspector inspect_;
  std::string code_version_;
};

}  // namespace falaj::serving
