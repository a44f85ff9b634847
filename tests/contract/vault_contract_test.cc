// What every key vault promises, run over the sealed file (both locks) and a real SoftHSM2 token;
// then what only a device can do wrong. To add a vault, add one line to kVaults.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <p11-kit/pkcs11.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <set>
#include <sstream>
#include <thread>

#include "base/log.h"
#include "crypto/aead.h"
#include "security/keys/key_tree.h"
#include "security/keys/key_vault.h"
#include "soft_hsm.h"
#include "storage/open.h"

namespace falaj::security::keys {
namespace {

// Where one vault lives; open() may be called again after the first was dropped.
class Home {
 public:
  virtual ~Home() = default;
  virtual std::unique_ptr<KeyVault> open() = 0;
};

class FileHome final : public Home {
 public:
  explicit FileHome(std::string passphrase) : passphrase_(std::move(passphrase)) {}
  std::unique_ptr<KeyVault> open() override {
    FileVaultOptions options;
    options.path = folder_ / "keys.sealed";
    options.machine_key_path = folder_ / "machine.key";
    options.passphrase = crypto::SecretBytes(passphrase_);
    options.cost = {1, 64 << 10};
    return open_file_vault(std::move(options), IfMissing::kCreate).value();
  }

 private:
  std::string passphrase_;
  storage::TempFolder folder_;
};

class HsmHome final : public Home {
 public:
  std::unique_ptr<KeyVault> open() override { return open_pkcs11_vault(hsm_.options()).value(); }

 private:
  SoftHsm hsm_;
};

struct VaultCase {
  std::string name;
  std::unique_ptr<Home> (*make)();
};
void PrintTo(const VaultCase& one, std::ostream* out) { *out << one.name; }

class VaultContract : public ::testing::TestWithParam<VaultCase> {
 protected:
  void reopen() {
    vault.reset();
    vault = home->open();
  }
  std::unique_ptr<Home> home = GetParam().make();
  std::unique_ptr<KeyVault> vault = home->open();
  const crypto::SecretBytes key = crypto::system_random().key();
};

TEST_P(VaultContract, a_new_vault_is_empty) { EXPECT_TRUE(vault->roots()->empty()); }

TEST_P(VaultContract, roots_keep_their_zone_and_order_over_a_restart) {
  std::vector<std::string> ids;
  for (const char* zone : {"", "ae-fin", "eu", "ae-fin"}) {
    ids.push_back(vault->create_root(Zone(zone), Timestamp::from_seconds(1'780'000'000))->id);
  }
  EXPECT_EQ(std::set<std::string>(ids.begin(), ids.end()).size(), 4U);
  reopen();
  const std::vector<RootKey> roots = vault->roots().value();
  ASSERT_EQ(roots.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(roots[i].id, ids[i]);
  EXPECT_FALSE(roots[0].zone.labelled());
  EXPECT_EQ(roots[1].zone, Zone("ae-fin"));
  EXPECT_EQ(roots[2].zone, Zone("eu"));
  EXPECT_EQ(roots[3].zone, Zone("ae-fin"));
}

TEST_P(VaultContract, what_was_wrapped_unwraps_also_after_a_restart) {
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  const std::string wrapped = vault->wrap(root, key, "aad").value();
  EXPECT_EQ(wrapped.find(key.view()), std::string::npos);
  EXPECT_NE(vault->wrap(root, key, "aad").value(), wrapped);
  reopen();
  EXPECT_EQ(vault->unwrap(root, wrapped, "aad")->view(), key.view());
}

TEST_P(VaultContract, a_wrapped_key_is_bound_to_its_root_and_its_additional_data) {
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  const std::string other = vault->create_root(Zone("eu"), {})->id;
  const std::string wrapped = vault->wrap(root, key, "aad").value();
  EXPECT_EQ(vault->unwrap(root, wrapped, "aaD").error().id, ErrorId::kDecryptFailed);
  EXPECT_EQ(vault->unwrap(root, wrapped, "").error().id, ErrorId::kDecryptFailed);
  EXPECT_EQ(vault->unwrap(other, wrapped, "aad").error().id, ErrorId::kDecryptFailed);
  for (std::size_t i = 0; i < wrapped.size(); ++i) {
    std::string changed = wrapped;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_EQ(vault->unwrap(root, changed, "aad").error().id, ErrorId::kDecryptFailed) << i;
  }
  for (const std::size_t size : {0U, 1U, 20U, 30U}) {
    EXPECT_EQ(vault->unwrap(root, wrapped.substr(0, size), "aad").error().id,
              ErrorId::kDecryptFailed);
  }
  EXPECT_EQ(vault->unwrap(root, wrapped, "aad")->view(), key.view());
}

TEST_P(VaultContract, a_destroyed_root_is_gone_and_the_others_are_not) {
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  const std::string other = vault->create_root(Zone("ae"), {})->id;
  const std::string wrapped = vault->wrap(root, key, "aad").value();
  const std::string kept = vault->wrap(other, key, "aad").value();
  ASSERT_TRUE(vault->destroy_root(root).ok());
  for (int restart = 0; restart < 2; ++restart) {
    EXPECT_EQ(vault->unwrap(root, wrapped, "aad").error().id, ErrorId::kKeyMissing);
    EXPECT_EQ(vault->wrap(root, key, "aad").error().id, ErrorId::kKeyMissing);
    EXPECT_EQ(vault->destroy_root(root).error().id, ErrorId::kKeyMissing);
    EXPECT_EQ(vault->unwrap(other, kept, "aad")->view(), key.view());
    EXPECT_EQ(vault->roots()->size(), 1U);
    reopen();
  }
}

TEST_P(VaultContract, threads_share_it) {
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 30; ++i) {
        const std::string wrapped = vault->wrap(root, key, "aad").value();
        EXPECT_EQ(vault->unwrap(root, wrapped, "aad")->view(), key.view());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(VaultContract, carries_a_key_tree) {
  const auto sql = storage::make_fake_sql();
  const SystemClock clock;
  const KeyScope scope{"payments", Zone("ae-fin"), "FeatureView/activity", "", "blob"};
  std::string wrapped;
  std::string opened;
  {
    const auto tree = open_key_tree(*sql, *vault, clock).value();
    const DataKey made = tree->new_data_key(scope).value();
    wrapped = made.wrapped;
    opened = made.key.view();
    ASSERT_TRUE(tree->rotate({"", Zone("ae-fin"), "", "", ""}).ok());
    ASSERT_TRUE(tree->raise_min_version({"", Zone("ae-fin"), "", "", ""}, 2).ok());
  }
  reopen();
  const auto tree = open_key_tree(*sql, *vault, clock).value();
  EXPECT_EQ(tree->open_data_key(scope, wrapped)->view(), opened);
}

const VaultCase kVaults[] = {
    {"file_machine_key", [] { return std::unique_ptr<Home>(new FileHome("")); }},
    {"file_passphrase", [] { return std::unique_ptr<Home>(new FileHome("open sesame")); }},
    {"softhsm2", [] { return std::unique_ptr<Home>(new HsmHome); }},
};
INSTANTIATE_TEST_SUITE_P(Vaults, VaultContract, ::testing::ValuesIn(kVaults),
                         [](const auto& one) { return one.param.name; });

// ---- What only a device can do wrong ------------------------------------------------------------

class Hsm : public ::testing::Test {
 protected:
  SoftHsm device;
};

TEST_F(Hsm, a_wrong_pin_token_or_module_is_refused_and_says_which) {
  const auto refused = [&](Pkcs11VaultOptions options) {
    const auto opened = open_pkcs11_vault(std::move(options));
    EXPECT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().id, ErrorId::kVaultSealed);
    return opened.error().message;
  };
  EXPECT_NE(refused(device.options("0000")).find("wrong PIN"), std::string::npos);
  Pkcs11VaultOptions options = device.options();
  options.token = "other";
  EXPECT_NE(refused(std::move(options)).find("'other'"), std::string::npos);
  options = device.options();
  options.module = "/nowhere/libhsm.so";
  EXPECT_NE(refused(std::move(options)).find("/nowhere/libhsm.so"), std::string::npos);
  options = device.options();
  options.module = "libc.so.6";
  EXPECT_NE(refused(std::move(options)).find("no PKCS#11 module"), std::string::npos);
  options = device.options();
  options.module = "";
  EXPECT_NE(refused(std::move(options)).find("keys.pkcs11_module"), std::string::npos);
  EXPECT_TRUE(open_pkcs11_vault(device.options()).ok());
}

TEST_F(Hsm, a_device_that_is_down_or_denies_says_so_and_recovers) {
  const auto vault = open_pkcs11_vault(device.options()).value();
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  const crypto::SecretBytes key = crypto::system_random().key();
  const std::string wrapped = vault->wrap(root, key, "aad").value();
  for (const char* how : {"down", "denied"}) {
    device.behave(how);
    EXPECT_EQ(vault->wrap(root, key, "aad").error().id, ErrorId::kVaultSealed) << how;
    EXPECT_EQ(vault->unwrap(root, wrapped, "aad").error().id, ErrorId::kVaultSealed) << how;
    device.behave("");
    EXPECT_EQ(vault->unwrap(root, wrapped, "aad")->view(), key.view()) << how;
  }
  device.behave("down");
  EXPECT_EQ(vault->create_root(Zone("eu"), {}).error().id, ErrorId::kVaultSealed);
  device.behave("");
  EXPECT_EQ(vault->roots()->size(), 1U);
}

TEST_F(Hsm, a_lost_session_is_opened_again) {
  const auto vault = open_pkcs11_vault(device.options()).value();
  const std::string root = vault->create_root(Zone("ae"), {})->id;
  const crypto::SecretBytes key = crypto::system_random().key();
  const std::string wrapped = vault->wrap(root, key, "aad").value();
  device.behave("lost");
  EXPECT_EQ(vault->unwrap(root, wrapped, "aad")->view(), key.view());
  device.behave("lost");
  EXPECT_EQ(vault->roots()->size(), 1U);
}

class TokensOpened final : public log::Sink {
 public:
  TokensOpened() { log::set_sink(this, log::Level::kInfo); }
  ~TokensOpened() override { log::set_sink(nullptr, log::Level::kInfo); }
  void write(log::Level, std::string_view event, const std::vector<log::Field>& fields) override {
    if (event != "PKCS#11 token opened") return;
    std::string line;
    for (const log::Field& field : fields) {
      line += std::string(field.key) + "=" + std::get<std::string>(field.value) + " ";
    }
    lines.push_back(line);
  }
  std::vector<std::string> lines;
};

// As the device's own tool tells it.
std::string serial_number() {
  std::FILE* const said = ::popen("softhsm2-util --show-slots", "r");
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), said));
  ::pclose(said);
  const std::string before = "Serial number:";
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return "";
  std::istringstream rest(text.substr(at + before.size()));
  std::string serial;
  rest >> serial;
  return serial;
}

TEST_F(Hsm, which_token_was_opened_is_logged_each_time) {
  TokensOpened log;
  EXPECT_FALSE(open_pkcs11_vault(device.options("0815")).ok());
  EXPECT_TRUE(log.lines.empty()) << "it was not";
  const std::string serial = serial_number();
  ASSERT_EQ(serial.size(), 16u);
  const auto vault = open_pkcs11_vault(device.options()).value();
  const std::vector<std::string> once{"token=falaj serial=" + serial + " "};
  EXPECT_EQ(log.lines, once);
  device.behave("lost");
  EXPECT_TRUE(vault->roots().ok());
  EXPECT_EQ(log.lines, (std::vector<std::string>{once[0], once[0]}));
}

// A slow device holds up what needs it, not what is in memory.
TEST_F(Hsm, a_slow_device_does_not_hold_up_keys_that_are_in_memory) {
  const auto vault = open_pkcs11_vault(device.options()).value();
  const auto sql = storage::make_fake_sql();
  const SystemClock clock;
  const auto tree = open_key_tree(*sql, *vault, clock).value();
  const KeyScope scope{"payments", Zone("ae-fin"), "FeatureView/activity", "", "blob"};
  const DataKey made = tree->new_data_key(scope).value();
  ASSERT_TRUE(tree->stable_key(scope).ok());

  const std::string gate = device.folder() / "gate";
  ASSERT_EQ(::mkfifo(gate.c_str(), 0600), 0);
  device.behave("gate " + gate);
  std::thread waiting([&] {
    EXPECT_TRUE(tree->new_data_key({"payments", Zone("eu"), "Model/m", "", "blob"}).ok());
  });
  const int fd = ::open(gate.c_str(), O_WRONLY);  // Returns when the device waits at the gate.
  ASSERT_GE(fd, 0);
  EXPECT_NE(tree->kept_key(scope), nullptr);
  EXPECT_EQ(tree->open_data_key(scope, made.wrapped)->view(), made.key.view());
  EXPECT_TRUE(tree->new_data_key(scope).ok());
  ASSERT_EQ(::write(fd, "x", 1), 1);
  waiting.join();
  ::close(fd);
}

// The promise that the key stays in the device, asked of the device itself.
TEST_F(Hsm, root_keys_cannot_be_taken_out) {
  const auto vault = open_pkcs11_vault(device.options()).value();
  ASSERT_TRUE(vault->create_root(Zone("ae"), {}).ok());
  void* const library = ::dlopen(FALAJ_SOFTHSM_MODULE, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  CK_FUNCTION_LIST* call = nullptr;
  ASSERT_EQ(reinterpret_cast<CK_C_GetFunctionList>(::dlsym(library, "C_GetFunctionList"))(&call),
            CKR_OK);
  CK_SLOT_ID slots[8];
  CK_ULONG count = 8;
  ASSERT_EQ(call->C_GetSlotList(CK_TRUE, slots, &count), CKR_OK);
  CK_SESSION_HANDLE session = 0;
  ASSERT_EQ(call->C_OpenSession(slots[0], CKF_SERIAL_SESSION, nullptr, nullptr, &session), CKR_OK);
  CK_OBJECT_CLASS secret = CKO_SECRET_KEY;
  CK_ATTRIBUTE wanted{CKA_CLASS, &secret, sizeof secret};
  ASSERT_EQ(call->C_FindObjectsInit(session, &wanted, 1), CKR_OK);
  CK_OBJECT_HANDLE object = 0;
  ASSERT_EQ(call->C_FindObjects(session, &object, 1, &count), CKR_OK);
  ASSERT_EQ(count, 1U);
  ASSERT_EQ(call->C_FindObjectsFinal(session), CKR_OK);
  unsigned char value[64];
  CK_ATTRIBUTE content{CKA_VALUE, value, sizeof value};
  EXPECT_EQ(call->C_GetAttributeValue(session, object, &content, 1), CKR_ATTRIBUTE_SENSITIVE);
  call->C_CloseSession(session);
}

}  // namespace
}  // namespace falaj::security::keys
