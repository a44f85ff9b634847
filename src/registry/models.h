// registry/models.h — models, their immutable versions, and the aliases that point at them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/mutex.h"
#include "base/time.h"
#include "base/value.h"
#include "security/audit.h"
#include "security/context.h"
#include "security/signing/model_trust.h"
#include "storage/blob.h"
#include "storage/objects.h"
#include "storage/sql.h"

namespace falaj::registry {

struct TensorSpec {
  std::string name;
  std::string datatype;             // "FP32", "INT64", …
  std::vector<std::int64_t> shape;  // -1 for the batch.
  bool operator==(const TensorSpec&) const = default;
};

struct Signature {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  std::vector<std::string> features;  // Column names of the one input, in order.
};
// {"inputs": [{name, datatype, shape}], "outputs", "features"}; reading is strict.
Value to_value(const Signature& signature);
Result<Signature> signature_from_value(const Value& value);

struct ModelVersion {
  std::string project;
  std::string model;
  std::int64_t version = 0;  // 1, 2, 3 …
  BlobId onnx;               // What is served.
  std::string onnx_sha256;   // Of the file's own bytes; `onnx` names how this store keeps them.
  BlobId native;             // The engine's own file (LightGBM text), or empty.
  std::string native_sha256;
  Signature signature;
  std::string training_set;     // Manifest id.
  std::string feature_service;  // What predict-by-entity reads.
  RunId run;
  std::string code_version;  // falaj's version and build hash.
  std::string zone;
  Value metrics;       // {"auc": …} on the valid split.
  Value proof;         // ONNX equality: {"rows", "mismatches", "max_abs_diff"}.
  std::string signer;  // Who signed it elsewhere, for an imported model; "" otherwise.
  std::string bundle;  // This server's signature over its files; see load_onnx().
  Timestamp created_at{};
};
Value to_value(const ModelVersion& version);
// Whose the model's files are. Needs project, model and zone.
storage::Owner owner_of(const ModelVersion& version);
// Keeps a file of the model for its owner and notes it in `version`, which has project, model and
// zone already.
Status keep_onnx(storage::BlobStore& blobs, std::string_view bytes, ModelVersion& version);
Status keep_native(storage::BlobStore& blobs, std::string_view bytes, ModelVersion& version);

extern const storage::Migration kRegistryMigration;

// kind: Model   spec: {description, aliases?: …}. Created by registration too, if absent.
std::vector<storage::KindInfo> kinds();

// What must be so for an alias to move: a decision about one version is none about another.
struct AliasGuard {
  std::optional<std::int64_t> expected_version;  // Where it must point now; any when absent.
};

// Thread-safe.
class Models {
 public:
  Models(storage::SqlStore& sql, storage::BlobStore& blobs, security::Audit& audit,
         const security::ModelTrust& trust, const Clock& clock);

  // Signs it and gives it the next number. The blobs must be in the store (FJ-5002 otherwise).
  // Registering the same run and file again returns the version it already has: safe to repeat
  // after a crash.
  Result<ModelVersion> add_version(const security::RequestContext& context, ModelVersion version);
  // FJ-5001 naming the model, with what exists.
  Result<ModelVersion> get(const ProjectName& project, const std::string& model,
                           std::int64_t version) const;
  Result<std::vector<ModelVersion>> versions(const ProjectName& project,
                                             const std::string& model) const;
  Result<std::vector<std::string>> models(const ProjectName& project) const;

  // A file that was made elsewhere, before anybody looks into it: FJ-7061 unless security.signing
  // admits its signature for this model. The signer, "" when nobody had to sign.
  Result<std::string> admit_foreign(const security::RequestContext& context,
                                    const std::string& model, std::string_view onnx,
                                    std::string_view bundle) const;
  // Writes down that such a file did not become a version, and why. Returns `why`, or the error of
  // the audit log.
  Error refuse_foreign(const security::RequestContext& context, const std::string& model,
                       std::string_view onnx, Error why) const;

  // The bytes to open, after digest, signature, zone and purpose were found right: the one way to a
  // model's file. FJ-5002 when it cannot be read, FJ-7061 when something differs; the refusal of a
  // version is audited once while the program runs.
  Result<std::string> load_onnx(const ModelVersion& version) const;
  // The size of that file, which is not judged here. FJ-5002 when it cannot be read.
  Result<std::int64_t> onnx_bytes(const ModelVersion& version) const;

  // Moves an alias; `evidence` goes to the audit with the version it pointed at before. FJ-0005,
  // and nothing moves, when it points elsewhere than `guard` expects. Where it is already, it
  // stays, whatever is expected: safe to repeat after a crash.
  Status set_alias(const security::RequestContext& context, const std::string& model,
                   const std::string& alias, std::int64_t version, const Value& evidence,
                   const AliasGuard& guard = {});
  Result<std::optional<std::int64_t>> alias(const ProjectName& project, const std::string& model,
                                            const std::string& alias) const;
  // {"champion": 2}
  Result<Value> aliases(const ProjectName& project, const std::string& model) const;

  // Whose signature every version bears.
  const security::ModelTrust& trust() const { return trust_; }

 private:
  // What the project declares, "" when nothing.
  Result<std::string> purpose(const std::string& project) const;

  storage::SqlStore& sql_;
  storage::BlobStore& blobs_;
  security::Audit& audit_;
  const security::ModelTrust& trust_;
  const Clock& clock_;
  mutable Mutex mutex_;
  // "project/model/version" whose refusal stands in the audit log already.
  mutable std::set<std::string> refused_ FALAJ_GUARDED_BY(mutex_);
};

}  // namespace falaj::registry
