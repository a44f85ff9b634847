// security/testing/model_trust.h — a signing key that lives as long as a test.
#pragma once

#include <memory>

#include "security/signing/model_trust.h"
#include "storage/open.h"

namespace falaj::security {

class TestModelTrust {
 public:
  const ModelTrust& get() const { return *trust_; }

 private:
  static std::unique_ptr<ModelTrust> made(storage::SqlStore& store) {
    static_cast<void>(store.migrate({kSigningMigration}).ok());
    const crypto::SecretBytes key(crypto::kKeyBytes);
    return ModelTrust::open(store, key, "").value();
  }
  std::unique_ptr<storage::SqlStore> store_ = storage::make_fake_sql();
  std::unique_ptr<ModelTrust> trust_ = made(*store_);
};

}  // namespace falaj::security
