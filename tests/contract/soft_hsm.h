// A SoftHSM2 token of its own for one test: a real PKCS#11 device made of files.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <string>

#include "security/keys/key_vault.h"
#include "storage/testing/temp_folder.h"

namespace falaj::security::keys {

class SoftHsm {
 public:
  // FALAJ_SOFTHSM_MODULE and FALAJ_PKCS11_SHIM come from CMakeLists.txt.
  SoftHsm() {
    std::ofstream(folder_ / "softhsm2.conf")
        << "directories.tokendir = " << folder_.path() << "\nobjectstore.backend = file\n"
        << "log.level = ERROR\n";
    ::setenv("SOFTHSM2_CONF", (folder_ / "softhsm2.conf").c_str(), 1);
    ::setenv("FALAJ_SHIM_MODULE", FALAJ_SOFTHSM_MODULE, 1);
    ::setenv("FALAJ_SHIM_CONTROL", control().c_str(), 1);
    const int made = std::system(
        "softhsm2-util --init-token --free --label falaj --pin 4711 --so-pin 87654321 >/dev/null");
    EXPECT_EQ(made, 0) << "softhsm2-util failed: ./dev setup installs it";
  }

  Pkcs11VaultOptions options(std::string_view pin = "4711") const {
    Pkcs11VaultOptions made;
    made.module = FALAJ_PKCS11_SHIM;
    made.token = "falaj";
    made.pin = crypto::SecretBytes(pin);
    return made;
  }

  // What the shim does from now on; see pkcs11_shim.c.
  void behave(const std::string& how) const { std::ofstream(control()) << how; }
  std::string control() const { return folder_ / "control"; }
  const storage::TempFolder& folder() const { return folder_; }

 private:
  storage::TempFolder folder_;
};

}  // namespace falaj::security::keys
