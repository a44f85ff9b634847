// security/keys/testing/key_world.h — a whole key tree in memory, for tests of what stands above.
#pragma once

#include <memory>

#include "base/check.h"
#include "base/time.h"
#include "crypto/testing/fake_random.h"
#include "security/keys/key_tree.h"
#include "security/keys/testing/fake_vault.h"
#include "storage/open.h"

namespace falaj::security::keys::testing {

struct KeyWorld {
  FakeClock clock;
  crypto::testing::FakeRandom random{20'261'116};
  std::unique_ptr<storage::SqlStore> sql = storage::make_fake_sql();
  FakeKeyVault vault{random};
  std::unique_ptr<KeyTree> tree = opened();

  // As after a restart: nothing in memory.
  void reopen() {
    tree.reset();
    tree = opened();
  }

 private:
  std::unique_ptr<KeyTree> opened() {
    Result<std::unique_ptr<KeyTree>> made = open_key_tree(*sql, vault, clock, {}, random);
    FALAJ_CHECK(made.ok());
    return std::move(made).value();
  }
};

}  // namespace falaj::security::keys::testing
