#include "crypto/pkcs11/token.h"

#include <dlfcn.h>
#include <p11-kit/pkcs11.h>

#include <array>
#include <cstring>
#include <functional>
#include <map>

#include "base/log.h"
#include "base/mutex.h"
#include "crypto/aead.h"

namespace falaj::crypto {
namespace {

Error device_error(const std::string& what) { return Error{ErrorId::kVaultSealed, what}; }

std::string rv_name(CK_RV rv) {
  switch (rv) {
    case CKR_PIN_INCORRECT:
      return "wrong PIN";
    case CKR_PIN_LOCKED:
      return "the PIN is locked";
    case CKR_PIN_LEN_RANGE:
      return "the PIN has a wrong length";
    case CKR_TOKEN_NOT_PRESENT:
      return "no token";
    case CKR_DEVICE_REMOVED:
      return "the device was removed";
    case CKR_DEVICE_ERROR:
      return "device error";
    case CKR_DEVICE_MEMORY:
      return "the device is full";
    case CKR_FUNCTION_FAILED:
      return "the device refused";
    case CKR_GENERAL_ERROR:
      return "general error";
    default:
      break;
  }
  char text[32];
  std::snprintf(text, sizeof text, "CKR 0x%lx", rv);
  return text;
}

Error failed(std::string_view what, CK_RV rv) {
  return device_error("the HSM: " + std::string(what) + ": " + rv_name(rv));
}

// True where a fresh session may help.
bool session_lost(CK_RV rv) {
  return rv == CKR_SESSION_HANDLE_INVALID || rv == CKR_SESSION_CLOSED ||
         rv == CKR_USER_NOT_LOGGED_IN || rv == CKR_DEVICE_REMOVED || rv == CKR_KEY_HANDLE_INVALID ||
         rv == CKR_OBJECT_HANDLE_INVALID || rv == CKR_OPERATION_ACTIVE;
}

unsigned char* octets(const void* data) {
  return static_cast<unsigned char*>(const_cast<void*>(data));  // The ABI knows no const.
}

// A loaded module. It may be initialised once in a process, so all tokens share it.
class Module {
 public:
  static Result<std::shared_ptr<Module>> load(const std::string& path);
  ~Module() { functions_->C_Finalize(nullptr); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CK_FUNCTION_LIST& call() const { return *functions_; }

 private:
  explicit Module(CK_FUNCTION_LIST* functions) : functions_(functions) {}
  CK_FUNCTION_LIST* const functions_;
};

Result<std::shared_ptr<Module>> Module::load(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, std::weak_ptr<Module>> loaded;
  const MutexLock lock(mutex);
  if (std::shared_ptr<Module> there = loaded[path].lock()) return there;
  // Never unloaded: libraries of that kind leave threads and exit handlers behind.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return device_error("keys.pkcs11_module: " + std::string(why != nullptr ? why : path));
  }
  const auto get_list =
      reinterpret_cast<CK_C_GetFunctionList>(::dlsym(library, "C_GetFunctionList"));
  CK_FUNCTION_LIST* functions = nullptr;
  if (get_list == nullptr || get_list(&functions) != CKR_OK || functions == nullptr) {
    return device_error("keys.pkcs11_module: " + path + " is no PKCS#11 module");
  }
  CK_C_INITIALIZE_ARGS arguments{};
  arguments.flags = CKF_OS_LOCKING_OK;
  const CK_RV rv = functions->C_Initialize(&arguments);
  if (rv != CKR_OK && rv != CKR_CRYPTOKI_ALREADY_INITIALIZED) return failed("start", rv);
  std::shared_ptr<Module> module(new Module(functions));
  loaded[path] = module;
  return module;
}

// Texts of fixed length, filled up with blanks.
template <std::size_t N>
std::string without_padding(const unsigned char (&text)[N]) {
  std::string out(reinterpret_cast<const char*>(text), N);
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

class Token final : public Pkcs11Token {
 public:
  Token(std::shared_ptr<Module> module, Pkcs11Options options, Random& random)
      : module_(std::move(module)), options_(std::move(options)), random_(random) {}
  ~Token() override {
    const MutexLock lock(mutex_);
    close_session();
  }

  Status connect() {
    const MutexLock lock(mutex_);
    return open_session();
  }

  Result<std::vector<TokenKey>> keys(std::string_view prefix) override;
  Status generate(const TokenKey& key) override;
  Result<std::string> seal(const std::string& id, std::string_view plaintext,
                           std::string_view aad) override;
  Result<SecretBytes> open_sealed(const std::string& id, std::string_view sealed,
                                  std::string_view aad) override;
  Status destroy(const std::string& id) override;

 private:
  // Runs `body`; if the session was lost, once more in a new one. Leaves the last answer in `rv`.
  Result<CK_RV> with_session(const std::function<CK_RV()>& body) FALAJ_REQUIRES(mutex_);
  Status open_session() FALAJ_REQUIRES(mutex_);
  Status log_in() FALAJ_REQUIRES(mutex_);
  void close_session() FALAJ_REQUIRES(mutex_);
  // The first slot that has the token; its serial number.
  struct Slot {
    CK_SLOT_ID id;
    std::string serial;
  };
  Result<Slot> find_slot() const;
  CK_RV find_handles(CK_ATTRIBUTE* wanted, CK_ULONG count, std::vector<CK_OBJECT_HANDLE>& found)
      FALAJ_REQUIRES(mutex_);
  CK_RV handle_of(const std::string& id, CK_OBJECT_HANDLE& handle) FALAJ_REQUIRES(mutex_);
  Result<std::string> text_of(CK_OBJECT_HANDLE object, CK_ATTRIBUTE_TYPE type)
      FALAJ_REQUIRES(mutex_);

  CK_FUNCTION_LIST& call() const { return module_->call(); }

  const std::shared_ptr<Module> module_;
  const Pkcs11Options options_;
  Random& random_;
  Mutex mutex_;
  CK_SESSION_HANDLE session_ FALAJ_GUARDED_BY(mutex_) = CK_INVALID_HANDLE;
  bool pin_refused_ FALAJ_GUARDED_BY(mutex_) = false;
};

Result<Token::Slot> Token::find_slot() const {
  std::array<CK_SLOT_ID, 64> slots{};
  CK_ULONG count = slots.size();
  const CK_RV rv = call().C_GetSlotList(CK_TRUE, slots.data(), &count);
  if (rv != CKR_OK) return failed("list slots", rv);
  std::string padded = options_.token;
  padded.resize(32, ' ');
  std::string labels;
  for (CK_ULONG i = 0; i < count; ++i) {
    CK_TOKEN_INFO info{};
    if (call().C_GetTokenInfo(slots[i], &info) != CKR_OK) continue;
    if (std::memcmp(info.label, padded.data(), 32) == 0) {
      return Slot{slots[i], without_padding(info.serialNumber)};
    }
    const std::string label = without_padding(info.label);
    if (!label.empty()) labels += (labels.empty() ? "'" : ", '") + label + "'";
  }
  return device_error("the HSM has no token labelled '" + options_.token + "', but " +
                      (labels.empty() ? "none that has a label" : labels) +
                      "; SoftHSM2 looks where SOFTHSM2_CONF says: is it set for this process?");
}

Status Token::open_session() {
  close_session();
  const auto [slot, serial] = FALAJ_TRY(find_slot());
  CK_MECHANISM_INFO gcm{};
  const CK_RV known = call().C_GetMechanismInfo(slot, CKM_AES_GCM, &gcm);
  const CK_FLAGS both = CKF_ENCRYPT | CKF_DECRYPT;
  if (known != CKR_OK || (gcm.flags & both) != both) {
    return device_error("the HSM cannot do AES-GCM (CKM_AES_GCM)");
  }
  const CK_RV opened =
      call().C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, nullptr, nullptr, &session_);
  if (opened != CKR_OK) {
    session_ = CK_INVALID_HANDLE;
    return failed("open a session", opened);
  }
  Status logged_in = log_in();
  if (!logged_in.ok()) {
    close_session();
    return logged_in;
  }
  // Two tokens may have one label: which of them it is shows by the serial number alone.
  log::info("PKCS#11 token opened", {{"token", options_.token}, {"serial", serial}});
  return {};
}

Status Token::log_in() {
  if (pin_refused_) return device_error("the HSM refused the PIN before; it is not tried again");
  const CK_RV rv =
      call().C_Login(session_, CKU_USER, octets(options_.pin.data()), options_.pin.size());
  if (rv == CKR_OK || rv == CKR_USER_ALREADY_LOGGED_IN) return {};
  pin_refused_ = rv == CKR_PIN_INCORRECT || rv == CKR_PIN_LOCKED || rv == CKR_PIN_LEN_RANGE;
  return failed("log in", rv);
}

void Token::close_session() {
  if (session_ != CK_INVALID_HANDLE) call().C_CloseSession(session_);
  session_ = CK_INVALID_HANDLE;
}

Result<CK_RV> Token::with_session(const std::function<CK_RV()>& body) {
  if (session_ == CK_INVALID_HANDLE) FALAJ_TRY(open_session());
  CK_RV rv = body();
  if (session_lost(rv)) {
    FALAJ_TRY(open_session());
    rv = body();
  }
  return rv;
}

CK_RV Token::find_handles(CK_ATTRIBUTE* wanted, CK_ULONG count,
                          std::vector<CK_OBJECT_HANDLE>& found) {
  found.clear();
  CK_RV rv = call().C_FindObjectsInit(session_, wanted, count);
  if (rv != CKR_OK) return rv;
  std::array<CK_OBJECT_HANDLE, 64> some{};
  CK_ULONG got = 0;
  do {
    rv = call().C_FindObjects(session_, some.data(), some.size(), &got);
    if (rv == CKR_OK) found.insert(found.end(), some.begin(), some.begin() + got);
  } while (rv == CKR_OK && got > 0);
  call().C_FindObjectsFinal(session_);
  return rv;
}

// CKR_OK with CK_INVALID_HANDLE when there is no such key.
CK_RV Token::handle_of(const std::string& id, CK_OBJECT_HANDLE& handle) {
  CK_OBJECT_CLASS secret = CKO_SECRET_KEY;
  CK_ATTRIBUTE wanted[] = {{CKA_CLASS, &secret, sizeof secret},
                           {CKA_ID, octets(id.data()), id.size()}};
  std::vector<CK_OBJECT_HANDLE> found;
  const CK_RV rv = find_handles(wanted, 2, found);
  handle = found.empty() ? CK_INVALID_HANDLE : found.front();
  return rv;
}

Result<std::string> Token::text_of(CK_OBJECT_HANDLE object, CK_ATTRIBUTE_TYPE type) {
  CK_ATTRIBUTE attribute{type, nullptr, 0};
  CK_RV rv = call().C_GetAttributeValue(session_, object, &attribute, 1);
  if (rv != CKR_OK || attribute.ulValueLen > 4'096) return failed("read a key's name", rv);
  std::string text(attribute.ulValueLen, '\0');
  attribute.pValue = text.data();
  rv = call().C_GetAttributeValue(session_, object, &attribute, 1);
  if (rv != CKR_OK) return failed("read a key's name", rv);
  return text;
}

Result<std::vector<TokenKey>> Token::keys(std::string_view prefix) {
  const MutexLock lock(mutex_);
  CK_OBJECT_CLASS secret = CKO_SECRET_KEY;
  CK_KEY_TYPE aes = CKK_AES;
  CK_ATTRIBUTE wanted[] = {{CKA_CLASS, &secret, sizeof secret}, {CKA_KEY_TYPE, &aes, sizeof aes}};
  std::vector<CK_OBJECT_HANDLE> found;
  const CK_RV rv = FALAJ_TRY(
      with_session([&]() FALAJ_REQUIRES(mutex_) { return find_handles(wanted, 2, found); }));
  if (rv != CKR_OK) return failed("list keys", rv);
  std::vector<TokenKey> keys;
  for (const CK_OBJECT_HANDLE object : found) {
    TokenKey key;
    key.label = FALAJ_TRY(text_of(object, CKA_LABEL));
    if (!key.label.starts_with(prefix)) continue;
    key.id = FALAJ_TRY(text_of(object, CKA_ID));
    keys.push_back(std::move(key));
  }
  return keys;
}

Status Token::generate(const TokenKey& key) {
  const MutexLock lock(mutex_);
  CK_MECHANISM mechanism{CKM_AES_KEY_GEN, nullptr, 0};
  CK_BBOOL yes = CK_TRUE;
  CK_BBOOL no = CK_FALSE;
  CK_ULONG bytes = kKeyBytes;
  CK_ATTRIBUTE wanted[] = {{CKA_TOKEN, &yes, sizeof yes},
                           {CKA_PRIVATE, &yes, sizeof yes},
                           {CKA_SENSITIVE, &yes, sizeof yes},
                           {CKA_EXTRACTABLE, &no, sizeof no},
                           {CKA_ENCRYPT, &yes, sizeof yes},
                           {CKA_DECRYPT, &yes, sizeof yes},
                           {CKA_VALUE_LEN, &bytes, sizeof bytes},
                           {CKA_ID, octets(key.id.data()), key.id.size()},
                           {CKA_LABEL, octets(key.label.data()), key.label.size()}};
  CK_OBJECT_HANDLE made = CK_INVALID_HANDLE;
  const CK_RV rv = FALAJ_TRY(with_session([&]() FALAJ_REQUIRES(mutex_) {
    return call().C_GenerateKey(session_, &mechanism, wanted, std::size(wanted), &made);
  }));
  return rv == CKR_OK ? Status() : failed("make a key", rv);
}

CK_MECHANISM gcm_mechanism(CK_GCM_PARAMS& parameters) {
  return {CKM_AES_GCM, &parameters, sizeof parameters};
}

CK_GCM_PARAMS gcm_parameters(std::string_view nonce, std::string_view aad) {
  return {octets(nonce.data()), kGcmNonceBytes, kGcmNonceBytes * 8,
          octets(aad.data()),   aad.size(),     kTagBytes * 8};
}

Result<std::string> Token::seal(const std::string& id, std::string_view plaintext,
                                std::string_view aad) {
  const MutexLock lock(mutex_);
  std::string sealed = random_.bytes(kGcmNonceBytes);
  CK_GCM_PARAMS parameters = gcm_parameters(sealed, aad);
  CK_MECHANISM mechanism = gcm_mechanism(parameters);
  std::string out(plaintext.size() + kTagBytes, '\0');
  CK_ULONG size = out.size();
  CK_OBJECT_HANDLE key = CK_INVALID_HANDLE;
  const CK_RV rv = FALAJ_TRY(with_session([&]() FALAJ_REQUIRES(mutex_) {
    CK_RV step = handle_of(id, key);
    if (step != CKR_OK || key == CK_INVALID_HANDLE) return step;
    step = call().C_EncryptInit(session_, &mechanism, key);
    if (step != CKR_OK) return step;
    size = out.size();
    return call().C_Encrypt(session_, octets(plaintext.data()), plaintext.size(),
                            octets(out.data()), &size);
  }));
  if (rv != CKR_OK) return failed("wrap a key", rv);
  if (key == CK_INVALID_HANDLE) return Error{ErrorId::kKeyMissing, "the HSM has no such key"};
  if (size != out.size()) return device_error("the HSM: it wrapped a key to a wrong length");
  return sealed + out;
}

Result<SecretBytes> Token::open_sealed(const std::string& id, std::string_view sealed,
                                       std::string_view aad) {
  if (sealed.size() < kGcmNonceBytes + kTagBytes) return decrypt_failed();
  const MutexLock lock(mutex_);
  CK_GCM_PARAMS parameters = gcm_parameters(sealed.substr(0, kGcmNonceBytes), aad);
  CK_MECHANISM mechanism = gcm_mechanism(parameters);
  const std::string_view body = sealed.substr(kGcmNonceBytes);
  SecretBytes out(body.size());  // Some modules want room for the tag too.
  CK_ULONG size = out.size();
  CK_OBJECT_HANDLE key = CK_INVALID_HANDLE;
  const CK_RV rv = FALAJ_TRY(with_session([&]() FALAJ_REQUIRES(mutex_) {
    CK_RV step = handle_of(id, key);
    if (step != CKR_OK || key == CK_INVALID_HANDLE) return step;
    step = call().C_DecryptInit(session_, &mechanism, key);
    if (step != CKR_OK) return step;
    size = out.size();
    return call().C_Decrypt(session_, octets(body.data()), body.size(), out.data(), &size);
  }));
  // These are how modules say "the tag does not fit" (SoftHSM2: general error); anything else is
  // the device's own trouble.
  if (rv == CKR_ENCRYPTED_DATA_INVALID || rv == CKR_ENCRYPTED_DATA_LEN_RANGE ||
      rv == CKR_DATA_INVALID || rv == CKR_GENERAL_ERROR) {
    return decrypt_failed();
  }
  if (rv != CKR_OK) return failed("unwrap a key", rv);
  if (key == CK_INVALID_HANDLE) return Error{ErrorId::kKeyMissing, "the HSM has no such key"};
  if (size != body.size() - kTagBytes) return decrypt_failed();
  return SecretBytes(out.view().substr(0, size));
}

Status Token::destroy(const std::string& id) {
  const MutexLock lock(mutex_);
  CK_OBJECT_HANDLE key = CK_INVALID_HANDLE;
  const CK_RV rv = FALAJ_TRY(with_session([&]() FALAJ_REQUIRES(mutex_) {
    const CK_RV step = handle_of(id, key);
    if (step != CKR_OK || key == CK_INVALID_HANDLE) return step;
    return call().C_DestroyObject(session_, key);
  }));
  if (rv != CKR_OK) return failed("destroy a key", rv);
  if (key == CK_INVALID_HANDLE) return Error{ErrorId::kKeyMissing, "the HSM has no such key"};
  return {};
}

}  // namespace

Result<std::unique_ptr<Pkcs11Token>> Pkcs11Token::open(Pkcs11Options options, Random& random) {
  if (options.module.empty()) return device_error("keys.pkcs11_module is not set");
  std::shared_ptr<Module> module = FALAJ_TRY(Module::load(options.module));
  auto token = std::make_unique<Token>(std::move(module), std::move(options), random);
  FALAJ_TRY(token->connect());
  return std::unique_ptr<Pkcs11Token>(std::move(token));
}

}  // namespace falaj::crypto
